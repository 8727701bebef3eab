package headgate;

import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

import org.apache.hadoop.fs.Path;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.WriteFilesExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractPartialFunction;

/**
 * Physical plans that are executed again and again over other inputs and with other bounds.
 *
 * Spark analyses, optimizes and plans a query in some hundred passes over its tree. The queries of a tick differ
 * from those of the tick before in three things only: the RDDs and files that they read, the numbers in arrays of
 * two equal elements, and the folder that they write to. All three are replaced in a copy of the physical plan.
 */
public class PhysicalPlans {

    /** Numbers computed from a placeholder lie within this distance, if anything that bounds are added to does. */
    private static final long LEEWAY = 1L << 56;

    private final SparkSession session;
    private final long first;
    private final long step;
    private final SerializableConfiguration settings;
    private final Map inputs = new ConcurrentHashMap();
    private final Map templates = new ConcurrentHashMap();

    /** The placeholders of bounds are ``first`` and every ``step`` from there on. */
    public PhysicalPlans(SparkSession session, long first, long step) {
        this.session = session;
        settings = new SerializableConfiguration(session.sessionState().newHadoopConf());
        this.first = first;
        this.step = step;
    }

    /** Let a name stand for an RDD or a relation of files, from now on. */
    public void setInput(String name, Object leaf) {
        inputs.put(name, leaf);
    }

    /** Forget a plan. */
    public void remove(String key) {
        templates.remove(key);
    }

    /**
     * Plan a query whose bounds are placeholders, consecutive numbers.
     *
     * @param names of the inputs, separated by line breaks
     * @param format of the files to be written; null if rows are only counted
     * @return why the plan cannot be executed again; null if it can
     */
    public String prepare(
            String key, LogicalPlan query, String names, int bounds, String format,
            scala.collection.immutable.Map options) {
        if (!query.deterministic() || query.containsPattern(TreePattern.CURRENT_LIKE())) {
            return "its values differ from one execution to the next";
        }
        LogicalPlan command = query;
        if (format != null) {
            command = new DataSource(
                session, format, (Seq) Nil$.MODULE$, Option.empty(), (Seq) Nil$.MODULE$, Option.empty(), options,
                Option.empty(), Option.empty()).planForWriting(SaveMode.Overwrite, query);
        }
        SparkPlan plan = session.sessionState().executePlan(command, CommandExecutionMode.SKIP()).executedPlan();
        Template template = new Template(plan, names.split("\n"), bounds);
        String obstacle = template.obstacle();
        if (obstacle == null) {
            templates.put(key, template);
        }
        return obstacle;
    }

    /**
     * Execute a plan over the present inputs.
     *
     * @param bounds separated by commas
     * @return the observed metrics as JSON; null if there is no such plan
     */
    public String run(String key, String bounds, String path) {
        Template template = (Template) templates.get(key);
        if (template == null) {
            return null;
        }
        SparkSession.setActiveSession(session);
        final SparkPlan plan = template.bound(bounds, path);
        SQLExecution.withSQLConfPropagated(session, new AbstractFunction0() {
            public Object apply() {
                return plan instanceof DataWritingCommandExec ? (Object) plan.executeCollect() : (Object) plan.execute().count();
            }
        });
        CollectMetricsExec observed = observed(plan);
        return observed == null ? "{}" : observed.collectedMetrics().json();
    }

    /** Whether one task can execute a plan without preparation. */
    public boolean isLight(String key) {
        Template template = (Template) templates.get(key);
        return template != null && template.isLight(template.plan);
    }

