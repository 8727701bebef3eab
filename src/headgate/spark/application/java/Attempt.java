package headgate;

import java.io.Serializable;

import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnaryExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * The value of an expression, or the message of the error that evaluating it raised: ``struct(value, error)``.
 *
 * It is interpreted. Generated code would compute what several expressions have in common before any of them, and
 * outside of what catches its errors.
 */
public class Attempt extends UnaryExpression implements CodegenFallback, Serializable {

    private final Expression child;

    public Attempt(Expression child) {
        this.child = child;
    }

    public TreeNode child() {
        return child;
    }

    public DataType dataType() {
        StructField[] fields = new StructField[2];
        fields[0] = new StructField("value", child.dataType(), true, Metadata.empty());
        fields[1] = new StructField("error", DataTypes.StringType, true, Metadata.empty());
        return new StructType(fields);
    }

    public boolean nullable() {
        return false;
    }

    public boolean foldable() {
        return false;
    }

    public Object eval(InternalRow tuple) {
        Object[] found = new Object[2];
        try {
            found[0] = child.eval(tuple);
        } catch (TaskKilledException killed) {
            throw killed;
        } catch (RuntimeException error) {
            found[1] = UTF8String.fromString(reason(error));
        }
        return new GenericInternalRow(found);
    }

    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.doGenCode$(this, context, code);
    }

    public TreeNode withNewChildInternal(TreeNode other) {
        return new Attempt((Expression) other);
    }

    public int productArity() {
        return 1;
    }

    public Object productElement(int place) {
        return child;
    }

    public boolean canEqual(Object other) {
        return other instanceof Attempt;
    }

    public boolean equals(Object other) {
        return other instanceof Attempt && child.equals(((Attempt) other).child);
    }

    public int hashCode() {
        return 31 * child.hashCode() + 1;
    }

    /** What has happened, without Spark's error class and its advice about settings of Spark. */
    private static String reason(RuntimeException error) {
        String message = error.getMessage();
        if (message == null || message.trim().isEmpty()) {
            return error.getClass().getSimpleName();
        }
        String line = message.trim().split("\n")[0];
        if (line.startsWith("[") && line.indexOf("] ") > 0) {
            line = line.substring(line.indexOf("] ") + 2);
        }
        String[] ends = {" SQLSTATE", " If necessary set", " Use `"};
        for (int i = 0; i < ends.length; i++) {
            int end = line.indexOf(ends[i]);
            line = end > 0 ? line.substring(0, end) : line;
        }
        return line.endsWith(".") ? line.substring(0, line.length() - 1) : line;
    }

    /** Makes an attempt of the one argument of a call. */
    public static class Builder extends AbstractFunction1 {

        public Object apply(Object arguments) {
            return new Attempt((Expression) ((Seq) arguments).apply(0));
        }
    }
}
