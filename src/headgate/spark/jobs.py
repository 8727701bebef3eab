"""The jobs of a tick: results into sinks, blocks into the checkpoint, dead letters, probes; all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from headgate.model.network import QueryDefinition
from headgate.runtime.matches import Link, Sampled
from headgate.spark import probing, sql
from headgate.spark.blocks import BlockStore
from headgate.spark.build import TickBuilder
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.columns import TS
from headgate.spark.deadletters import DeadLetters
from headgate.spark.manifest import BlockRef, Manifest
from headgate.spark.measuring import Measuring
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.prepare import Prepared
from headgate.spark.result_latency import ResultLatency, counts_until
from headgate.spark.sinks import Sink
from headgate.spark.tick_plan import OpenTick, TickPlan

Result = TypeVar("Result")
Stored = list[tuple[StoreTask, BlockRef | None]]

# concurrent Spark jobs of one tick
_JOBS = 4


@dataclass(frozen=True)
class Written:
    """The results of a query in a tick."""

    rows: int
    arrived_at: tuple[tuple[float, float], ...]
    """When the tuples of results had arrived, microseconds, and of how many results."""


@dataclass(frozen=True)
class JobResults:
    """What the jobs of a tick have brought: results by query, stored blocks, samples if any were wanted."""

    written: Mapping[str, Written]
    stored: Stored
    samples: Mapping[Link, Sampled] | None


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
    ) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self._store = store
        self._checkpoint = checkpoint
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._builder = builder
        self._measuring = measuring
        self._latency = latency
        self._pool = ThreadPoolExecutor(_JOBS, thread_name_prefix="headgate-job")

    def close(self) -> None:
        """Wait for what still runs."""
        self._pool.shutdown(wait=True)

    def run(self, tick: OpenTick, plan: TickPlan, before: Manifest) -> JobResults:
        """Run all jobs of a tick at once; ``before`` is the manifest that it starts from."""
        writes = {
            query.name: self.submit(self._write_results, tick, query, results, before)
            for query in self._network.queries.values()
            if (results := self._results(query, plan, before)) is not None
        }
        stores = [(task, self.submit(self._write_block, tick, task)) for task in plan.stores]
        appends = [self.submit(*append) for append in self._appends(tick, plan)]
        aside = sql.union([arrival.dead_letters for arrival in tick.arrivals.values()])
        letters = self.submit(self._write_letters, aside, tick.batch_id) if aside else None
        probes = self.submit(probing.run, plan.probes) if plan.probes else None
        # every job is waited for, so that none still runs when a failed tick is tried again
        jobs = [*writes.values(), *[f for _, f in stores], *appends, letters, probes]
        failed = [e for f in jobs if f and (e := f.exception())]
        plan.release()
        if failed:
            raise failed[0]
        return JobResults(
            {name: future.result() for name, future in writes.items()},
            [(task, future.result()) for task, future in stores],
            probes.result() if probes is not None else None,
        )

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Run something beside the caller."""
        return self._pool.submit(inheritable_thread_target(self._store.spark)(function), *arguments)

    def _appends(self, tick: OpenTick, plan: TickPlan) -> Iterator[tuple[Any, ...]]:
        """New blocks of logs that have to outlive the tick: a window, a queue or a tail still needs them."""
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

    def _results(self, query: QueryDefinition, plan: TickPlan, before: Manifest) -> str | DataFrame | None:
        results = self._builder.results(query, plan)
        if results is None and before.rows_out.get(query.name) is None:
            # an empty file tells readers the schema of a query without results
            return self._store.empty(self._prepared.operators[query.outputs[0]].output)
        return results

    def _write_results(
        self, tick: OpenTick, query: QueryDefinition, results: str | DataFrame, before: Manifest
    ) -> Written:
        tuples = self._store.spark.sql(results) if isinstance(results, str) else results
        counted = Observation(f"results of {query.name}")
        steps = self._latency.steps(query, before)
        observed = tuples.observe(
            counted, F.expr("count(1) AS rows"), F.expr(f"{counts_until(steps)} AS until")
        )
        is_first = query.name not in before.rows_out
        with self._measuring.of_query(tick.batch_id, query.name):
            self._sinks[query.name].write(observed.drop(TS), tick.batch_id, is_first)
        found = counted.get
        now_us = tick.started_s * 1e6
        arrived_at = self._latency.arrived_at(query, steps, found["until"], found["rows"], now_us)
        return Written(found["rows"], arrived_at)

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
