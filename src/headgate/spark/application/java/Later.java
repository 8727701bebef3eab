package headgate;

import java.io.Serializable;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnaryExpression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * The value that a BIGINT had a number of rows before, in the order in which one task processes them.
 *
 * Over rows in descending order it is what ``lead`` finds in ascending order. Spark's ``lead`` copies all rows of a task into a
 * buffer first; this remembers one number for each row of the window.
 */
public class Later extends UnaryExpression implements Serializable {

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

    /** Fields of a generated class are those of one task. */
    public ExprCode doGenCode(CodegenContext context, ExprCode found) {
        String values = context.addMutableState("long[]", "laterValues", new Initially("new long[" + distance + "]"), true, true);
        String count = context.addMutableState("long", "laterCount", new Initially("0L"), true, true);
        String place = context.freshName("place");
        ExprCode own = child.genCode(context);
        String text = "int " + place + " = (int) (" + count + " % " + distance + ");\n"
            + "boolean " + found.isNull() + " = " + count + " < " + distance + ";\n"
            + "long " + found.value() + " = " + values + "[" + place + "];\n"
            + values + "[" + place + "] = " + own.value() + ";\n"
            + count + "++;\n";
        CodeBlock block = new CodeBlock(Nil$.MODULE$.$colon$colon(text), Nil$.MODULE$);
        return found.copy(own.code().$plus(block), found.isNull(), found.value());
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

    /** The statement that gives a field of a generated class its first value. */
    private static class Initially extends AbstractFunction1 {

        private final String value;

        Initially(String value) {
            this.value = value;
        }

        public Object apply(Object field) {
            return field + " = " + value + ";";
        }
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
