"""The jobs of a tick: results into sinks, blocks into the checkpoint, dead letters, samples; all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.errors import QueryError
from headgate.model.network import QueryDefinition
from headgate.spark import sql
from headgate.spark.arrival.dead_letters import DeadLetters
from headgate.spark.attempts import Attempts
from headgate.spark.blocks import BlockStore
from headgate.spark.build import TickBuilder
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.expected_matches import count_keys
from headgate.spark.manifest import BlockRef, Manifest
from headgate.spark.measuring import Measuring
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.physical_plans import LightPlan, MeasuredQuery
from headgate.spark.prepared import Prepared
from headgate.spark.result_quality import ResultLatency, counts_until
from headgate.spark.samples import count_matches
from headgate.spark.sinks import Sink
from headgate.spark.sql import TS
from headgate.spark.tick_plan import OpenTick, TickPlan, count_selected
from headgate.statistics.store import Link, PairCounts

Result = TypeVar("Result")
Stored = list[tuple[StoreTask, BlockRef | None]]

# concurrent Spark jobs of one tick
_JOBS = 4


@dataclass(frozen=True)
class Written:
    """The results of a query in a tick."""

    rows: int
    arrived_at: tuple[tuple[float, float], ...]
    """Pairs of an arrival time in microseconds and the number of results with that arrival time."""
    slices: tuple[int, ...]
    """Numbers of the slices to be published."""


@dataclass(frozen=True)
class JobResults:
    """Outcome of a tick's jobs: results by query, stored blocks, and what was sampled or counted besides."""

    written: Mapping[str, Written]
    stored: Stored
    samples: Mapping[Link, PairCounts] | None
    keys: Mapping[str, Sequence[int]]
    """Tuples by bucket of their keys, by table."""
    set_aside: Mapping[str, int]
    """By query, how many tuples an expression of its own failed for."""
    selected: Mapping[str, int]
    """Tuples that passed selections which were counted apart."""


@dataclass(frozen=True)
class _Slice:
    """A part of a query's results, counted up to each timestamp of ``steps``."""

    query: QueryDefinition
    number: int
    results: MeasuredQuery
    steps: Sequence[int]


_LightSlice = tuple[_Slice, LightPlan]
# the queries of a job, and the job
_Write = tuple[tuple[str, ...], Future[None]]


class JobsError(Exception):
    """What jobs of a tick have raised; ``queries`` are those of the job that raised the first error."""

    def __init__(self, errors: Sequence[Exception], queries: Sequence[str] = ()) -> None:
        super().__init__(str(errors[0]))
        self.errors = tuple(errors)
        self.queries = tuple(queries)