    /**
     * Execute light plans, all in one task of one job.
     *
     * @param keys separated by line breaks, as are the bounds and paths of each plan
     * @return a JSON object for each, with its observed metrics and its seconds;
     *     null if a plan is missing, or one task cannot read its inputs
     */
    public String runInOneJob(String keys, String bounds, String paths) throws java.io.IOException {
        String[] key = keys.split("\n"), bound = bounds.split("\n", -1), path = paths.split("\n", -1);
        SparkSession.setActiveSession(session);
        Template[] chosen = new Template[key.length];
        for (int i = 0; i < key.length; i++) {
            chosen[i] = (Template) templates.get(key[i]);
            if (chosen[i] == null) {
                return null;
            }
        }
        final LightPlan[] plans = new LightPlan[key.length];
        for (int i = 0; i < key.length; i++) {
            plans[i] = chosen[i].takeLight();
            if (!plans[i].bind(inputs, numbers(bound[i]), path[i])) {
                return null;
            }
        }
        double[] seconds = (double[]) SQLExecution.withSQLConfPropagated(session, new AbstractFunction0() {
            public Object apply() {
                return LightPlan.run(session.sparkContext(), plans);
            }
        });
        StringBuilder found = new StringBuilder("[");
        for (int i = 0; i < plans.length; i++) {
            CollectMetricsExec observed = observed(plans[i].plan());
            found.append(i > 0 ? "," : "").append("{\"seconds\":").append(seconds[i]).append(",\"found\":");
            found.append(observed == null ? "{}" : observed.collectedMetrics().json()).append("}");
            chosen[i].light.add(plans[i]);
        }
        return found.append("]").toString();
    }

    private static long[] numbers(String bounds) {
        String[] texts = bounds.isEmpty() ? new String[0] : bounds.split(",");
        long[] numbers = new long[texts.length];
        for (int i = 0; i < texts.length; i++) {
            numbers[i] = Long.parseLong(texts[i]);
        }
        return numbers;
    }

