"""A run: the streaming query, and the loop that drives its engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.operator import Eddy
from headgate.routing import router_named
from headgate.routing.policies import Router
from headgate.runtime.drive import Controller, Observer, ReplaceableStrategy, drive
from headgate.runtime.usercode import Guarded
from headgate.scheduling.strategy import Strategy
from headgate.spark.application.cluster import processors, task_slots
from headgate.spark.arrival.dead_letters import DeadLetters
from headgate.spark.arrival.intake import Intake
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.eddies.dispatcher import Eddies
from headgate.spark.eddies.pools import Balance, Pools
from headgate.spark.engine import RestTime, SparkEngine, TickLimits, no_rest
from headgate.spark.file_system import Files
from headgate.spark.prepare import Functions, Preparation
from headgate.spark.prepared import Prepared
from headgate.spark.sinks import Callback, CallbackSink, FileSink, open_sink
from headgate.spark.source_files import FileSourceLog
from headgate.spark.sources import STREAM, Sources, first_line
from headgate.spark.sql import TS
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick import TickRunner
from headgate.spark.user_functions import blamed
from headgate.statistics.store import StatisticsStore

# by default Spark starts shell processes to write its offsets to a local disk: some 60 ms per tick
_LOCAL_CHECKPOINT_FILES = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)


class SparkRun:
    """A network running on Spark."""

    def __init__(
        self,
        spark: SparkSession,
        network: Network,
        sources: Sources,
        strategy: Strategy,
        checkpoint_folder: str,
        limits: TickLimits,
        until_done: bool,
        callbacks: Mapping[str, Callback],
        observers: Iterable[Observer],
        controller: Controller,
        statistics: StatisticsStore,
        functions: Functions = MappingProxyType({}),
        router: Router | None = None,
        balance_pools: bool = False,
        rest_s: RestTime | None = None,
    ) -> None:
        self._spark = spark
        self._network = network
        self._sources = sources
        self._strategy = ReplaceableStrategy(strategy)
        self._functions = functions
        self._until_done = until_done
        self._statistics = statistics
        self._controller = controller
        self._observers = list(observers)
        self._files = Files(spark)
        self.checkpoint = Checkpoint(self._files, checkpoint_folder)
        if self.checkpoint.is_local:
            spark.conf.set(*_LOCAL_CHECKPOINT_FILES)
        self._error: BaseException | None = None
        self._query: Any = None
        sources.use_names(not any(name in sources.frames for name in network.streams))
        self._store = BlockStore(spark, self._files, self.checkpoint)
        prepared = self._prepare(functions)
        self._prepared = prepared
        eddies = [o for o in network.operators.values() if isinstance(o, Eddy)]
        self._eddies = len(eddies)
        self._balance = Balance() if balance_pools else None
        self.pools = Pools(network.pools.values(), eddies, router or router_named("optimal"))
        self.checkpoint.open(network)
        try:
            self._runner = self._tick_runner(prepared, callbacks)
            self._engine = SparkEngine(self._runner, limits, rest_s=rest_s or no_rest)
        except BaseException:
            self.checkpoint.close()
            raise
        self._thread = threading.Thread(target=self._loop, name="headgate-loop", daemon=True)
        self._has_ended = threading.Event()

    def _prepare(self, functions: Functions) -> Prepared:
        """Check everything that can be wrong before anything is written."""
        self.checkpoint.check(self._network)
        prepared = Preparation(
            self._spark, self._network, self._sources, functions, self._store, self._statistics.predicates
        ).run()
        if self._until_done:
            endless = [s.name for s in self._network.streams.values() if not self._sources.ends(s)]
            if endless:
                raise SetupError(f"stream {endless[0]} never ends; run it for a time instead of until done")
        return prepared

    def _tick_runner(self, prepared: Prepared, callbacks: Mapping[str, Callback]) -> TickRunner:
        store = self._store
        logs = StreamLogs(self._spark, self._sources, store, prepared.logs)
        positions = self._sources.positions(self._network.streams.values())
        log = FileSourceLog(self._files, self.checkpoint.spark_folder, positions)
        intake = Intake(self._spark, self._network, self._sources, log, logs, prepared.raw)
        self._sinks = {
            name: open_sink(
                query, prepared.operators[query.outputs[0]].output, self._files, self.checkpoint, callbacks
            )
            for name, query in self._network.queries.items()
        }
        letters = DeadLetters(self._files, self.checkpoint)
        manifest = self.checkpoint.last_manifest(self._controller.first())
        self._discard_after(manifest.batch_id, letters)
        eddies = Eddies(
            prepared.layouts.values(), self.pools, store, self.checkpoint, manifest, self._balance
        )
        return TickRunner(
            prepared,
            self.checkpoint,
            store,
            logs,
            intake,
            self._sinks,
            letters,
            eddies,
            self._until_done,
            self._controller,
            self._statistics,
            manifest,
        )

    def _discard_after(self, batch_id: int, letters: DeadLetters) -> None:
        """Discard output of ticks after the last manifest: they are re-executed, perhaps with other cuts."""
        for sink in (*self._sinks.values(), letters):
            if isinstance(sink, (FileSink, DeadLetters)):
                sink.discard_after(batch_id)

    @property
    def pools_want_tasks(self) -> str:
        """A warning if ticks and jobs of pools compete for task slots; otherwise empty."""
        slots, wanted = task_slots(self._spark), processors(self._spark) + 2 * self._eddies
        if not self._eddies or slots is None or slots >= wanted:
            return ""
        return (
            f"jobs of pools share {slots} task slots with ticks; start Spark with local[{wanted}] and "
            f"spark.default.parallelism={processors(self._spark)}"
        )

    @property
    def spark(self) -> SparkSession:
        """The session that executes its jobs."""
        return self._spark

    @property
    def engine(self) -> SparkEngine:
        """The engine, for callers that drive it themselves between ``open`` and ``close``."""
        return self._engine

    def start(self) -> None:
        """Start the streaming query and the loop."""
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Start the streaming query."""
        try:
            self._query = self._start_query(self._all_streams())
        except BaseException:
            self.checkpoint.close()
            raise
        self._engine.is_alive = lambda: bool(self._query.isActive)

    def _start_query(self, everything: DataFrame) -> Any:
        writer = everything.writeStream.foreachBatch(self._engine.on_batch)
        try:
            return writer.option("checkpointLocation", self.checkpoint.spark_folder).start()
        except Exception as error:
            raise SetupError(f"the streams do not start: {first_line(error)}") from error

    def _all_streams(self) -> DataFrame:
        """One union of all streams and the clock."""
        parts: list[DataFrame] = [self._sources.clock().select(F.lit(-1).alias(STREAM))]
        for number, definition in enumerate(self._network.streams.values()):
            parts.append(self._sources.stream(definition, number))
        everything = parts[0]
        for part in parts[1:]:
            everything = everything.unionByName(part, allowMissingColumns=True)
        return everything

    def _loop(self) -> None:
        try:
            drive(self._engine, self._strategy, self._observers)
            failure = self._query.exception()
            if failure is not None and not self._engine.stopping:
                raise SetupError(f"the streaming query ended: {first_line(failure)}")
        except BaseException as error:
            self._error = blamed(error, self._network, self._functions)
            # ``wait`` raises the error itself; an error raised by two threads would mix up their tracebacks
            self._engine.fail(InterruptedError("the run has failed"))
        finally:
            try:
                self.close()
            finally:
                self._has_ended.set()

    def close(self) -> None:
        """End the streaming query and its background work."""
        self._engine.let_go()
        try:
            self._query.stop()
        except Exception as error:
            self._error = self._error or error
        try:
            self._runner.close()
            for sink in self._sinks.values():
                if isinstance(sink, FileSink):
                    sink.close()
        finally:
            self.checkpoint.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, and return whether it has come. Raises the error that made the run fail."""
        # not by joining the thread: before Python 3.13, one whose join is interrupted counts as ended
        if not self._has_ended.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Finish the current tick, then end; user code that does not return is abandoned."""
        self._engine.stop()
        callbacks = [sink.call for sink in self._sinks.values() if isinstance(sink, CallbackSink)]
        for call in (*callbacks, *self._observers):
            if isinstance(call, Guarded):
                call.hurry()
        self.wait()

    def change(
        self, strategy: Strategy | None, memory_bytes: float | None, latencies_s: Mapping[str, float | None]
    ) -> None:
        """Change strategy, memory limit or latency bounds from the next tick on."""
        if strategy is not None:
            self._strategy.use(strategy)
        if latencies_s:
            self._strategy.set_latency_bounds(latencies_s)
        if memory_bytes is not None:
            self._engine.limits = replace(self._engine.limits, memory_bytes=memory_bytes)

    @property
    def is_running(self) -> bool:
        """Whether the loop is running."""
        return self._thread.ident is not None and not self._has_ended.is_set()

    def results(self, query: str) -> DataFrame:
        """Results so far of a query INTO files or memory."""
        definition = self._network.queries[query]
        options = {k.lower(): v for k, v in definition.sink.options}
        in_memory = definition.sink.format == "memory"
        path = self.checkpoint.results(query) if in_memory else options.get("path")
        if path is None:
            raise SetupError(f"query {query} goes INTO {definition.sink.format} and keeps no results")
        output = self._prepared.operators[definition.outputs[0]].output
        schema = StructType([f for f in output.fields if f.name != TS])
        if not self._files.exists(path):
            # no tick has been committed yet
            return self._spark.createDataFrame([], schema)
        if in_memory:
            return self._spark.read.parquet(path)
        reader = self._spark.read.format(definition.sink.format).schema(schema)
        return reader.options(**dict(definition.sink.options)).load(path)

    def dead_letters(self) -> DataFrame | None:
        """Rows that were set aside; None if there are none."""
        if not self._files.names(self.checkpoint.dead_letters):
            return None
        # files of earlier versions have no column that names a query
        return self._spark.read.option("mergeSchema", "true").parquet(self.checkpoint.dead_letters)
