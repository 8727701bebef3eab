"""Getting a SparkSession: one of our own, or a private view of the user's."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import SetupError
from headgate.spark import jvm
from headgate.spark.java import JavaHome, prepare_java
from headgate.spark.local_disk import use_local_files
from headgate.spark.lookups import remember_lookups

# per session: changes nothing for other users of the same Spark application
_SESSION_SETTINGS = {
    # plans stay the same from tick to tick; the engine itself knows the sizes and gives hints
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # where one task is wanted, Spark's estimate of a join's size must not bring a shuffle
    "spark.sql.maxSinglePartitionBytes": str(2**60),
    # with it, a union of parts that are one task each would be one task as a whole
    "spark.sql.unionOutputPartitioning": "false",
    # stages of like text, such as the slices of a join, are one class to Java, compiled once
    "spark.sql.codegen.useIdInClassName": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    # rows of file streams do not come with the micro-batch, so its plan must not open their files
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true",
    # more files than this are looked up by a job of their own, which takes longer than looking
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # with it, Spark cannot read text of which no column is wanted
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    # what a job has written is used only once the whole job is done, and whether it is stands elsewhere
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

_APPLICATION_SETTINGS = {
    # every job describes its plan to listeners; the short form is enough for them
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.codegen.cache.maxEntries": "1000",
    # a micro-batch of a Python source costs some 40 ms less than over TCP
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# whoever comes second, while Spark is being started in the background, gets what the first one started
_STARTING = threading.Lock()


def own_session(master: str = "local[*]", pool_tasks: int = 0) -> SparkSession:
    """A SparkSession that needs no configuration.

    On one machine it takes ``pool_tasks`` tasks more than it has processors: jobs that wait for pools.
    """
    with _STARTING:
        java = prepare_java()
        threads = _local_threads(master)
        if pool_tasks and threads is not None:
            master = f"local[{threads + pool_tasks}]"
        # what Spark refuses is told in one line of ours
        for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local-cluster"):
            os.environ.setdefault("SPARK_WORKER_DIR", tempfile.mkdtemp(prefix="headgate-workers-"))
        builder = SparkSession.builder.master(master).appName("headgate")
        for key, value in _APPLICATION_SETTINGS.items():
            builder = builder.config(key, value)
        builder = builder.config("spark.driver.memory", jvm.driver_memory())
        if pool_tasks and threads is not None:
            # the work of ticks is still divided among the processors
            builder = builder.config("spark.default.parallelism", str(threads))
        builder = builder.config("spark.driver.extraJavaOptions", jvm.driver_options())
        if threads is not None and os.environ["PYSPARK_PYTHON"] == sys.executable:
            # elsewhere, workers may run a Python that has no Headgate
            builder = builder.config("spark.python.daemon.module", "headgate.spark.daemon")
        try:
            _start_gateway(master, java)
            return builder.getOrCreate()
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise SetupError(f"Spark does not start on {master}: {reason}") from error


def start_in_background(master: str, pool_tasks: int = 0) -> None:
    """Start what ``own_session`` returns, while the caller does something else.

    What goes wrong is reported by ``own_session``, when it is called in earnest.
    """

    def start() -> None:
        with suppress(Exception):
            own_session(master, pool_tasks)

    threading.Thread(target=start, name="headgate-start", daemon=True).start()


def _start_gateway(master: str, java: JavaHome) -> None:
    """Connect PySpark to a JVM of ours, where ``spark-submit`` is not needed."""
    present: Any = SparkContext._gateway
    if present is not None or not jvm.starts_directly(master, os.environ):
        return
    started = jvm.take_early() or jvm.start(java)
    port, secret = started.address()
    # PySpark connects to a gateway that is told by these two, and starts none
    told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(told)
    try:
        SparkContext._ensure_initialized()
    finally:
        for key in told:
            del os.environ[key]
    gateway: Any = SparkContext._gateway
    # kept, as PySpark does: the JVM ends when the pipe to it is closed
    gateway.proc = started.process


def private_session(spark: SparkSession) -> SparkSession:
    """The same application, tables and functions, with settings of its own."""
    java_session: Any = spark._jsparkSession.cloneSession()
    private = SparkSession(spark.sparkContext, java_session)
    # functions and data sources are registered with the active session, whoever asks
    jvm: Any = spark._jvm
    remember_lookups(jvm)
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session)
    for key, value in _SESSION_SETTINGS.items():
        private.conf.set(key, value)
    private.conf.set("spark.sql.shuffle.partitions", str(processors(spark)))
    use_local_files(private)
    return private


def in_session(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A DataFrame of the user's in a session of ours: views of it are then views of that session."""
    plan: Any = frame._jdf
    jvm: Any = spark._jvm
    java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan.logicalPlan())
    return DataFrame(java, spark)


def task_slots(spark: SparkSession) -> int | None:
    """How many tasks run at a time on one machine; None if there are several."""
    return _local_threads(str(spark.sparkContext.master))


def _local_threads(master: str) -> int | None:
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\*|\d+)(,.*)?\]", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def processors(spark: SparkSession) -> int:
    """Processors that Spark may use."""
    return max(1, spark.sparkContext.defaultParallelism)
