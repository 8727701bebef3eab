package headgate;

import java.io.Serializable;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnaryExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * The value that a BIGINT had a number of rows before, in the order in which one task processes them.
 *
 * Over rows in descending order it is what ``lead`` finds in ascending order. Spark's ``lead`` copies all rows of a task into a
 * buffer first; this remembers one number for each row of the window.
 */
public class Later extends UnaryExpression implements CodegenFallback, Serializable {

    private final Expression child;
    private final int distance;
    private transient TaskContext task;
    private transient long[] values;
    private transient long count;

    public Later(Expression child, int distance) {
        this.child = child;
        this.distance = distance;
    }

    public TreeNode child() {
        return child;
    }

    public DataType dataType() {
        return DataTypes.LongType;
    }

    public boolean nullable() {
        return true;
    }

    public boolean foldable() {
        return false;
    }

    /** Spark must neither evaluate it twice nor filter or reorder rows below it. */
    public boolean deterministic() {
        return false;
    }

    public Object eval(InternalRow tuple) {
        TaskContext current = TaskContext.get();
        if (values == null || current != task) {
            task = current;
            values = new long[distance];
            count = 0L;
        }
        int place = (int) (count % distance);
        Object found = null;
        if (count >= distance) {
            found = Long.valueOf(values[place]);
        }
        values[place] = ((Long) child.eval(tuple)).longValue();
        count++;
        return found;
    }

    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.doGenCode$(this, context, code);
    }

    public TreeNode withNewChildInternal(TreeNode other) {
        return new Later((Expression) other, distance);
    }

    public int productArity() {
        return 2;
    }

    public Object productElement(int place) {
        return place == 0 ? (Object) child : (Object) Integer.valueOf(distance);
    }

    public boolean canEqual(Object other) {
        return other instanceof Later;
    }

    public boolean equals(Object other) {
        return other instanceof Later && distance == ((Later) other).distance && child.equals(((Later) other).child);
    }

    public int hashCode() {
        return 31 * child.hashCode() + distance;
    }

    /** Reads the two arguments of a call. */
    public static class Builder extends AbstractFunction1 {

        public Object apply(Object arguments) {
            Seq given = (Seq) arguments;
            Object distance = ((Literal) given.apply(1)).value();
            return new Later((Expression) given.apply(0), ((Integer) distance).intValue());
        }
    }
}
