"""Getting a SparkSession: one of our own, or a private view of the user's."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from py4j.java_gateway import JavaClass, JavaMember, JVMView  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import SetupError
from headgate.spark.application import ending, jvm
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.spark.application.java import JavaHome, prepare_java
from headgate.spark.application.java_classes import register_functions, use_local_files
from headgate.spark.failures import handler_kept, is_stopped, spark_reason

# rules of Spark's optimizer that no plan of a tick can meet; each goes over the whole plan all the same
_NEVER_APPLY = (
    "EliminateAggregateFilter",
    "InferFiltersFromGenerate",
    "OptimizeOneRowRelationSubquery",
    "OptimizeRand",
    "OptimizeUpdateFields",
    "PushdownPredicatesAndPruneColumnsForCTEDef",
)

# per session: changes nothing for other users of the same Spark application
_SESSION_SETTINGS = {
    # plans stay the same from tick to tick; the engine knows the sizes itself and gives hints
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # where one task is wanted, Spark's estimate of a join's size must not cause a shuffle
    "spark.sql.maxSinglePartitionBytes": str(2**60),
    # Spark takes rows in memory for larger than that, if it is not given a number
    "spark.sql.defaultSizeInBytes": str(2**20),
    # otherwise a union of single-task parts would be a single task as a whole
    "spark.sql.unionOutputPartitioning": "false",
    # stages with the same code, such as the slices of a join, are compiled once
    "spark.sql.codegen.useIdInClassName": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _NEVER_APPLY
    ),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.variant.pushVariantIntoScan": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
    # rows of file streams do not come with the micro-batch, so its plan must not open their files
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true",
    # more files than this are listed by a Spark job, which takes longer than listing them
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # with push-down, Spark cannot read text files of which no column is needed
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    # output is used only after its whole job has succeeded, which is recorded elsewhere
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

_TIME_ZONE = "spark.sql.session.timeZone"

_APPLICATION_SETTINGS = {
    # every job describes its plan to listeners; the short form is enough for them
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.codegen.cache.maxEntries": "1000",
    # a micro-batch of a Python source costs some 40 ms less than over TCP
    "spark.python.unix.domain.socket.enabled": "true",
}

_NAME = "headgate"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[ *([0-9]+) *, *([0-9]+) *, *([0-9]+) *\]")

# a second caller, while Spark is being started in the background, gets the same session
_STARTING = threading.Lock()


def own_session(master: str = "local[*]", pool_tasks: int = 0, extras: Extras = NO_EXTRAS) -> SparkSession:
    """A session of our own; on one machine, ``pool_tasks`` tasks are added to its processors, for pools.

    The executors of a ``local-cluster`` divide them among themselves.
    """
    jvm.check_master(master)
    with _STARTING:
        java = prepare_java()
        threads = local_threads(master)
        processors_used = threads
        if pool_tasks and threads is not None:
            master = f"local[{threads + pool_tasks}]"
        elif pool_tasks and (found := _LOCAL_CLUSTER.fullmatch(master)) is not None:
            executors, cores, megabytes = map(int, found.groups())
            processors_used = executors * cores
            master = f"local-cluster[{executors},{cores + -(-pool_tasks // executors)},{megabytes}]"
        # errors that Spark reports are repeated in one line of ours
        for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local-cluster"):
            os.environ.setdefault("SPARK_WORKER_DIR", ending.temporary_folder("headgate-workers-"))
        settings: dict[str, Any] = {
            **_APPLICATION_SETTINGS,
            "spark.driver.memory": jvm.driver_memory(),
            "spark.driver.extraJavaOptions": jvm.driver_options(),
            **_driver_address(master),
            **extras.settings(),
        }
        if pool_tasks and processors_used is not None:
            # the work of ticks is still divided among the processors
            settings["spark.default.parallelism"] = str(processors_used)
        if threads is not None and os.environ["PYSPARK_PYTHON"] == sys.executable:
            # elsewhere, workers may run a Python that has no Headgate
            settings["spark.python.daemon.module"] = "headgate.spark.application.workers"
        builder = SparkSession.builder.master(master).appName(_NAME).config(map=settings)
        try:
            # Ctrl-C must not cancel the jobs of runs
            with handler_kept():
                started = _start_gateway(master, java, settings, extras)
                spark = builder.getOrCreate()
        except Exception as error:
            advice = f"; {extras.advice()}" if extras.advice() else ""
            raise SetupError(f"Spark does not start on {master}: {spark_reason(error)}{advice}") from error
        if started is not None:
            remove_with_jvm(spark, str(started.folder))
        return spark


def start_in_background(master: str, pool_tasks: int = 0, extras: Extras = NO_EXTRAS) -> None:
    """Start what ``own_session`` returns; failures are reported by the later call of ``own_session``."""

    def start() -> None:
        with suppress(Exception):
            own_session(master, pool_tasks, extras)

    threading.Thread(target=start, name="headgate-start", daemon=True).start()


def _driver_address(master: str) -> dict[str, str]:
    """Where executors reach the driver; those of this machine, whatever its network is."""
    if local_threads(master) is not None or master.startswith("local-cluster"):
        return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    host = re.match(r"(?:k8s://)?[a-z0-9+.-]+://\[?([^/:\],]+|[0-9a-f:]+)\]?(?::(\d+))?", master)
    if host is None:
        # of YARN, the address is in files of Hadoop
        return {}
    # the address of the interface that leads to the master; a datagram socket sends nothing for this
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host[1], int(host[2] or 7077)))
        own = str(probe.getsockname()[0])
        bound = own if own.startswith("127.") else "0.0.0.0"
        return {"spark.driver.host": own, "spark.driver.bindAddress": bound}
    return {}


def _start_gateway(
    master: str, java: JavaHome, settings: Mapping[str, object], extras: Extras
) -> jvm.Jvm | None:
    """Connect PySpark to a JVM of ours, unless it has one."""
    present: Any = SparkContext._gateway
    if present is not None or os.name != "posix" or "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    if jvm.starts_directly(master, os.environ, extras):
        started = jvm.take_early() or jvm.start(java, extras.jars)
    else:
        own = {"spark.master": master, "spark.app.name": _NAME}
        started = jvm.submit(Path(_find_spark_home()), {**own, **settings})
    port, secret = started.address()
    # given these two variables, PySpark connects to a gateway instead of starting one
    gateway_address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(gateway_address)
    try:
        SparkContext._ensure_initialized()
    finally:
        for key in gateway_address:
            del os.environ[key]
    gateway: Any = SparkContext._gateway
    # kept, as PySpark does: the JVM ends when the pipe to it is closed
    gateway.proc = started.process
    return started


def remove_with_jvm(spark: SparkSession, folder: str) -> None:
    """Let the JVM remove a folder when it ends: this process may be killed before it can."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(folder))


