"""A tick: arrive, choose, build, run, commit, learn."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.model.event import CourseChanged, QueryCounts, TickCommitted
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Eddy
from headgate.model.profile import Profiles
from headgate.model.shedding import Course
from headgate.runtime.forecast import ForecastQueue
from headgate.runtime.helm import Helm
from headgate.spark import probing, sql
from headgate.spark.blocks import BlockStore, width_bytes
from headgate.spark.build import Chosen, TickBuilder, TickPlan
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.cluster import task_slots
from headgate.spark.columns import BEGINNING_US, END_US, TS
from headgate.spark.costs import Work
from headgate.spark.deadletters import DeadLetters
from headgate.spark.eddies.eddies import Eddies
from headgate.spark.eddies.line import Standing
from headgate.spark.intake import Arrival, Intake
from headgate.spark.kept import KeptShares
from headgate.spark.learn import Passed
from headgate.spark.manifest import BlockRef, Manifest, OperatorState, StreamState
from headgate.spark.measuring import Measuring, widths_of
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.prepare import Prepared
from headgate.spark.queues import Queues
from headgate.spark.sinks import Sink
from headgate.spark.stream_log import StreamLogs

Result = TypeVar("Result")
Stored = list[tuple[StoreTask, BlockRef | None]]

# fewer rows than this are not worth a task of their own
_ROWS_PER_TASK = 20_000
# concurrent Spark jobs of one tick
_JOBS = 4
# how many different instants of arrival the latency of a tick's results is resolved into
_INSTANTS = 8
# ticks whose arrival is remembered
_ARRIVALS_REMEMBERED = 10_000


@dataclass
class OpenTick:
    """A tick whose input has arrived and whose turns are being chosen."""

    batch: DataFrame
    batch_id: int
    started_s: float
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    end_of_input: bool = False
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


class ArrivalTimes:
    """When the tuples of streams arrived, by timestamp."""

    def __init__(self, streams: Iterable[str]) -> None:
        self._known: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in streams}

    def note(self, stream: str, max_ts: int, now_us: int) -> None:
        """A stream has come as far as this."""
        reached, at_us = self._known[stream]
        if reached and max_ts <= reached[-1]:
            return
        reached.append(max_ts)
        at_us.append(now_us)
        if len(reached) > _ARRIVALS_REMEMBERED:
            del reached[: _ARRIVALS_REMEMBERED // 2], at_us[: _ARRIVALS_REMEMBERED // 2]

    def at_us(self, streams: Iterable[str], ts: int) -> int | None:
        """When the last of some streams had come as far as a timestamp; None if none of them has."""
        found = []
        for stream in streams:
            reached, at_us = self._known[stream]
            place = bisect_left(reached, ts)
            if place < len(reached):
                found.append(at_us[place])
        return max(found, default=None)

    def steps(self, streams: Iterable[str], from_ts: int, most: int) -> list[int]:
        """Timestamps between which all tuples arrived at one time; at most so many, evenly chosen."""
        found: set[int] = set()
        for stream in streams:
            reached, _ = self._known[stream]
            found.update(reached[bisect_left(reached, from_ts) :])
        steps = sorted(found)
        if len(steps) <= most:
            return steps
        return [steps[(place + 1) * len(steps) // most - 1] for place in range(most)]


class TickRunner:
    """Carries ticks out. ``manifest`` is the state after the last one."""

    def __init__(
        self,
        prepared: Prepared,
        checkpoint: Checkpoint,
        store: BlockStore,
        logs: StreamLogs,
        intake: Intake,
        sinks: Mapping[str, Sink],
        dead_letters: DeadLetters,
        eddies: Eddies,
        until_done: bool,
        helm: Helm,
        manifest: Manifest,
    ) -> None:
        self.network: Network = prepared.network
        self._prepared = prepared
        self._checkpoint = checkpoint
        self._store = store
        self._logs = logs
        self._intake = intake
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._until_done = until_done
        self._helm = helm
        self._eddies = eddies
        self._queues = Queues(prepared)
        self._kept = KeptShares(self.network)
        self._measuring = Measuring(self.network, store.spark, checkpoint.uid)
        self._arrived = ArrivalTimes(self.network.streams)
        # a block that only memory of an executor holds would be lost with the executor
        self._caches = task_slots(store.spark) is not None
        self._builder = TickBuilder(prepared, logs, store, eddies, holds_rows=self._caches)
        self._pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="headgate-job")
        self._sweeping: Future[None] | None = None
        self._tasks = ""
        self.manifest = manifest

    def widths_bytes(self) -> dict[str, float]:
        """Bytes of a tuple before each operator, as its columns suggest."""
        operators = self._prepared.operators.items()
        return {name: max(width_bytes(schema) for schema in operator.inputs) for name, operator in operators}

    def is_committed(self, batch_id: int) -> bool:
        """Whether a tick has happened already, before a restart."""
        return batch_id <= self.manifest.batch_id

    def forecast_queues(self, tick: OpenTick, profiles: Profiles) -> dict[str, ForecastQueue]:
        """Queue lengths at the start of the tick, and which share of each can be taken."""
        started_s, standings = tick.started_s, tick.standings
        return self._queues.forecast(self.manifest, tick.arrivals, started_s, standings, profiles)

    def open(self, batch: DataFrame, batch_id: int, now_s: float) -> OpenTick:
        """Take in a micro-batch."""
        tick = OpenTick(batch, batch_id, now_s)
        self._arrive(tick)
        return tick

    def _arrive(self, tick: OpenTick) -> None:
        """Take in what can be read of the micro-batch."""
        while True:
            try:
                with _timed(tick, "arrive"):
                    return self._take_in(tick)
            except Exception as error:
                self._set_files_aside(error)

    def _take_in(self, tick: OpenTick) -> None:
        batch_id, now_us = tick.batch_id, int(tick.started_s * 1e6)
        self._checkpoint.begin(batch_id)
        self._logs.begin()
        self._store.begin()
        tick.end_of_input = self._until_done and self._intake.is_exhausted(batch_id)
        tick.arrivals = self._intake.take(tick.batch, batch_id, self.manifest, now_us, tick.end_of_input)
        for name, arrival in tick.arrivals.items():
            self._arrived.note(name, arrival.state.max_ts, now_us)
        tick.standings = self._eddies.standing()

    def _set_files_aside(self, error: Exception) -> None:
        """Make ready to try a tick again without the files that made it fail; raises if none did."""
        self._intake.quarantine.blame(error)
        self._logs.memory.keep_only({block.path for block in self.manifest.block_refs()})
        self._intake.release()

    def execute(self, tick: OpenTick, chosen: Chosen, count: bool, profiles: Profiles) -> Outcome:
        """Run the chosen moves as concurrent jobs, then make the tick durable.

        With ``count``, what each operator passes on is counted on the way.
        """
        while True:
            try:
                plan, written, stored = self._carry_out(tick, chosen, count)
                break
            except Exception as error:
                self._set_files_aside(error)
                self._arrive(tick)
        with _timed(tick, "commit"):
            tick.kept = self._kept.take_in(tick.arrivals)
            self._publish(tick, written)
            after = self._next_manifest(tick, plan, written, stored)
            event = self._event(tick, after, written, profiles)
            change = self._steer(event, after.course)
            self.manifest = after if change is None else replace(after, course=change.after)
            self._checkpoint.commit(self.manifest)
            self._eddies.committed(self.manifest, tick.standings)
            self._release()
        with _timed(tick, "learn"):
            return self._outcome(event, change, plan, written, stored)

    def _carry_out(
        self, tick: OpenTick, chosen: Chosen, count: bool
    ) -> tuple[TickPlan, dict[str, _Written], Stored]:
        with _timed(tick, "build"):
            plan = self._build(tick, chosen, count)
        if plan.trials:
            # before other jobs, whose tasks would slow these down
            with _timed(tick, "try"):
                self._prepared.asking.take_in(self._measuring.tried(tick.batch_id, plan.trials))
        with _timed(tick, "run"):
            written, stored = self._run_jobs(tick, plan)
        return plan, written, stored

    def _build(self, tick: OpenTick, chosen: Chosen, count: bool) -> TickPlan:
        self._set_parallelism(tick)
        # counting in the middle of a plan keeps Spark from pushing the cut below it
        plan = TickPlan(
            chosen,
            counting=count and chosen.takes_all,
            trying=self._prepared.asking.wants_trial(),
            probing=self._helm.controller.wants_samples(),
        )
        for name in self.network.operators:
            self._builder.add(name, self.manifest, tick.arrivals, plan, tick.end_of_input, tick.standings)
        self._builder.merge_blocks(tick.batch_id, plan)
        return plan

    def _steer(self, event: TickCommitted, course: Course) -> CourseChanged | None:
        """Fix the settings of the next tick before this one is over: a replay finds them in the manifest."""
        decided = self._helm.next(event, course)
        if decided.course == course:
            return None
        reason, figures = decided.reason, decided.figures
        return CourseChanged(event.now_s, event.batch_id, reason, course, decided.course, figures)

    def _set_parallelism(self, tick: OpenTick) -> None:
        """As many tasks after a shuffle as there is work for: each costs some ten milliseconds."""
        rows = sum(arrival.rows.count for arrival in tick.arrivals.values())
        rows += sum({block.path: block.rows for block in self.manifest.block_refs()}.values())
        tasks = str(min(self._store.parallelism, 1 + int(rows) // _ROWS_PER_TASK))
        if tasks != self._tasks:
            self._store.spark.conf.set("spark.sql.shuffle.partitions", tasks)
            self._tasks = tasks

    def _run_jobs(self, tick: OpenTick, plan: TickPlan) -> tuple[dict[str, _Written], Stored]:
        writes = {
            query.name: self._submit(self._write_results, tick, query, results)
            for query in self.network.queries.values()
            if (results := self._results(query, plan)) is not None
        }
        stores = [(task, self._submit(self._write_block, tick, task)) for task in plan.stores]
        appends = [self._submit(*append) for append in self._appends(tick, plan)]
        aside = sql.union([arrival.dead_letters for arrival in tick.arrivals.values()])
        letters = self._submit(self._write_letters, aside, tick.batch_id) if aside else None
        probes = self._submit(probing.run, plan.probes) if plan.probes else None
        # every job is waited for, so that none still runs when a failed tick is tried again
        jobs = [*writes.values(), *[f for _, f in stores], *appends, letters, probes]
        failed = [e for f in jobs if f and (e := f.exception())]
        plan.release()
        if failed:
            raise failed[0]
        if probes is not None:
            self._helm.controller.sampled(probes.result())
        return {name: f.result() for name, f in writes.items()}, [(t, f.result()) for t, f in stores]

    def _submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        return self._pool.submit(inheritable_thread_target(self._store.spark)(function), *arguments)

    def _appends(self, tick: OpenTick, plan: TickPlan) -> Iterator[tuple[Any, ...]]:
        """New blocks of logs that have to outlive the tick: somebody still needs them."""
        kept = [*plan.kept.values(), *plan.pushing.values()]
        needed = {block.path for sides in kept for side in sides for block in side}
        for arrival in tick.arrivals.values():
            needed |= {block.path for block in arrival.state.tail}
            rows = {block.path: block.rows for block in (*arrival.blocks, *arrival.state.tail)}
            for path, frame in arrival.unwritten.items():
                if path in needed:
                    yield self._store.write_known, frame, path, rows[path]
        for merged in plan.merged:
            yield self._store.write_known, merged.tuples, merged.block.path, merged.block.rows

    def _write_letters(self, query: str, batch_id: int) -> None:
        self._dead_letters.write(self._store.spark.sql(query), batch_id)

    def _results(self, query: QueryDefinition, plan: TickPlan) -> str | DataFrame | None:
        results = self._builder.results(query, plan)
        if results is None and self.manifest.rows_out.get(query.name) is None:
            # an empty file tells readers the schema of a query without results
            return self._store.empty(self._prepared.operators[query.outputs[0]].output)
        return results

    def _write_results(self, tick: OpenTick, query: QueryDefinition, results: str | DataFrame) -> _Written:
        tuples = self._store.spark.sql(results) if isinstance(results, str) else results
        counted = Observation(f"results of {query.name}")
        steps = self._arrival_steps(tick, query)
        own = sql.name(TS)
        until = ", ".join(f"count_if({own} <= {sql.Bound(step).at(own)})" for step in steps)
        measures = F.expr("count(1) AS rows"), F.expr(f"array({until}) AS until")
        observed = tuples.observe(counted, *measures)
        is_first = query.name not in self.manifest.rows_out
        with self._measuring.of_query(tick.batch_id, query.name):
            self._sinks[query.name].write(observed.drop(TS), tick.batch_id, is_first)
        found = counted.get
        return _Written(found["rows"], self._latencies_at(tick, query, steps, found))

    def _arrival_steps(self, tick: OpenTick, query: QueryDefinition) -> list[int]:
        """Results up to each of these timestamps are counted, to know how long they have waited."""
        if not self._may_have_waited(tick, query):
            return []
        waits_since = [END_US]
        for name in self.network.operators_of(query.name):
            state = self.manifest.operators.get(name, OperatorState())
            if self._prepared.operators[name].is_ordered:
                waits_since.append(state.progress_ts)
            else:
                waits_since += [block.min_ts for side in state.blocks for block in side]
        since = min(waits_since)
        found = self._arrived.steps(self.network.streams_of(query.name), since, _INSTANTS)
        # one of few numbers, so that Spark compiles few counts
        wanted = 1 << (len(found) - 1).bit_length() if found else 0
        return found + [END_US] * (wanted - len(found))

    def _latencies_at(
        self, tick: OpenTick, query: QueryDefinition, steps: list[int], found: Mapping[str, Any]
    ) -> tuple[tuple[float, float], ...]:
        """When results' tuples had arrived, and how many results have tuples of that time."""
        streams, now_us = self.network.streams_of(query.name), tick.started_s * 1e6
        counts, below = [], 0
        for step, until in zip(steps, found["until"], strict=True):
            at_us = self._arrived.at_us(streams, step)
            counts.append((now_us if at_us is None else float(at_us), float(until - below)))
            below = until
        counts.append((now_us, float(found["rows"] - below)))
        return tuple((at_us, rows) for at_us, rows in counts if rows)

    def _may_have_waited(self, tick: OpenTick, query: QueryDefinition) -> bool:
        """Whether some results may be of tuples that arrived in an earlier tick."""
        names = self.network.operators_of(query.name)
        operators = [self._prepared.operators[name] for name in names]
        if any(operator.is_ordered or isinstance(operator.settings, Eddy) for operator in operators):
            return True
        states = [state for name, state in self.manifest.operators.items() if name in names]
        streams = {stream for name in names for stream in self._queues.streams_of[name]}
        return any(any(s.blocks) for s in states) or any(self._prepared.logs[s].is_sequenced for s in streams)

    def _write_block(self, tick: OpenTick, task: StoreTask) -> BlockRef | None:
        part = (
            f"groups{task.level or ''}"
            if task.side is None
            else f"{'log' if task.is_pushing else 'in'}{task.side}"
        )
        path = self._checkpoint.block(tick.batch_id, f"{task.operator}-{part}")
        tuples = self._store.spark.sql(task.tuples) if isinstance(task.tuples, str) else task.tuples
        with self._measuring.of_operator(tick.batch_id, task.operator):
            block = self._store.write(tuples, path, task.expected_rows, int(tick.started_s * 1e6))
        if block is None or task.level is None:
            return block
        # where panes lie in time is all there is to know of them
        return replace(block, step=task.level, quantiles=())

    def _publish(self, tick: OpenTick, written: Mapping[str, _Written]) -> None:
        for name, result in written.items():
            first = name not in self.manifest.rows_out
            self._sinks[name].publish(tick.batch_id, result.rows, first, tick.kept[name])
        self._dead_letters.publish(tick.batch_id)

    def _next_manifest(
        self, tick: OpenTick, plan: TickPlan, written: Mapping[str, _Written], stored: Stored
    ) -> Manifest:
        operators = {}
        for name, operator in self._prepared.operators.items():
            blocks = [list(side) for side in plan.kept[name]]
            groups = list(plan.groups.get(name, ()))
            pushing = [list(side) for side in plan.pushing.get(name, ())]
            for task, ref in stored:
                if task.operator == name and ref is not None:
                    if task.side is None:
                        groups.append(ref)
                    elif task.is_pushing:
                        pushing[task.side].append(ref)
                    elif isinstance(operator.settings, Eddy):
                        blocks[task.side] += self._eddies.entered(name, ref)
                    else:
                        blocks[task.side].append(ref)
            progress = plan.progress[name]
            if not operator.is_ordered and not any(blocks):
                # an empty queue has no order to remember: stragglers are welcome again
                progress = BEGINNING_US
            operators[name] = OperatorState(
                progress, tuple(map(tuple, blocks)), tuple(groups), tuple(map(tuple, pushing))
            )
        rows_out = dict(self.manifest.rows_out)
        for name, result in written.items():
            rows_out[name] = rows_out.get(name, 0) + result.rows
        streams = {name: self._settled(name, a.state, operators) for name, a in tick.arrivals.items()}
        # behind an eddy, the end of input comes when the last tuple is through
        ended = tick.end_of_input and all(plan.rows[name].idle for name in tick.standings)
        return Manifest(tick.batch_id, ended, streams, operators, rows_out, self.manifest.course)

    def _settled(
        self, stream: str, state: StreamState, operators: Mapping[str, OperatorState]
    ) -> StreamState:
        """Raise the floor to the progress of readers that keep order: what comes below is late."""
        readers = [
            operators[name].progress_ts
            for name, operator in self._prepared.operators.items()
            if operator.is_ordered and stream in self._queues.streams_of[name]
        ]
        return replace(state, floor_ts=max([state.floor_ts, *readers]))

    def _release(self) -> None:
        """Drop what neither memory nor disk has to hold any longer."""
        kept = {block.path for block in self.manifest.block_refs()}
        self._logs.memory.keep_only(kept if self._caches else ())
        self._intake.release()
        if self._sweeping is not None:
            self._sweeping.result()
        self._sweeping = self._submit(self._checkpoint.sweep, self.manifest)

    def _outcome(
        self,
        event: TickCommitted,
        change: CourseChanged | None,
        plan: TickPlan,
        written: Mapping[str, _Written],
        stored: Stored,
    ) -> Outcome:
        results = {name: result.rows for name, result in written.items()}
        # last of all: Spark notes with a delay what tasks have reported
        works = self._measuring.works(event.batch_id, plan, results, stored)
        event = replace(event, busy_s=sum(work.seconds for work in works))
        passed = self._measuring.passed(plan, results)
        return Outcome(event, change, works, passed, widths_of(stored))

    def _event(
        self, tick: OpenTick, after: Manifest, written: Mapping[str, _Written], profiles: Profiles
    ) -> TickCommitted:
        now_s = time.time()
        tuples, size, window = self._queues.backlog(after, profiles)
        counts = {name: arrival.counts for name, arrival in tick.arrivals.items()}
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
        self._logs.memory.keep_only(())


@contextmanager
def _timed(tick: OpenTick, phase: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        tick.phases_s[phase] = tick.phases_s.get(phase, 0.0) + time.perf_counter() - started