    private static CollectMetricsExec observed(SparkPlan plan) {
        if (plan instanceof CollectMetricsExec) {
            return (CollectMetricsExec) plan;
        }
        Seq children = (Seq) plan.children();
        for (int i = 0; i < children.size(); i++) {
            CollectMetricsExec found = observed((SparkPlan) children.apply(i));
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** The number of a bound that a literal stands for: an array of two, or what the optimizer has made of it. */
    private static Long number(Literal literal) {
        if (literal.value() instanceof Long) {
            return (Long) literal.value();
        }
        if (!(literal.value() instanceof ArrayData) || !(literal.dataType() instanceof ArrayType)
                || !(((ArrayType) literal.dataType()).elementType() instanceof LongType)) {
            return null;
        }
        ArrayData array = (ArrayData) literal.value();
        if (array.numElements() != 2 || array.isNullAt(0) || array.isNullAt(1)
                || array.getLong(0) != array.getLong(1)) {
            return null;
        }
        return Long.valueOf(array.getLong(0));
    }

    /** Which bound a literal stands for; -1 if none. */
    private int place(Literal literal, int bounds) {
        Long number = number(literal);
        if (number == null || number.longValue() < first || (number.longValue() - first) % step != 0) {
            return -1;
        }
        long place = (number.longValue() - first) / step;
        return place < bounds ? (int) place : -1;
    }

    /** Whether a literal may have been computed from a placeholder. */
    private boolean isSuspicious(Literal literal) {
        Object value = literal.value();
        return value instanceof Long && ((Long) value).longValue() >= first - LEEWAY
            || value instanceof Double && Math.abs(((Double) value).doubleValue()) >= first - LEEWAY
            && Math.abs(((Double) value).doubleValue()) <= Long.MAX_VALUE;
    }

    /** What stands in a copy of a plan in place of its inputs, bounds and folder. */
    private interface Rewriting {

        Object input(String name);

        Object bound(int place);

        String path();
    }

    private class Template {

        private final SparkPlan plan;
        private final String[] names;
        private final int bounds;
        private final Object[] leaves;
        /** Copies that are not being executed at the moment. */
        private final Queue light = new ConcurrentLinkedQueue();

        Template(SparkPlan plan, String[] names, int bounds) {
            this.plan = plan;
            this.names = names;
            this.bounds = bounds;
            leaves = new Object[names.length];
            for (int i = 0; i < names.length; i++) {
                leaves[i] = inputs.get(names[i]);
            }
        }

        /** Whether it reads rows in memory, exchanges none between tasks, and has no bound that is a plain number. */
        boolean isLight(SparkPlan node) {
            boolean is = !(node instanceof Exchange) && !(node instanceof FileSourceScanExec)
                && !node.getClass().getName().contains(".python.") && !hasPlainBound((Seq) node.expressions());
            if (node instanceof DataWritingCommandExec) {
                is = ((DataWritingCommandExec) node).child() instanceof WriteFilesExec;
            }
            Seq children = (Seq) node.children();
            for (int i = 0; is && i < children.size(); i++) {
                is = isLight((SparkPlan) children.apply(i));
            }
            return is;
        }

        private boolean hasPlainBound(Seq expressions) {
            boolean has = false;
            for (int i = 0; !has && i < expressions.size(); i++) {
                Expression expression = (Expression) expressions.apply(i);
                has = expression instanceof Literal && isSuspicious((Literal) expression)
                    || hasPlainBound((Seq) expression.children());
            }
            return has;
        }

        LightPlan takeLight() throws java.io.IOException {
            LightPlan found = (LightPlan) light.poll();
            if (found != null) {
                return found;
            }
            final LightPlan made = new LightPlan();
            made.prepare(session, settings, rewritten(new Rewriting() {
                public Object input(String name) {
                    return made.slot(session.sparkContext(), name);
                }

                public Object bound(int place) {
                    return made.array(place, first + place * step);
                }

                public String path() {
                    return null;
                }
            }));
            return made;
        }

        /** Why the plan cannot be executed again; null if it can. */
        String obstacle() {
            boolean[] found = new boolean[bounds];
            String obstacle = obstacle(plan, found);
            for (int i = 0; obstacle == null && i < bounds; i++) {
                if (!found[i]) {
                    obstacle = "bound " + i + " is not in the plan";
                }
            }
            return obstacle;
        }

        private String obstacle(SparkPlan node, boolean[] found) {
            if (node instanceof ReusedExchangeExec || !((Seq) node.subqueries()).isEmpty()) {
                return "it refers to another part of its plan";
            }
            Seq children = (Seq) node.children();
            if (children.isEmpty() && place(node) < 0 && !isConstant(node)) {
                return "it reads " + node.nodeName();
            }
            Seq expressions = (Seq) node.expressions();
            String obstacle = null;
            for (int i = 0; obstacle == null && i < expressions.size(); i++) {
                obstacle = obstacle((Expression) expressions.apply(i), found);
            }
            for (int i = 0; obstacle == null && i < children.size(); i++) {
                obstacle = obstacle((SparkPlan) children.apply(i), found);
            }
            return obstacle;
        }

        private String obstacle(Expression expression, boolean[] found) {
            if (expression instanceof Literal) {
                int place = PhysicalPlans.this.place((Literal) expression, found.length);
                if (place >= 0) {
                    found[place] = true;
                } else if (isSuspicious((Literal) expression)) {
                    return "the optimizer has computed " + expression;
                }
            }
            Seq children = (Seq) expression.children();
            String obstacle = null;
            for (int i = 0; obstacle == null && i < children.size(); i++) {
                obstacle = obstacle((Expression) children.apply(i), found);
            }
            return obstacle;
        }

        /** Whether a leaf holds the same rows in every tick, as stored relations do. */
        private boolean isConstant(SparkPlan node) {
            return node instanceof InMemoryTableScanExec || node instanceof LocalTableScanExec;
        }

        /** What distinguishes inputs: an RDD, or a list of files, as planning may change the relation around it. */
        private Object source(Object leaf) {
            return leaf instanceof HadoopFsRelation ? ((HadoopFsRelation) leaf).location() : leaf;
        }

        private int place(SparkPlan node) {
            Object source = null;
            if (node instanceof RDDScanExec) {
                source = ((RDDScanExec) node).rdd();
            } else if (node instanceof FileSourceScanExec) {
                source = source(((FileSourceScanExec) node).relation());
            }
            for (int i = 0; source != null && i < leaves.length; i++) {
                if (source(leaves[i]) == source) {
                    return i;
                }
            }
            return -1;
        }

        SparkPlan bound(String bounds, final String path) {
            final long[] numbers = numbers(bounds);
            return rewritten(new Rewriting() {
                public Object input(String name) {
                    return inputs.get(name);
                }

                public Object bound(int place) {
                    return UnsafeArrayData.fromPrimitiveArray(new long[] {numbers[place], numbers[place]});
                }

                public String path() {
                    return path;
                }
            });
        }

        /** A copy with other inputs and bounds, and with another folder unless there is none. */
        private SparkPlan rewritten(final Rewriting by) {
            final AbstractPartialFunction literals = new AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return node instanceof Literal;
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    int place = node instanceof Literal
                        ? PhysicalPlans.this.place((Literal) node, bounds) : -1;
                    if (place >= 0) {
                        Literal literal = (Literal) node;
                        ArrayData array = (ArrayData) by.bound(place);
                        boolean isPlain = literal.value() instanceof Long;
                        return new Literal(isPlain ? (Object) Long.valueOf(array.getLong(0)) : array, literal.dataType());
                    }
                    return otherwise.apply(node);
                }
            };
            // a copy of its own, so that accumulators and broadcasts of an earlier execution are not met
            SparkPlan copy = (SparkPlan) ((org.apache.spark.sql.catalyst.trees.TreeNode) plan).clone();
            return (SparkPlan) copy.transformUp(new AbstractPartialFunction() {
                public boolean isDefinedAt(Object node) {
                    return true;
                }

                public Object applyOrElse(Object node, scala.Function1 otherwise) {
                    SparkPlan changed = (SparkPlan) node;
                    int place = place(changed);
                    if (place >= 0) {
                        changed = reading(changed, by.input(names[place]));
                    } else if (changed instanceof DataWritingCommandExec && by.path() != null) {
                        changed = writing((DataWritingCommandExec) changed, by.path());
                    }
                    return ((org.apache.spark.sql.catalyst.plans.QueryPlan) changed).transformExpressions(literals);
                }
            });
        }

        private SparkPlan reading(SparkPlan node, Object leaf) {
            if (node instanceof RDDScanExec) {
                RDDScanExec scan = (RDDScanExec) node;
                return new RDDScanExec(
                    scan.output(), (RDD) leaf, scan.name(), scan.outputPartitioning(), scan.outputOrdering(),
                    scan.stream());
            }
            FileSourceScanExec scan = (FileSourceScanExec) node;
            Object[] arguments = new Object[scan.productArity()];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = scan.productElement(i);
            }
            HadoopFsRelation old = scan.relation();
            arguments[0] = new HadoopFsRelation(
                ((HadoopFsRelation) leaf).location(), old.partitionSchema(), old.dataSchema(), old.bucketSpec(),
                old.fileFormat(), old.options(), old.sparkSession());
            return (SparkPlan) ((org.apache.spark.sql.catalyst.trees.TreeNode) scan).makeCopy(arguments);
        }

        private SparkPlan writing(DataWritingCommandExec node, String path) {
            InsertIntoHadoopFsRelationCommand command = (InsertIntoHadoopFsRelationCommand) node.cmd();
            return new DataWritingCommandExec(
                command.copy(
                    new Path(path), command.staticPartitions(), command.ifPartitionNotExists(),
                    command.partitionColumns(), command.bucketSpec(), command.fileFormat(), command.options(),
                    command.query(), command.mode(), command.catalogTable(), command.fileIndex(),
                    command.outputColumnNames()),
                node.child());
        }
    }
}