def leave_to_user(spark: SparkSession, folder: str) -> None:
    """Let a temporary folder be."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.util.ShutdownHookManager.removeShutdownDeleteDir(jvm.java.io.File(folder))
    ending.keep_folder(folder)


def check_session(given: Any) -> None:
    """Raise if a run cannot use what a user passes as a SparkSession."""
    if not isinstance(given, SparkSession) or not hasattr(given, "_jsparkSession"):
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        advice = "pass a SparkSession of this process, not one of Spark Connect, or none"
        raise SetupError(f"spark is of type {kind}; {advice}")
    if is_stopped(given):
        raise SetupError("the Spark application of spark has been stopped; pass one that runs, or none")


def private_session(spark: SparkSession) -> SparkSession:
    """The same application, tables and functions, with settings of its own.

    Its time zone is UTC, unless the session was given another one.
    """
    java_session: Any = spark._jsparkSession.cloneSession()
    private = SparkSession(spark.sparkContext, java_session)
    # functions and data sources are registered with the active session
    jvm: Any = spark._jvm
    if type(jvm) is JVMView:
        jvm.__class__ = _RememberingView
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session)
    for key, value in _SESSION_SETTINGS.items():
        private.conf.set(key, value)
    private.conf.set("spark.sql.shuffle.partitions", str(processors(spark)))
    # otherwise it is that of the machine, and results would depend on where they are computed
    if not java_session.sessionState().conf().contains(_TIME_ZONE):
        private.conf.set(_TIME_ZONE, "UTC")
    use_local_files(private)
    register_functions(private)
    _forget_origins(private)
    return private


def _forget_origins(spark: SparkSession) -> None:
    """Let Hadoop forget where each of its 1,100 settings comes from; nothing reads that.

    Spark sends the settings along with every job that reads files, and Hadoop compresses the origins one by
    one: of 8 ms of CPU time for writing the settings and 11 ms for reading them, 1 ms and 2 ms are left.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    # origins are noted when the files of settings are read, which happens at the first question
    hadoop.size()
    with suppress(Py4JJavaError):
        origins = hadoop.getClass().getDeclaredField("updatingResource")
        origins.setAccessible(True)
        origins.get(hadoop).clear()


