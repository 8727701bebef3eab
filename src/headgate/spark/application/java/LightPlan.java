package headgate;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.UnionRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.WriteFilesSpec;
import org.apache.spark.sql.execution.datasources.WriteJobDescription;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * A plan that one task executes, again and again, without being prepared for it each time.
 *
 * Spark turns a physical plan into RDDs before every execution: it generates code, looks up its compiled form,
 * and examines closures, which takes longer than a thousand rows. Here this happens once. Inputs are slots, into
 * which an RDD is put; bounds are arrays, whose elements are overwritten; so is the folder of the files. Tasks are
 * given copies of all three as they are when the job starts.
 *
 * Several such plans share one job. Files are written where they belong, without the folders that make it safe to
 * repeat a task: on one machine, a job whose task fails has failed, and who repeats it replaces all of its files.
 */
public class LightPlan {

    private static final ClassTag ANYTHING = ClassTag$.MODULE$.Any();

    private final List slots = new ArrayList();
    private final List arrays = new ArrayList();
    private final List places = new ArrayList();
    private SparkPlan plan;
    private RDD rows;
    private Direct files;
    private WriteJobDescription description;

    /** An input to be read in place of another; ``name`` is that of the input. */
    RDD slot(SparkContext context, String name) {
        Slot slot = new Slot(context, name);
        slots.add(slot);
        return slot;
    }

    /** An array in place of a bound; until it is set, a number of its own keeps Spark from taking it for another one. */
    UnsafeArrayData array(int place, long number) {
        UnsafeArrayData array = UnsafeArrayData.fromPrimitiveArray(new long[] {number, number});
        arrays.add(array);
        places.add(Integer.valueOf(place));
        return array;
    }

    /** Turn the plan, which reads the slots and arrays, into RDDs; ``shared`` are settings that all plans have. */
    void prepare(SparkSession session, SerializableConfiguration shared, SparkPlan plan) throws java.io.IOException {
        this.plan = plan;
        if (!(plan instanceof DataWritingCommandExec)) {
            rows = plan.execute();
            return;
        }
        files = new Direct();
        description = description(
            session, shared, (InsertIntoHadoopFsRelationCommand) ((DataWritingCommandExec) plan).cmd());
        SparkPlan child = ((DataWritingCommandExec) plan).child();
        rows = child.executeWrite(new WriteFilesSpec(description, files, new AbstractFunction1() {
            public Object apply(Object child) {
                return Option.empty();
            }
        }));
    }

    private static WriteJobDescription description(
            SparkSession session, SerializableConfiguration shared, InsertIntoHadoopFsRelationCommand command)
            throws java.io.IOException {
        Seq columns = command.outputColumns();
        Job job = Job.getInstance(session.sessionState().newHadoopConfWithOptions(command.options()));
        job.setOutputKeyClass(Void.class);
        job.setOutputValueClass(InternalRow.class);
        FileOutputFormat.setOutputPath(job, command.outputPath());
        OutputWriterFactory writers = command.fileFormat().prepareWrite(
            session, job, command.options(), DataTypeUtils.fromAttributes(columns));
        return new WriteJobDescription(
            "", new Settings(job.getConfiguration(), shared), writers, columns, columns,
            (Seq) Nil$.MODULE$, Option.empty(), "", scala.collection.immutable.Map$.MODULE$.empty(),
            session.sessionState().conf().maxRecordsPerFile(),
            session.sessionState().conf().sessionLocalTimeZone(), (Seq) Nil$.MODULE$);
    }

    /**
     * Set what the next execution reads and where it writes, replacing files of an earlier attempt.
     *
     * @return whether one task can read the inputs
     */
    boolean bind(Map inputs, long[] numbers, String path) throws java.io.IOException {
        for (int i = 0; i < slots.size(); i++) {
            if (!((Slot) slots.get(i)).fill(inputs)) {
                return false;
            }
        }
        for (int i = 0; i < arrays.size(); i++) {
            UnsafeArrayData array = (UnsafeArrayData) arrays.get(i);
            long number = numbers[((Integer) places.get(i)).intValue()];
            array.setLong(0, number);
            array.setLong(1, number);
        }
        if (files != null) {
            files.folder = path;
            Path folder = new Path(path);
            folder.getFileSystem(description.serializableHadoopConf().value()).delete(folder, true);
        }
        plan.resetMetrics();
        return true;
    }

    /** Let go of the inputs, whose rows have been read. */
    private void release() {
        for (int i = 0; i < slots.size(); i++) {
            ((Slot) slots.get(i)).release();
        }
    }

    SparkPlan plan() {
        return plan;
    }

    /** Execute bound plans one after the other in one task; returns the seconds of each. */
    static double[] run(SparkContext context, LightPlan[] plans) {
        RDD[] timed = new RDD[plans.length];
        for (int i = 0; i < plans.length; i++) {
            timed[i] = new Timed(plans[i].rows, i);
        }
        Seq all = ArraySeq.unsafeWrapArray(timed);
        RDD together = new UnionRDD(context, all, ANYTHING).coalesce(1, false, Option.empty(), null);
        Object[] found = (Object[]) together.collect();
        for (int i = 0; i < plans.length; i++) {
            plans[i].release();
        }
        double[] seconds = new double[plans.length];
        for (int i = 0; i < found.length; i++) {
            double[] one = (double[]) found[i];
            seconds[(int) one[0]] += one[1];
        }
        return seconds;
    }

