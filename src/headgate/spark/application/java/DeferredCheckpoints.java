package headgate;

import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.RDDCheckpointData;
import org.apache.spark.storage.RDDInfo;
import scala.Option;
import scala.runtime.AbstractFunction1;

/**
 * Local checkpoints that take place once nothing reads their RDDs.
 *
 * Spark notes in an RDD that it is checkpointed at the end of the first job that has computed it. For that it takes
 * the lock of all checkpoints, and then that of the RDD. A job that is planned meanwhile in another thread takes them
 * in reverse, and the two wait for each other for ever.
 */
public class DeferredCheckpoints {

    /** Take the mark of a local checkpoint from an RDD, whose rows stay in memory all the same. */
    public Option defer(RDD rows) {
        Option checkpoint = rows.checkpointData();
        rows.checkpointData_$eq(Option.empty());
        return checkpoint;
    }

    /**
     * Put the mark back, and checkpoint the RDD. No job may read it meanwhile.
     *
     * @return whether that was done: what no job has read stays as it is
     */
    public boolean complete(RDD rows, Option checkpoint) {
        if (!isRead(rows)) {
            return false;
        }
        rows.checkpointData_$eq(checkpoint);
        ((RDDCheckpointData) checkpoint.get()).checkpoint();
        return true;
    }

    private static boolean isRead(final RDD rows) {
        RDDInfo[] found = rows.context().getRDDStorageInfo(new AbstractFunction1() {
            public Object apply(Object other) {
                return Boolean.valueOf(other == rows);
            }
        });
        return found.length > 0;
    }
}