def in_session(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A DataFrame of another session in ours, so that views of it belong to our session."""
    plan: Any = frame._jdf
    jvm: Any = spark._jvm
    java = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan.logicalPlan())
    return DataFrame(java, spark)


def task_slots(spark: SparkSession) -> int | None:
    """How many tasks run at a time on one machine; None if there are several."""
    return local_threads(str(spark.sparkContext.master))


def local_threads(master: str) -> int | None:
    """How many tasks run at a time under a master on one machine; None if there are several."""
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\*|\d+)(,.*)?\]", master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def task_places(spark: SparkSession) -> tuple[int, int]:
    """Executors of the application now, and how many tasks they run at a time; the driver alone is one."""
    if (threads := task_slots(spark)) is not None:
        return 1, threads
    context: Any = spark.sparkContext._jsc.sc()
    # the driver is listed too
    executors = int(context.getExecutorMemoryStatus().size()) - 1
    profile = context.resourceProfileManager().defaultResourceProfile()
    return max(1, executors), max(1, int(context.maxNumConcurrentTasks(profile)))


def processors_of_executor(spark: SparkSession) -> int:
    """How many processors every executor has, without the task slots that were added for pools.

    Executors that are lost for a while leave theirs to no other one.
    """
    executors, tasks = task_places(spark)
    found = _LOCAL_CLUSTER.fullmatch(str(spark.sparkContext.master))
    all_executors = int(found[1]) if found is not None else executors
    return max(1, min(-(-processors(spark) // all_executors), tasks // executors))


def driver_hosts(spark: SparkSession) -> tuple[str, str]:
    """The address to listen on in the driver, and the one by which executors reach it."""
    if task_slots(spark) is not None:
        return "127.0.0.1", "127.0.0.1"
    settings = spark.sparkContext.getConf()
    host = str(settings.get("spark.driver.host")).strip("[]")
    return str(settings.get("spark.driver.bindAddress", host)).strip("[]"), host


def processors(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)


class _RememberingView(JVMView):  # type: ignore[misc]
    """Looks up each class and static method only once.

    For every lookup the JVM searches all of its jars under each imported package, and a tick would make some
    thousand of them.
    """

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found.__class__ = _RememberingClass
            # found by plain attribute access from now on
            self.__dict__[name] = found
        return found


class _RememberingClass(JavaClass):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


Case = TypeVar("Case")
Found = TypeVar("Found")

# some cases take longer than others: more slices than processors keep all processors busy
_SLICES_A_PROCESSOR = 8


def over_spark(master: str, work: Callable[[Case], Found], cases: Sequence[Case]) -> list[Found]:
    """Apply ``work`` to every case, in Spark tasks; both must be importable where tasks run."""
    spark = own_session(master)
    try:
        slices = min(len(cases), _SLICES_A_PROCESSOR * processors(spark))
        return spark.sparkContext.parallelize(cases, max(1, slices)).map(work).collect()
    finally:
        spark.stop()