    /** Measures how long the rows of a plan take. */
    private static class Timed extends RDD {

        private final int number;

        Timed(RDD rows, int number) {
            super(rows, ANYTHING);
            this.number = number;
        }

        public Partition[] getPartitions() {
            return firstParent(ANYTHING).partitions();
        }

        public Iterator compute(Partition split, TaskContext context) {
            long started = System.nanoTime();
            Iterator rows = firstParent(ANYTHING).iterator(split, context);
            while (rows.hasNext()) {
                rows.next();
            }
            double seconds = (System.nanoTime() - started) / 1e9;
            return scala.collection.Iterator$.MODULE$.single(new double[] {number, seconds});
        }
    }

    /** The rows of whatever RDD was put into it, as one partition. */
    private static class Slot extends RDD {

        private final String name;
        private RDD content;
        private Partition[] parts;

        Slot(SparkContext context, String name) {
            super(context, (Seq) Nil$.MODULE$, ANYTHING);
            this.name = name;
        }

        boolean fill(Map inputs) {
            content = (RDD) inputs.get(name);
            parts = content.partitions();
            return isOneStage(content);
        }

        /** Whether an RDD is computed without a shuffle; tasks know the ancestors that have been looked up here. */
        private static boolean isOneStage(RDD rdd) {
            Seq dependencies = rdd.dependencies();
            boolean is = true;
            for (int i = 0; is && i < dependencies.size(); i++) {
                Dependency dependency = (Dependency) dependencies.apply(i);
                is = !(dependency instanceof ShuffleDependency) && isOneStage(dependency.rdd());
            }
            return is;
        }

        void release() {
            content = null;
            parts = null;
        }

        public Partition[] getPartitions() {
            return new Partition[] {new Whole()};
        }

        public Iterator compute(Partition split, TaskContext context) {
            return new Parts(content, parts, context);
        }
    }

    private static class Whole implements Partition {

        public int index() {
            return 0;
        }

        public boolean org$apache$spark$Partition$$super$equals(Object other) {
            return super.equals(other);
        }

        public boolean equals(Object other) {
            return other instanceof Whole;
        }

        public int hashCode() {
            return 0;
        }
    }

    /** The rows of one partition after the other. */
    private static class Parts extends AbstractIterator {

        private final RDD content;
        private final Partition[] parts;
        private final TaskContext context;
        private int next;
        private Iterator rows = scala.collection.Iterator$.MODULE$.empty();

        Parts(RDD content, Partition[] parts, TaskContext context) {
            this.content = content;
            this.parts = parts;
            this.context = context;
        }

        public boolean hasNext() {
            while (!rows.hasNext() && next < parts.length) {
                rows = content.iterator(parts[next], context);
                next++;
            }
            return rows.hasNext();
        }

        public Object next() {
            hasNext();
            return rows.next();
        }
    }

    /** Settings of Hadoop, of which tasks are sent the difference from those that all plans of a job share. */
    private static class Settings extends SerializableConfiguration {

        private final Difference difference;

        Settings(Configuration settings, SerializableConfiguration shared) {
            super(settings);
            Map changed = new HashMap();
            java.util.Iterator all = settings.iterator();
            while (all.hasNext()) {
                Map.Entry one = (Map.Entry) all.next();
                if (!one.getValue().equals(shared.value().getRaw((String) one.getKey()))) {
                    changed.put(one.getKey(), one.getValue());
                }
            }
            difference = new Difference(shared, changed);
        }

        public Object writeReplace() {
            return difference;
        }
    }

    private static class Difference implements java.io.Serializable {

        private final SerializableConfiguration shared;
        private final Map changed;

        Difference(SerializableConfiguration shared, Map changed) {
            this.shared = shared;
            this.changed = changed;
        }

        public Object readResolve() {
            Configuration settings = new Configuration(shared.value());
            java.util.Iterator all = changed.entrySet().iterator();
            while (all.hasNext()) {
                Map.Entry one = (Map.Entry) all.next();
                settings.set((String) one.getKey(), (String) one.getValue());
            }
            return new SerializableConfiguration(settings);
        }
    }

    /** Writes files where they belong. */
    private static class Direct extends FileCommitProtocol implements java.io.Serializable {

        private String folder;
        private int files;

        public void setupJob(JobContext job) {
        }

        public void commitJob(JobContext job, Seq messages) {
        }

        public void abortJob(JobContext job) {
        }

        public void setupTask(TaskAttemptContext task) {
        }

        public String newTaskTempFile(TaskAttemptContext task, Option subfolder, FileNameSpec name) {
            // the branches of a union are partitions of one task
            return folder + "/" + name.prefix() + "part-" + files++ + name.suffix();
        }

        public FileCommitProtocol.TaskCommitMessage commitTask(TaskAttemptContext task) {
            return new FileCommitProtocol.TaskCommitMessage(null);
        }

        public void abortTask(TaskAttemptContext task) {
        }
    }
}
