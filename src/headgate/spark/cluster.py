"""Getting a SparkSession: one of our own, or a private view of the user's."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate.errors import SetupError
from headgate.spark.java import prepare_java
from headgate.spark.local_disk import use_local_files
from headgate.spark.lookups import remember_lookups

# per session: changes nothing for other users of the same Spark application
_SESSION_SETTINGS = {
    # plans stay the same from tick to tick; the engine itself knows the sizes and gives hints
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
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

# throughput counts here, not the pauses of a driver nobody types into
_JAVA_OPTIONS = "-XX:ReservedCodeCacheSize=512m -XX:+UseParallelGC"


def own_session(master: str = "local[*]", pool_tasks: int = 0) -> SparkSession:
    """A SparkSession that needs no configuration.

    On one machine it takes ``pool_tasks`` tasks more than it has processors: jobs that wait for pools.
    """
    prepare_java()
    threads = _local_threads(master)
    if pool_tasks and threads is not None:
        master = f"local[{threads + pool_tasks}]"
    # what Spark refuses is told in one line of ours
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        os.environ.setdefault("SPARK_WORKER_DIR", tempfile.mkdtemp(prefix="headgate-workers-"))
    quiet = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
    builder = SparkSession.builder.master(master).appName("headgate")
    for key, value in _APPLICATION_SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.driver.memory", os.environ.get("HEADGATE_DRIVER_MEMORY", "4g"))
    if pool_tasks and threads is not None:
        # the work of ticks is still divided among the processors
        builder = builder.config("spark.default.parallelism", str(threads))
    java_options = os.environ.get("HEADGATE_JAVA_OPTIONS", _JAVA_OPTIONS)
    builder = builder.config("spark.driver.extraJavaOptions", f"{quiet} {java_options}")
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise SetupError(f"Spark does not start on {master}: {str(error).strip().splitlines()[0]}") from error


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