class TickJobs:
    """Runs the jobs of ticks."""

    def __init__(
        self,
        prepared: Prepared,
        store: BlockStore,
        checkpoint: Checkpoint,
        sinks: Mapping[str, Sink],
        dead_letters: DeadLetters,
        builder: TickBuilder,
        measuring: Measuring,
        latency: ResultLatency,
        attempts: Attempts,
    ) -> None:
        self._attempts = attempts
        self._prepared = prepared
        self._network = prepared.network
        self._store = store
        self._checkpoint = checkpoint
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._builder = builder
        self._measuring = measuring
        self._latency = latency
        # what each query took when it last shared a job
        self._seconds: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="headgate-job")

    def close(self) -> None:
        """Wait for running jobs."""
        self._pool.shutdown(wait=True)

    def run(self, tick: OpenTick, plan: TickPlan, before: Manifest, is_light: bool) -> JobResults:
        """Run all jobs of a tick at once; ``before`` is the manifest that it starts from.

        In a light tick, one task can process all that a query reads. Raises ``JobsError``.
        """
        slices = {
            query.name: self._slices(tick, query, results, before)
            for query in self._network.queries.values()
            if (results := self._results(query, plan, before)) is not None
        }
        writes = self._write(tick, [one for several in slices.values() for one in several], is_light)
        stores = [(task, self.submit(self._write_block, tick, task)) for task in plan.stores]
        appends = [self.submit(*append) for append in self._appends(tick, plan)]
        aside = sql.union([*(arrival.dead_letters for arrival in tick.arrivals.values()), *plan.letters])
        letters = self.submit(self._write_letters, aside, tick.batch_id) if aside else None
        samples = self.submit(count_matches, plan.samples) if plan.samples else None
        keys = self.submit(count_keys, plan.keys) if plan.keys else None
        selected = self.submit(count_selected, plan.selected) if plan.selected else None
        # every job is waited for, so that none still runs when a failed tick is tried again
        jobs = [*[future for _, future in stores], *appends, letters, samples, keys, selected]
        failures = [failure for queries, future in writes for failure in _failures(future, queries)]
        failures += [failure for future in jobs if future for failure in _failures(future)]
        plan.release()
        if failures:
            raise JobsError([error for one in failures for error in one.errors], failures[0].queries)
        return JobResults(
            {name: self._written(tick, several, before) for name, several in slices.items()},
            [(task, future.result()) for task, future in stores],
            samples.result() if samples is not None else None,
            keys.result() if keys is not None else {},
            letters.result() if letters is not None else {},
            selected.result() if selected is not None else {},
        )

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Run a function in a thread of the pool."""
        return self._pool.submit(inheritable_thread_target(self._store.spark)(function), *arguments)

    def _appends(self, tick: OpenTick, plan: TickPlan) -> Iterator[tuple[Any, ...]]:
        """New blocks of logs that have to outlive the tick: a window, a queue or a tail still needs them."""
        kept = [*plan.retained.values(), *plan.pushing.values()]
        needed = {block.path for sides in kept for side in sides for block in side}
        for arrival in tick.arrivals.values():
            needed |= {block.path for block in arrival.state.tail}
            rows = {block.path: block.rows for block in (*arrival.blocks, *arrival.state.tail)}
            for path, frame in arrival.unwritten.items():
                if path in needed:
                    yield self._store.write_known, frame, path, rows[path]
        for merged in plan.merged:
            yield self._store.write_known, merged.tuples, merged.block.path, merged.block.rows

    def _write_letters(self, query: str, batch_id: int) -> dict[str, int]:
        """Write dead letters; returns how many name each query."""
        queries = self._attempts.queries
        counts = [f"count_if(query = {sql.text(name)}) AS {sql.name(name)}" for name in queries]
        rows = self._store.spark.sql(query).coalesce(1)
        letters = MeasuredQuery(self._store.plans, rows, ["count(1) AS rows", *counts])
        self._dead_letters.write(letters, batch_id)
        found = {name: int(letters.found[name]) for name in queries if letters.found[name]}
        for name in found:
            if self._network.queries[name].on_error == "stop":
                raise self._first_error(name, rows)
        return found

    def _first_error(self, query: str, letters: DataFrame) -> QueryError:
        """The first tuple that a query may not set aside, as an error."""
        [letter] = letters.where(F.col("query") == query).orderBy("ts").limit(1).collect()
        where = f"of {letter['stream']} at {letter['ts']}" if letter["ts"] else f"of {letter['stream']}"
        return QueryError(
            f"query {query}: {letter['reason']}, for the tuple {letter['row']} {where}; "
            "correct the expression, or write WITH (on_error = 'set aside')"
        )

    def _results(self, query: QueryDefinition, plan: TickPlan, before: Manifest) -> str | DataFrame | None:
        results = self._builder.results(query, plan)
        if results is None and before.rows_out.get(query.name) is None:
            # an empty file shows readers the columns of a query without results
            return self._store.empty(self._prepared.result_schema(query))
        return results

    def _slices(
        self, tick: OpenTick, query: QueryDefinition, results: str | DataFrame, before: Manifest
    ) -> list[_Slice]:
        parts: Sequence[str | DataFrame] = [results]
        if isinstance(results, sql.Slices) and self._sinks[query.name].target(tick.batch_id, 0):
            parts = results.parts
        steps = self._latency.steps(query, before)
        measures = ["count(1) AS rows", f"{counts_until(steps)} AS until"]
        return [
            _Slice(query, number, MeasuredQuery(self._store.plans, part, measures, hidden=(TS,)), steps)
            for number, part in enumerate(parts)
        ]

    def _write(self, tick: OpenTick, slices: Sequence[_Slice], is_light: bool) -> list[_Write]:
        """Start the jobs that write results: small ones share a job per processor, others have their own."""
        light: list[_LightSlice] = []
        jobs: list[_Write] = []
        for one in slices:
            target = self._sinks[one.query.name].target(tick.batch_id, one.number) if is_light else None
            plan = self._store.plans.light(one.results, target) if target else None
            if plan is None:
                jobs.append(((one.query.name,), self.submit(self._write_slice, tick.batch_id, one)))
            else:
                light.append((one, plan))
        for pile in self._piles(light):
            names = tuple(one.query.name for one, _ in pile)
            jobs.append((names, self.submit(self._write_together, tick.batch_id, pile)))
        return jobs

    def _piles(self, light: Sequence[_LightSlice]) -> list[list[_LightSlice]]:
        """Slices for each processor, so that all take about as long as they did in the tick before."""
        piles: list[list[_LightSlice]] = [[] for _ in range(self._store.parallelism)]
        seconds = [0.0] * len(piles)
        usual = sum(self._seconds.values()) / len(self._seconds) if self._seconds else 1.0
        weighed = [(self._seconds.get(one.query.name, usual), one, plan) for one, plan in light]
        for weight, one, plan in sorted(weighed, key=lambda entry: -entry[0]):
            least = seconds.index(min(seconds))
            piles[least].append((one, plan))
            seconds[least] += weight
        return [pile for pile in piles if pile]

    def _written(self, tick: OpenTick, slices: Sequence[_Slice], before: Manifest) -> Written:
        """What the jobs of a query have written, all of them being done."""
        query, steps, found = slices[0].query, slices[0].steps, [one.results.found for one in slices]
        rows = sum(one["rows"] for one in found)
        until = [sum(counts) for counts in zip(*(one["until"] for one in found), strict=True)]
        arrived_at = self._latency.arrived_at(query, steps, until, rows, tick.started_s * 1e6)
        shown = tuple(number for number, one in enumerate(found) if one["rows"])
        is_first = query.name not in before.rows_out
        # an empty file shows readers the columns of a query without results
        return Written(rows, arrived_at, shown or ((0,) if is_first or query.sink.is_latest else ()))

    def _write_slice(self, batch_id: int, one: _Slice) -> None:
        with self._measuring.of_query(batch_id, one.query.name):
            self._sinks[one.query.name].write(one.results, batch_id, one.number)

    def _write_together(self, batch_id: int, pile: Sequence[_LightSlice]) -> None:
        slices = [one for one, _ in pile]
        try:
            seconds = self._store.plans.run_in_one_job([plan for _, plan in pile])
        except Exception as error:
            if self._attempts.is_of_expression(error):
                # the tick is executed again in any case: with the mistakes of all queries at once
                self._write_one_by_one(batch_id, slices)
            raise
        if seconds is None:
            self._write_one_by_one(batch_id, slices)
            return
        for (one, _), taken in zip(pile, seconds, strict=True):
            self._seconds[one.query.name] = taken
            self._measuring.add_seconds(batch_id, one.query.name, taken)

    def _write_one_by_one(self, batch_id: int, slices: Sequence[_Slice]) -> None:
        failures = []
        for one in slices:
            try:
                self._write_slice(batch_id, one)
            except Exception as error:
                failures.append((one.query.name, error))
        if failures:
            raise JobsError([error for _, error in failures], [failures[0][0]])

    def _write_block(self, tick: OpenTick, task: StoreTask) -> BlockRef | None:
        part = (
            f"groups{task.level or ''}"
            if task.side is None
            else f"{'log' if task.is_pushing else 'in'}{task.side}"
        )
        path = self._checkpoint.block(tick.batch_id, f"{task.operator}-{part}")
        arrived_us = int(tick.started_s * 1e6)
        with self._measuring.of_operator(tick.batch_id, task.operator):
            block = self._store.write(task.tuples, task.columns, path, task.expected_rows, arrived_us)
        if block is None or task.level is None:
            return block
        # where panes lie in time is all there is to know of them
        return replace(block, step=task.level, quantiles=())


def _failures(job: Future[Any], queries: Sequence[str] = ()) -> list[JobsError]:
    """What a job has raised, once it has ended."""
    error = job.exception()
    if error is None:
        return []
    if isinstance(error, JobsError):
        return [error]
    if not isinstance(error, Exception):
        raise error
    return [JobsError([error], queries)]
