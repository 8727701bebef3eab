"""A run: the streaming query, and the loop that drives its engine."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.operator import Eddy
from headgate.routing import router_named
from headgate.routing.policies import Router
from headgate.runtime.drive import Controller, Observer, ReplaceableStrategy, drive
from headgate.runtime.usercode import Guarded
from headgate.scheduling.strategy import Strategy
from headgate.spark.application import ending
from headgate.spark.application.cluster import leave_to_user, processors, task_slots
from headgate.spark.arrival.dead_letters import DeadLetters
from headgate.spark.arrival.intake import Intake
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.eddies.dispatcher import Eddies
from headgate.spark.eddies.pools import Balance, Pools
from headgate.spark.engine import RestTime, SparkEngine, TickLimits, no_rest
from headgate.spark.file_system import Files
from headgate.spark.intake_limits import held_back
from headgate.spark.manifest import Manifest
from headgate.spark.outbox import DeliveringSink
from headgate.spark.prepare import Functions, Preparation
from headgate.spark.prepared import Prepared
from headgate.spark.reconcile import Transition, source_names
from headgate.spark.resuming import carry_over, discard_after, found_manifest
from headgate.spark.shared_folders import check_outputs
from headgate.spark.sinks import FILE_SINKS, Callback, FileSink, open_sink, read_results
from headgate.spark.source_files import FileSourceLog
from headgate.spark.sources import Sources, first_line
from headgate.spark.sql import TS
from headgate.spark.stored_tables import record_tables, restore_tables
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick import TickRunner
from headgate.spark.user_functions import blamed
from headgate.statistics.store import StatisticsStore

# by default Spark starts shell processes to write its offsets to a local disk: some 60 ms per tick
_LOCAL_CHECKPOINT_FILES = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
# how soon a change is noticed
_LOOK_EVERY_S = 0.02


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
        transition: Transition | None = None,
        script: str = "",
    ) -> None:
        """With a ``transition``, the checkpoint may be of other queries; ``script`` declares those here."""
        self._spark = spark
        self._transition = transition
        self._script = script
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
        before = found_manifest(self.checkpoint)
        sources.names = source_names(before, network, 0 if transition is None else transition.epoch)
        numbered = [name for name, state in before.streams.items() if state.is_numbered]
        prepared = self._prepare(functions, numbered)
        self._prepared = prepared
        eddies = [o for o in network.operators.values() if isinstance(o, Eddy)]
        self._eddies = len(eddies)
        self._balance = Balance() if balance_pools else None
        self.pools = Pools(network.pools.values(), eddies, router or router_named("optimal"))
        self.checkpoint.open(network, may_change=transition is not None)
        try:
            if transition is not None:
                self.checkpoint.epochs = {name: one.epoch for name, one in transition.registered.items()}
            record_tables(spark, self._files, self.checkpoint, network, prepared)
            self._runner = self._tick_runner(prepared, callbacks)
            is_known = bool(statistics.known.profiles)
            self._intake_limits = held_back(spark, network, sources, limits, is_known)
            self._engine = SparkEngine(
                self._runner, limits, rest_s=rest_s or no_rest, intake_limits=self._intake_limits
            )
        except BaseException:
            self.checkpoint.close()
            raise
        self._thread = threading.Thread(target=self._loop, name="headgate-loop", daemon=True)
        self._has_ended = threading.Event()

    def _prepare(self, functions: Functions, numbered: Collection[str]) -> Prepared:
        """Check everything that can be wrong before anything is written."""
        self._check_outputs()
        self.checkpoint.check(self._network, may_change=self._transition is not None)
        predicates = self._statistics.predicates
        prepared = Preparation(
            self._spark, self._network, self._sources, functions, self._store, predicates, numbered
        ).run()
        if self._until_done:
            endless = [s.name for s in self._network.streams.values() if not self._sources.ends(s)]
            if endless:
                raise SetupError(f"stream {endless[0]} never ends; run it for a time instead of until done")
        return prepared

    def _check_outputs(self) -> None:
        """Refuse folders that cannot be written to, or that executors do not share with the driver."""
        written = (name for name, query in self._network.queries.items() if query.sink.format in FILE_SINKS)
        folders = {f"query {name}:": str(self.path_of(name)) for name in written}
        check_outputs(self._spark, self._files, {"checkpoint": self.checkpoint.root, **folders})

    def _tick_runner(self, prepared: Prepared, callbacks: Mapping[str, Callback]) -> TickRunner:
        store = self._store
        logs = StreamLogs(self._spark, self._sources, store, prepared.logs)
        positions = self._sources.positions(self._network.streams.values())
        log = FileSourceLog(self._files, self.checkpoint.spark_folder, positions, self._sources.names)
        intake = Intake(self._spark, self._network, self._sources, log, logs, prepared.raw)
        self._outage = intake.outage
        self._sinks = {
            name: open_sink(
                self._spark, query, prepared.result_schema(query), self._files, self.checkpoint, callbacks
            )
            for name, query in self._network.queries.items()
        }
        letters = DeadLetters(self._files, self.checkpoint)
        manifest = self.checkpoint.last_manifest(self._controller.first())
        discard_after(manifest.batch_id, (*self._sinks.values(), letters))
        if self._transition is not None:
            is_named = self._sources.positions(()) is None
            manifest = carry_over(
                self.checkpoint, manifest, self._transition, prepared, self._script, is_named
            )
        restore_tables(self._spark, prepared, self._sinks, manifest)
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
    def strategy(self) -> ReplaceableStrategy:
        """The strategy in force, and the latency bounds that it knows."""
        return self._strategy

    @property
    def limits(self) -> TickLimits:
        """The limits of the next tick."""
        return self._engine.limits

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
            most = {} if self._intake_limits is None else self._intake_limits.limits.limits()
            self._query = self._start_query(self._sources.union(self._network.streams.values(), most))
        except BaseException:
            self.checkpoint.close()
            raise
        if self._intake_limits is not None:
            self._intake_limits.attach(self._query)
        ending.begin_run(self)
        self._engine.is_alive = lambda: bool(self._query.isActive)
        self._engine.on_stall = self._outage.look

    def _start_query(self, everything: DataFrame) -> Any:
        writer = everything.writeStream.foreachBatch(self._engine.on_batch)
        try:
            return writer.option("checkpointLocation", self.checkpoint.spark_folder).start()
        except Exception as error:
            raise SetupError(f"the streams do not start: {first_line(error)}") from error

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
        ending.end_run(self)
        self._engine.let_go()
        try:
            self._query.stop()
        except Exception as error:
            self._error = self._error or error
        try:
            self._runner.close()
            for sink in self._sinks.values():
                if isinstance(sink, (FileSink, DeliveringSink)):
                    sink.close()
        finally:
            self.checkpoint.close()

    def abandon(self) -> None:
        """End the streaming query, so that nothing is written any more."""
        self._engine.let_go()
        with suppress(Exception):
            self._query.stop()

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
        self.ask_to_stop()
        self.wait()

    def halt(self) -> None:
        """Finish the current tick, then end, however long user code takes: the run will go on."""
        self._engine.stop()
        self.wait()

    @property
    def store(self) -> BlockStore:
        """The blocks of its checkpoint."""
        return self._store

    @property
    def manifest(self) -> Manifest:
        """The state after the last tick."""
        return self._runner.manifest

    def pause(self, queries: Collection[str]) -> None:
        """Pause these queries and no others, from the next tick on; waits until that is durable."""
        wanted = tuple(name for name in self._network.queries if name in queries)
        self._runner.paused = wanted
        while self.manifest.paused != wanted and not self.wait(_LOOK_EVERY_S):
            pass

    def ask_to_stop(self) -> None:
        """Let the run end after the current tick."""
        self._engine.stop()
        for call in (*self._sinks.values(), *self._observers):
            if isinstance(call, (Guarded, DeliveringSink)):
                call.hurry()

    def keep_checkpoint(self) -> None:
        """Let a temporary checkpoint be."""
        leave_to_user(self._spark, self.checkpoint.root)

    def change(
        self,
        strategy: Strategy | None,
        memory_bytes: float | None,
        latencies_s: Mapping[str, float | None],
        tick_budget_s: float | None = None,
    ) -> None:
        """Change strategy, memory limit, latency bounds or tick budget from the next tick on."""
        if strategy is not None:
            self._strategy.use(strategy)
        if latencies_s:
            self._strategy.set_latency_bounds(latencies_s)
        if memory_bytes is not None:
            self._engine.limits = replace(self._engine.limits, memory_bytes=memory_bytes)
            if self._intake_limits is not None:
                self._intake_limits.limits.memory_bytes = memory_bytes
        if tick_budget_s is not None:
            self._engine.limits = replace(self._engine.limits, budget_s=tick_budget_s, target_s=tick_budget_s)
            if self._intake_limits is not None:
                self._intake_limits.limits.aim_at(tick_budget_s)

    @property
    def is_running(self) -> bool:
        """Whether the loop is running."""
        return self._thread.ident is not None and not self._has_ended.is_set()

    def results(self, query: str) -> DataFrame:
        """Results so far of a query INTO files or memory."""
        definition, path = self._network.queries[query], self.path_of(query)
        if path is None:
            raise SetupError(f"query {query} goes INTO {definition.sink.format} and keeps no results")
        empty, has_files = self.no_results(query), self._files.exists(path)
        return read_results(self._spark, definition.sink, path, empty.schema) if has_files else empty

    def no_results(self, query: str) -> DataFrame:
        """The columns of a query's results, without rows."""
        output = self._prepared.result_schema(self._network.queries[query])
        return self._spark.createDataFrame([], StructType([f for f in output.fields if f.name != TS]))

    def path_of(self, query: str) -> str | None:
        """The folder of a query's results; None if they go to no files."""
        sink = self._network.queries[query].sink
        if sink.format == "memory":
            return self.checkpoint.results(query)
        return {k.lower(): v for k, v in sink.options}.get("path")

    def result_ticks(self, query: str) -> list[int]:
        """Committed ticks whose results a query INTO memory has kept, in order; of a table, the last one."""
        sink, format = self._sinks[query], self._network.queries[query].sink.format
        if format != "memory" or not isinstance(sink, FileSink):
            where = self.path_of(query)
            advice = f"read them from {where}" if where else "they are not kept"
            raise SetupError(f"query {query} goes INTO {format}: {advice}, or SELECT from it")
        committed = self._runner.manifest
        if self._network.queries[query].sink.is_latest:
            return [committed.batch_id] if committed.rows_out.get(query) else []
        return [batch for batch in sink.batches() if batch <= committed.batch_id]

    def results_of_tick(self, query: str, batch_id: int) -> DataFrame:
        """Results that one tick has added to those of a query INTO memory, in the order of time."""
        sink = self._sinks[query]
        assert isinstance(sink, FileSink)
        return self._spark.read.parquet(sink.files_of(batch_id)).orderBy("ts")

    def dead_letters(self) -> DataFrame | None:
        """Rows that were set aside; None if there are none."""
        if not self._files.names(self.checkpoint.dead_letters):
            return None
        # files of earlier versions have no column that names a query
        return self._spark.read.option("mergeSchema", "true").parquet(self.checkpoint.dead_letters)
