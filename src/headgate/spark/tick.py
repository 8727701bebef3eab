"""A tick: arrive, plan, execute, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.model.event import CourseChanged, QueryCounts, TickCommitted
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Aggregate, Eddy, WindowUpdate
from headgate.runtime.asking import Asking
from headgate.runtime.forecast import ForecastQueue
from headgate.runtime.helm import Helm
from headgate.spark import probing
from headgate.spark.blocks import BlockStore, width_bytes
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.columns import ARRIVED, BEGINNING_US
from headgate.spark.compiled import Compiled
from headgate.spark.costs import Work
from headgate.spark.deadletters import DeadLetters
from headgate.spark.eddies.eddies import Eddies
from headgate.spark.eddies.line import Standing
from headgate.spark.flow import Chosen, StoreTask, TickPlan
from headgate.spark.intake import Inflow, Intake
from headgate.spark.kept import KeptShares
from headgate.spark.learn import Passed
from headgate.spark.manifest import BlockRef, Manifest, OperatorState, StreamState
from headgate.spark.measuring import Measuring, widths_of
from headgate.spark.moves import Mover, is_ordered
from headgate.spark.plans.side import union
from headgate.spark.queues import Queues, backlog
from headgate.spark.sinks import Sink

Result = TypeVar("Result")

# fewer rows than this are not worth a task of their own
_ROWS_PER_TASK = 20_000
# concurrent Spark jobs of one tick
_JOBS = 4
# how many different times of arrival the latency of a tick's results is resolved into
_ARRIVAL_BINS = 32


@dataclass
class OpenTick:
    """A tick whose input has arrived and whose turns are being chosen."""

    batch_id: int
    started_s: float
    inflows: dict[str, Inflow]
    flush: bool
    standings: dict[str, Standing] = field(default_factory=dict)
    kept: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """A tick that has happened."""

    event: TickCommitted
    change: CourseChanged | None
    works: list[Work]
    passed: dict[str, Passed]
    widths_bytes: dict[str, float]


@dataclass(frozen=True)
class _Written:
    rows: int
    latencies_at: tuple[tuple[float, float], ...]


class TickRunner:
    """Carries ticks out. ``manifest`` is the state after the last one."""

    def __init__(
        self,
        compiled: Compiled,
        checkpoint: Checkpoint,
        store: BlockStore,
        intake: Intake,
        sinks: Mapping[str, Sink],
        dead_letters: DeadLetters,
        eddies: Eddies,
        until_done: bool,
        helm: Helm,
        asking: Asking,
        manifest: Manifest,
    ) -> None:
        self.network: Network = compiled.network
        self._compiled = compiled
        self._checkpoint = checkpoint
        self._store = store
        self._intake = intake
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._until_done = until_done
        self._helm = helm
        self._eddies = eddies
        self._asking = asking
        self._mover = Mover(compiled, store, eddies, asking)
        self._queues = Queues(self.network)
        self._kept = KeptShares(self.network)
        self._measuring = Measuring(self.network, store.spark, checkpoint.uid)
        self._pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="headgate-job")
        self._sweeping: Future[None] | None = None
        self.manifest = manifest

    def widths_bytes(self) -> dict[str, float]:
        """Bytes of a tuple before each operator, as its columns suggest."""
        inputs = self._compiled.inputs.items()
        return {name: max(width_bytes(schema) for schema in schemas) for name, schemas in inputs}

    def is_committed(self, batch_id: int) -> bool:
        """Whether a tick has happened already, before a restart."""
        return batch_id <= self.manifest.batch_id

    def forecast_queues(self, tick: OpenTick) -> dict[str, ForecastQueue]:
        """Queue lengths at the start of the tick, and which share of each can be taken."""
        return self._queues.forecast(self.manifest, tick.inflows, tick.started_s, tick.standings)

    def open(self, batch: DataFrame, batch_id: int, now_s: float) -> OpenTick:
        """Take in a micro-batch."""
        tick = OpenTick(batch_id, now_s, {}, flush=False)
        with _timed(tick, "arrive"):
            self._checkpoint.begin(batch_id)
            now_us = int(now_s * 1e6)
            tick.flush = self._until_done and self._intake.is_exhausted(batch_id)
            tick.inflows = self._intake.take(batch, batch_id, self.manifest, now_us, tick.flush)
            tick.kept = self._kept.take_in(tick.inflows)
            tick.standings = self._eddies.standing()
        return tick

    def execute(self, tick: OpenTick, chosen: Chosen, count: bool) -> Outcome:
        """Run the chosen moves as concurrent jobs, then make the tick durable.

        With ``count``, what each operator passes on is counted on the way.
        """
        with _timed(tick, "plan"):
            self._set_parallelism(tick)
            # counting in the middle of a plan keeps Spark from pushing the cut below it
            plan = TickPlan(
                chosen,
                counting=count and chosen.takes_all,
                trying=self._asking.wants_trial(),
                probing=self._helm.controller.wants_samples(),
            )
            for name in self.network.operators:
                self._mover.add(name, self.manifest, tick.inflows, plan, tick.flush, tick.standings)
        if plan.trials:
            # before other jobs, whose tasks would slow these down
            with _timed(tick, "try"):
                self._asking.take_in(self._measuring.tried(tick.batch_id, plan.trials))
        with _timed(tick, "execute"):
            written, stored = self._run_jobs(tick, plan)
        with _timed(tick, "commit"):
            self._publish(tick, written)
            after = self._next_manifest(tick, plan, written, stored)
            change = self._steer(tick, after, written)
            self.manifest = after if change is None else replace(after, course=change.after)
            self._checkpoint.commit(self.manifest)
            self._eddies.committed(self.manifest, tick.standings)
            self._intake.release()
            self._sweep()
        return self._outcome(tick, plan, written, stored, change)

    def _steer(
        self, tick: OpenTick, after: Manifest, written: Mapping[str, _Written]
    ) -> CourseChanged | None:
        """Fix what the next tick goes by before this one is over: a replay finds it in the manifest."""
        event = self._event(tick, after, written)
        decided = self._helm.next(event, after.course)
        if decided.course == after.course:
            return None
        reason, figures = decided.reason, decided.figures
        return CourseChanged(event.now_s, tick.batch_id, reason, after.course, decided.course, figures)

    def _set_parallelism(self, tick: OpenTick) -> None:
        """As many tasks after a shuffle as there is work for: each costs some ten milliseconds."""
        rows = sum(inflow.rows for inflow in tick.inflows.values())
        states = self.manifest.operators.values()
        rows += sum(block.rows for state in states for side in state.blocks for block in side)
        tasks = min(self._store.parallelism, 1 + rows // _ROWS_PER_TASK)
        self._store.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))

    def _run_jobs(
        self, tick: OpenTick, plan: TickPlan
    ) -> tuple[dict[str, _Written], list[tuple[StoreTask, BlockRef | None]]]:
        writes = {
            query.name: self._submit(self._write_results, tick, query, results)
            for query in self.network.queries.values()
            if (results := self._results(query, plan)) is not None
        }
        stores = [(task, self._submit(self._write_block, tick, plan, task)) for task in plan.stores]
        aside = [i.set_aside for i in tick.inflows.values() if i.set_aside is not None]
        letters = self._submit(self._dead_letters.write, union(aside), tick.batch_id) if aside else None
        probes = self._submit(probing.run, plan.probes) if plan.probes else None
        # every job is waited for, so that none still runs when a failed tick is tried again
        jobs = [*writes.values(), *[f for _, f in stores], letters, probes]
        failed = [e for f in jobs if f and (e := f.exception())]
        plan.release()
        if failed:
            raise failed[0]
        if probes is not None:
            self._helm.controller.sampled(probes.result())
        return {name: f.result() for name, f in writes.items()}, [(t, f.result()) for t, f in stores]

    def _submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        return self._pool.submit(inheritable_thread_target(self._store.spark)(function), *arguments)

    def _results(self, query: QueryDefinition, plan: TickPlan) -> DataFrame | None:
        found = union([plan.flows[name].tuples for name in query.outputs])
        first = self.manifest.rows_out.get(query.name) is None
        if found is None and first:
            # an empty file tells readers the schema of a query without results
            schema = self._compiled.outputs[query.outputs[0]]
            return self._store.empty(schema)
        return found

    def _write_results(self, tick: OpenTick, query: QueryDefinition, results: DataFrame) -> _Written:
        counted = Observation(f"results of {query.name}")
        measures = [F.count(F.lit(1)).alias("rows")]
        waited = self._may_have_waited(tick, query)
        if waited:
            measures.append(F.histogram_numeric(F.col(ARRIVED), F.lit(_ARRIVAL_BINS)).alias("arrivals"))
        observed = results.observe(counted, *measures)
        empty = query.name not in self.manifest.rows_out
        with self._measuring.of_query(tick.batch_id, query.name):
            self._sinks[query.name].write(observed.drop(ARRIVED), tick.batch_id, empty)
        found = counted.get
        rows: int = found["rows"]
        if not waited:
            return _Written(rows, ((tick.started_s * 1e6, float(rows)),) if rows else ())
        bins = tuple((float(b["x"]), float(b["y"])) for b in found["arrivals"] or ())
        return _Written(rows, bins)

    def _may_have_waited(self, tick: OpenTick, query: QueryDefinition) -> bool:
        """Whether some results may be of tuples that arrived in an earlier tick."""
        names = self.network.operators_of(query.name)
        if any(is_ordered(self.network.operators[name]) for name in names):
            return True
        streams = {stream for name in names for stream in self._queues.streams_of[name]}
        states = [state for name, state in self.manifest.operators.items() if name in names]
        return any(any(s.blocks) for s in states) or any(tick.inflows[s].state.landed for s in streams)

    def _write_block(self, tick: OpenTick, plan: TickPlan, task: StoreTask) -> BlockRef | None:
        part = "groups" if task.side is None else f"in{task.side}"
        name = f"{task.operator}-{part}"
        from_ts = plan.frontiers[task.operator]
        with self._measuring.of_operator(tick.batch_id, task.operator):
            written = self._store.write(
                task.tuples, tick.batch_id, name, task.expected_rows, from_ts, int(tick.started_s * 1e6)
            )
        return written[0] if written else None

    def _publish(self, tick: OpenTick, written: Mapping[str, _Written]) -> None:
        for name, result in written.items():
            first = name not in self.manifest.rows_out
            self._sinks[name].publish(tick.batch_id, result.rows, first, tick.kept[name])
        self._dead_letters.publish(tick.batch_id)

    def _next_manifest(
        self,
        tick: OpenTick,
        plan: TickPlan,
        written: Mapping[str, _Written],
        stored: list[tuple[StoreTask, BlockRef | None]],
    ) -> Manifest:
        operators = {}
        for name, operator in self.network.operators.items():
            blocks = [list(side) for side in plan.kept[name]]
            groups = self.manifest.operators.get(name, OperatorState()).groups
            for task, ref in stored:
                if task.operator == name and ref is not None:
                    if task.side is None:
                        groups = ref
                    elif isinstance(operator, Eddy):
                        blocks[task.side] += self._eddies.entered(name, ref)
                    else:
                        blocks[task.side].append(ref)
            frontier = plan.frontiers[name]
            if not is_ordered(operator) and not any(blocks):
                # an empty queue has no order to remember: stragglers are welcome again
                frontier = BEGINNING_US
            operators[name] = OperatorState(frontier, tuple(tuple(side) for side in blocks), groups)
        rows_out = dict(self.manifest.rows_out)
        for name, result in written.items():
            rows_out[name] = rows_out.get(name, 0) + result.rows
        streams = {name: self._settled(name, i.state, operators) for name, i in tick.inflows.items()}
        # behind an eddy, the end of input comes when the last tuple is through
        flushed = tick.flush and all(plan.flows[name].released for name in tick.standings)
        return Manifest(tick.batch_id, flushed, streams, operators, rows_out, self.manifest.course)

    def _settled(
        self, stream: str, state: StreamState, operators: Mapping[str, OperatorState]
    ) -> StreamState:
        """Raise the floor to what ordered readers have passed; drop landed blocks nobody can ask for."""
        readers = [
            operators[name].frontier_ts
            for name, operator in self.network.operators.items()
            if isinstance(operator, (WindowUpdate, Aggregate)) and stream in self._queues.streams_of[name]
        ]
        floor = max([state.floor_ts, *readers])
        needed_from = min(readers, default=BEGINNING_US)
        landed = [b for b in state.landed[:-1] if b.max_ts >= needed_from]
        last = [b for b in state.landed[-1:] if state.waiting_rows or b.max_ts >= needed_from]
        return replace(state, floor_ts=floor, landed=(*landed, *last))

    def _sweep(self) -> None:
        if self._sweeping is not None:
            self._sweeping.result()
        self._sweeping = self._submit(self._checkpoint.sweep, self.manifest)

    def _outcome(
        self,
        tick: OpenTick,
        plan: TickPlan,
        written: Mapping[str, _Written],
        stored: list[tuple[StoreTask, BlockRef | None]],
        change: CourseChanged | None,
    ) -> Outcome:
        results = {name: result.rows for name, result in written.items()}
        works = self._measuring.works(tick.batch_id, plan, results, stored)
        event = replace(self._event(tick, self.manifest, written), busy_s=sum(work.seconds for work in works))
        passed = self._measuring.passed(plan, results)
        return Outcome(event, change, works, passed, widths_of(stored))

    def _event(self, tick: OpenTick, after: Manifest, written: Mapping[str, _Written]) -> TickCommitted:
        now_s = time.time()
        tuples, size, window = backlog(after)
        counts = {name: inflow.counts for name, inflow in tick.inflows.items()}
        return TickCommitted(
            now_s=now_s,
            batch_id=tick.batch_id,
            seconds=now_s - tick.started_s,
            streams=counts,
            queries={
                name: QueryCounts(
                    r.rows,
                    tuple((now_s - at / 1e6, n) for at, n in r.latencies_at),
                    tick.kept[name],
                )
                for name, r in written.items()
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
        )

    def close(self) -> None:
        """Finish background work."""
        self._eddies.close()
        self._pool.shutdown(wait=True)


@contextmanager
def _timed(tick: OpenTick, phase: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    tick.phases_s[phase] = tick.phases_s.get(phase, 0.0) + time.perf_counter() - started
