"""A tick: arrive, choose, build, run, commit, learn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from headgate.model.event import OperatorCounts, QueryCounts, SettingsChanged, TickCommitted
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.shedding import TickSettings
from headgate.runtime.drive import Controller
from headgate.runtime.forecast import ForecastQueue
from headgate.spark.arrival.dead_letters import DeadLetters
from headgate.spark.arrival.intake import Intake
from headgate.spark.attempts import Attempts
from headgate.spark.blocks import ONE_TASK_ROWS, BlockStore, width_bytes
from headgate.spark.build import TickBuilder
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.eddies.dispatcher import Eddies
from headgate.spark.jobs import JobResults, JobsError, TickJobs
from headgate.spark.manifest import Manifest
from headgate.spark.measuring import Measuring, widths_of
from headgate.spark.merging import BlockMerger
from headgate.spark.next_manifest import NextManifest
from headgate.spark.outbox import DeliveringSink
from headgate.spark.prepared import Prepared
from headgate.spark.queues import Queues
from headgate.spark.result_quality import KeepRatios, ResultLatency
from headgate.spark.sinks import Sink
from headgate.spark.sql import BEGINNING_US
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_plan import Chosen, Moved, OpenTick, TickPlan
from headgate.statistics.estimators import TickWork
from headgate.statistics.operators import Passed
from headgate.statistics.store import StatisticsStore

# fewer rows than this are not worth a task of their own
_ROWS_PER_TASK = 20_000
# work of a selection or projection that is worth a second task, however few its tuples are
_ONE_TASK_S = 0.25
_DEAR_ONE_TASK_ROWS = 1_000
_NOT_MOVED = Moved(0.0)


@dataclass(frozen=True)
class TickOutcome:
    """The outcome of a committed tick."""

    event: TickCommitted
    change: SettingsChanged | None
    works: list[TickWork]
    passed: dict[str, Passed]
    widths_bytes: dict[str, float]


@dataclass(eq=False, repr=False)
class TickRunner:
    """Executes ticks. ``manifest`` is the state after the last one."""

    _prepared: Prepared
    _checkpoint: Checkpoint
    _store: BlockStore
    _logs: StreamLogs
    _intake: Intake
    _sinks: Mapping[str, Sink]
    _dead_letters: DeadLetters
    _eddies: Eddies
    _until_done: bool
    _controller: Controller
    statistics: StatisticsStore
    manifest: Manifest

    def __post_init__(self) -> None:
        self.network: Network = self._prepared.network
        self._queues = Queues(self._prepared)
        self._keep_ratios = KeepRatios(self.network)
        self._measuring = Measuring(self.network, self._store.spark, self._checkpoint.uid)
        self._latency = ResultLatency(self._prepared, self._queues.streams_of)
        self._attempts = Attempts(self._prepared, self._store)
        self._builder = TickBuilder(self._prepared, self._logs, self._store, self._eddies, self._attempts)
        self._merger = BlockMerger(self._prepared, self._logs, self._store)
        self._jobs = TickJobs(
            self._prepared,
            self._store,
            self._checkpoint,
            self._sinks,
            self._dead_letters,
            self._builder,
            self._measuring,
            self._latency,
            self._attempts,
        )
        self._next_manifest = NextManifest(self._prepared, self._eddies, self._queues.streams_of)
        self._sweeping: Future[None] | None = None
        self.paused: tuple[str, ...] = self.manifest.paused
        """Queries that are paused from the next tick on; set by other threads."""
        self._prepared.relations.use(self.manifest.relations)

    def widths_bytes(self) -> dict[str, float]:
        """Bytes of a tuple before each operator, estimated from its columns."""
        operators = self._prepared.operators.items()
        return {name: max(width_bytes(schema) for schema in operator.inputs) for name, operator in operators}

    def paused_operators(self) -> frozenset[str]:
        """The operators that serve paused queries alone."""
        paused, network = set(self.paused), self.network
        return frozenset(n for n in network.operators if paused and paused.issuperset(network.queries_of(n)))

    def is_committed(self, batch_id: int) -> bool:
        """Whether a tick was already committed before a restart."""
        return batch_id <= self.manifest.batch_id

    def forecast_queues(self, tick: OpenTick, profiles: Profiles) -> dict[str, ForecastQueue]:
        """Queue lengths at the start of the tick, and the share of each that can be taken."""
        started_s, snapshots = tick.started_s, tick.snapshots
        return self._queues.forecast(self.manifest, tick.arrivals, started_s, snapshots, profiles)

    def _deliver(self) -> None:
        """Deliver results of committed ticks to where they cannot be taken back."""
        for sink in self._sinks.values():
            if isinstance(sink, DeliveringSink):
                sink.deliver()

    def open(self, batch: DataFrame, batch_id: int, now_s: float) -> OpenTick:
        """Take in a micro-batch, after what a run before this one has left to be delivered."""
        self._deliver()
        tick = OpenTick(batch, batch_id, now_s)
        self._arrive(tick)
        return tick

    def _arrive(self, tick: OpenTick) -> None:
        """Append the readable part of the micro-batch to the logs."""
        while True:
            try:
                with _timed(tick, "arrive"):
                    return self._append(tick)
            except Exception as error:
                self._set_files_aside(error)

    def _append(self, tick: OpenTick) -> None:
        batch_id, now_us = tick.batch_id, int(tick.started_s * 1e6)
        self._checkpoint.begin(batch_id)
        self._store.views.begin_tick()
        tick.end_of_input = self._until_done and self._intake.is_exhausted(batch_id)
        tick.arrivals = self._intake.take(tick.batch, batch_id, self.manifest, now_us, tick.end_of_input)
        for name, arrival in tick.arrivals.items():
            self._latency.arrived.note(name, arrival.state.max_ts, now_us)
        tick.snapshots = self._eddies.snapshots()

    def _set_files_aside(self, error: Exception) -> None:
        """Prepare to retry a tick: once a broker answers again, or without the files that made it fail."""
        if not self._intake.outage.outlast(error):
            self._intake.quarantine.blame(error)
        self._forget_tick()

    def _forget_tick(self) -> None:
        self._logs.memory.keep_only({block.path for block in self.manifest.block_refs()})

    def _prepare_retry(self, failure: JobsError) -> None:
        """Prepare to execute a tick again without the tuples or files that made it fail, if any did."""
        if self._attempts.catch(failure.errors):
            self._forget_tick()
            return
        try:
            self._set_files_aside(failure.errors[0])
        except Exception as unsolved:
            self._attempts.blame(unsolved, failure.queries)
            raise

    def execute(self, tick: OpenTick, chosen: Chosen, count: bool, profiles: Profiles) -> TickOutcome:
        """Run the chosen turns as concurrent jobs, then commit the tick.

        With ``count``, the output of each operator is counted in the same jobs.
        """
        while True:
            try:
                plan, found = self._run_plan(tick, chosen, count, profiles)
                break
            except JobsError as failure:
                self._prepare_retry(failure)
            except Exception as error:
                self._prepare_retry(JobsError([error]))
            self._arrive(tick)
        with _timed(tick, "commit"):
            tick.keep_ratios = self._keep_ratios.add(tick.arrivals)
            self._publish(tick, found)
            after = self._next_manifest.after(self.manifest, tick, plan, found, self.paused)
            event = self._event(tick, plan, after, found, profiles)
            self.statistics.arrivals.add(event)
            settings, change = self._next_settings(event, after.settings)
            after = replace(after, settings=settings)
            self._checkpoint.commit(after)
            # others read it at any time: what it names is durable
            self.manifest = after
        with _timed(tick, "deliver"):
            self._deliver()
        with _timed(tick, "commit"):
            self._prepared.relations.use(self.manifest.relations)
            self._eddies.after_commit(self.manifest, tick.snapshots)
            self._attempts.after_tick(sum(found.set_aside.values()))
            self._release()
        with _timed(tick, "learn"):
            return self._outcome(event, change, plan, found)

    def _run_plan(
        self, tick: OpenTick, chosen: Chosen, count: bool, profiles: Profiles
    ) -> tuple[TickPlan, JobResults]:
        with _timed(tick, "build"):
            rows_at_hand = self._rows_at_hand(tick)
            self._set_parallelism(rows_at_hand, chosen, profiles)
            plan = self._build(tick, chosen, count)
        if plan.trials:
            # before other jobs, whose tasks would distort the measurement
            with _timed(tick, "try"):
                tried = self._measuring.run_trials(tick.batch_id, plan.trials)
                self._prepared.predicate_order.add_trials(tried)
        with _timed(tick, "run"):
            found = self._jobs.run(
                tick, plan, self.manifest, is_light=rows_at_hand <= self._store.one_task_rows
            )
        if found.samples is not None:
            self.statistics.joins.add(found.samples)
        self.statistics.joins.add_keys(found.keys)
        return plan, found

    def _build(self, tick: OpenTick, chosen: Chosen, count: bool) -> TickPlan:
        # counting in the middle of a plan keeps Spark from pushing the cut below it
        plan = TickPlan(
            chosen,
            tick.batch_id,
            counting=count and chosen.takes_all,
            trying=self._prepared.predicate_order.wants_trial(),
            sampling=self._controller.wants_samples(),
        )
        for name in self.network.operators:
            self._builder.add(name, self.manifest, tick.arrivals, plan, tick.end_of_input, tick.snapshots)
        self._merger.merge(tick.batch_id, plan)
        return plan

    def _next_settings(
        self, event: TickCommitted, settings: TickSettings
    ) -> tuple[TickSettings, SettingsChanged | None]:
        """Fix the settings of the next tick before this one is committed, so that a replay uses the same."""
        decision = self._controller.decide(event, settings)
        after, reason = decision.settings, decision.reason
        if after.chooses_like(settings):
            return after, None
        change = SettingsChanged(event.now_s, event.batch_id, reason, settings, after, decision.statistics)
        return after, change

    def _set_parallelism(self, rows_at_hand: float, chosen: Chosen, profiles: Profiles) -> None:
        """Use as many tasks as there is work for: each costs some ten milliseconds."""
        dearest_s = max(
            (
                chosen.taken[name] * profiles[name].seconds_per_tuple
                for name, operator in self._prepared.operators.items()
                if not operator.is_ordered
            ),
            default=0.0,
        )
        self._store.one_task_rows = ONE_TASK_ROWS if dearest_s <= _ONE_TASK_S else _DEAR_ONE_TASK_ROWS
        tasks = str(min(self._store.parallelism, 1 + int(rows_at_hand) // _ROWS_PER_TASK))
        if tasks != self._store.plans.tasks:
            self._store.spark.conf.set("spark.sql.shuffle.partitions", tasks)
            self._store.plans.tasks = tasks

    def _rows_at_hand(self, tick: OpenTick) -> float:
        """Rows that have arrived or are stored: no query of the tick reads more."""
        arrived = sum(arrival.rows.count for arrival in tick.arrivals.values())
        return arrived + sum({block.path: block.rows for block in self.manifest.block_refs()}.values())

    def _publish(self, tick: OpenTick, found: JobResults) -> None:
        for name, result in found.written.items():
            self._sinks[name].publish(tick.batch_id, result.rows, result.slices, tick.keep_ratios[name])
        self._dead_letters.publish(tick.batch_id)

    def _release(self) -> None:
        """Release blocks that are no longer needed, in memory and on disk."""
        kept = {block.path for block in self.manifest.block_refs()}
        self._logs.memory.keep_only(kept)
        if self._sweeping is not None:
            self._sweeping.result()
        self._sweeping = self._jobs.submit(self._checkpoint.sweep, self.manifest)

    def _outcome(
        self,
        event: TickCommitted,
        change: SettingsChanged | None,
        plan: TickPlan,
        found: JobResults,
    ) -> TickOutcome:
        results = {name: result.rows for name, result in found.written.items()}
        # last of all: Spark records task metrics with a delay
        least_rows = self.statistics.operators.least_rows
        works = self._measuring.works(event.batch_id, plan, results, found.stored, least_rows)
        event = replace(event, busy_s=sum(work.seconds for work in works))
        passed = self._measuring.passed(plan, results, found.selected)
        return TickOutcome(event, change, works, passed, widths_of(found.stored))

    def _event(
        self, tick: OpenTick, plan: TickPlan, after: Manifest, found: JobResults, profiles: Profiles
    ) -> TickCommitted:
        now_s = time.time()
        lengths = self._queues.lengths(after, profiles)
        tuples, size, window = self._queues.backlog(after, lengths)
        counts = {name: arrival.counts for name, arrival in tick.arrivals.items()}
        return TickCommitted(
            now_s=now_s,
            batch_id=tick.batch_id,
            seconds=now_s - tick.started_s,
            streams=counts,
            queries={
                name: QueryCounts(
                    r.rows,
                    tuple((now_s - at / 1e6, n) for at, n in r.arrived_at),
                    tick.keep_ratios[name],
                    found.set_aside.get(name, 0),
                )
                for name, r in found.written.items()
            },
            backlog_tuples=tuples,
            backlog_bytes=size,
            window_bytes=window,
            phases_s=tick.phases_s,
            until_s={
                name: state.max_ts / 1e6
                for name, state in after.streams.items()
                if state.max_ts > BEGINNING_US
            },
            lateness_us={name: a.lateness_us for name, a in tick.arrivals.items() if a.lateness_us},
            operators={
                name: OperatorCounts(plan.moved.get(name, _NOT_MOVED).rows, *length)
                for name, length in lengths.items()
            },
        )

    def close(self) -> None:
        """Finish background work."""
        self._eddies.close()
        self._jobs.close()
        self._logs.memory.keep_only(())


@contextmanager
def _timed(tick: OpenTick, phase: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        tick.phases_s[phase] = tick.phases_s.get(phase, 0.0) + time.perf_counter() - started
