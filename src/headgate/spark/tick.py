"""A tick: arrive, choose, build, run, commit, learn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from headgate.model.event import CourseChanged, QueryCounts, TickCommitted
from headgate.model.network import Network
from headgate.model.operator import Eddy
from headgate.model.profile import Profiles
from headgate.model.shedding import Course
from headgate.runtime.forecast import ForecastQueue
from headgate.runtime.helm import Helm
from headgate.spark.blocks import BlockStore, width_bytes
from headgate.spark.build import TickBuilder
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.columns import BEGINNING_US
from headgate.spark.costs import Work
from headgate.spark.deadletters import DeadLetters
from headgate.spark.eddies.eddies import Eddies
from headgate.spark.intake import Intake
from headgate.spark.jobs import JobResults, TickJobs
from headgate.spark.kept import KeptShares
from headgate.spark.learn import Passed
from headgate.spark.manifest import Manifest, OperatorState, StreamState
from headgate.spark.measuring import Measuring, widths_of
from headgate.spark.prepare import Prepared
from headgate.spark.queues import Queues
from headgate.spark.result_latency import ResultLatency
from headgate.spark.sinks import Sink
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_plan import Chosen, OpenTick, TickPlan

# fewer rows than this are not worth a task of their own
_ROWS_PER_TASK = 20_000


@dataclass(frozen=True)
class Outcome:
    """A tick that has happened."""

    event: TickCommitted
    change: CourseChanged | None
    works: list[Work]
    passed: dict[str, Passed]
    widths_bytes: dict[str, float]


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
        self._latency = ResultLatency(prepared, self._queues.streams_of)
        self._builder = TickBuilder(prepared, logs, store, eddies)
        self._jobs = TickJobs(
            prepared, store, checkpoint, sinks, dead_letters, self._builder, self._measuring, self._latency
        )
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
            self._latency.arrived.note(name, arrival.state.max_ts, now_us)
        tick.standings = self._eddies.standing()

    def _set_files_aside(self, error: Exception) -> None:
        """Make ready to try a tick again without the files that made it fail; raises if none did."""
        self._intake.quarantine.blame(error)
        self._logs.memory.keep_only({block.path for block in self.manifest.block_refs()})

    def execute(self, tick: OpenTick, chosen: Chosen, count: bool, profiles: Profiles) -> Outcome:
        """Run the chosen moves as concurrent jobs, then make the tick durable.

        With ``count``, what each operator passes on is counted on the way.
        """
        while True:
            try:
                plan, found = self._carry_out(tick, chosen, count)
                break
            except Exception as error:
                self._set_files_aside(error)
                self._arrive(tick)
        with _timed(tick, "commit"):
            tick.kept = self._kept.take_in(tick.arrivals)
            self._publish(tick, found)
            after = self._next_manifest(tick, plan, found)
            event = self._event(tick, after, found, profiles)
            change = self._steer(event, after.course)
            self.manifest = after if change is None else replace(after, course=change.after)
            self._checkpoint.commit(self.manifest)
            self._eddies.committed(self.manifest, tick.standings)
            self._release()
        with _timed(tick, "learn"):
            return self._outcome(event, change, plan, found)

    def _carry_out(self, tick: OpenTick, chosen: Chosen, count: bool) -> tuple[TickPlan, JobResults]:
        with _timed(tick, "build"):
            plan = self._build(tick, chosen, count)
        if plan.trials:
            # before other jobs, whose tasks would slow these down
            with _timed(tick, "try"):
                self._prepared.asking.take_in(self._measuring.tried(tick.batch_id, plan.trials))
        with _timed(tick, "run"):
            found = self._jobs.run(tick, plan, self.manifest)
        if found.samples is not None:
            self._helm.controller.sampled(found.samples)
        return plan, found

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

    def _publish(self, tick: OpenTick, found: JobResults) -> None:
        for name, result in found.written.items():
            first = name not in self.manifest.rows_out
            self._sinks[name].publish(tick.batch_id, result.rows, first, tick.kept[name])
        self._dead_letters.publish(tick.batch_id)

    def _next_manifest(self, tick: OpenTick, plan: TickPlan, found: JobResults) -> Manifest:
        operators = {}
        for name, operator in self._prepared.operators.items():
            blocks = [list(side) for side in plan.kept[name]]
            groups = list(plan.groups.get(name, ()))
            pushing = [list(side) for side in plan.pushing.get(name, ())]
            for task, ref in found.stored:
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
        for name, result in found.written.items():
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
        self._logs.memory.keep_only(kept)
        if self._sweeping is not None:
            self._sweeping.result()
        self._sweeping = self._jobs.submit(self._checkpoint.sweep, self.manifest)

    def _outcome(
        self,
        event: TickCommitted,
        change: CourseChanged | None,
        plan: TickPlan,
        found: JobResults,
    ) -> Outcome:
        results = {name: result.rows for name, result in found.written.items()}
        # last of all: Spark notes with a delay what tasks have reported
        works = self._measuring.works(event.batch_id, plan, results, found.stored)
        event = replace(event, busy_s=sum(work.seconds for work in works))
        passed = self._measuring.passed(plan, results)
        return Outcome(event, change, works, passed, widths_of(found.stored))

    def _event(self, tick: OpenTick, after: Manifest, found: JobResults, profiles: Profiles) -> TickCommitted:
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
                    tuple((now_s - at / 1e6, n) for at, n in r.arrived_at),
                    tick.kept[name],
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
