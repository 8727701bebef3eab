"""Measuring a tick: processor time of each group of queries, tuples that operators took and passed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate.model.network import Network, StreamDefinition
from headgate.model.operator import is_ordered
from headgate.model.operator_inputs import OperatorInput
from headgate.model.profile import Profiles
from headgate.spark import sql
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.samples import TaskTime, Trial, run_trials
from headgate.spark.sources import Sources, timestamp_us
from headgate.spark.tick_plan import TickPlan, counted_rows
from headgate.statistics.estimators import TickWork
from headgate.statistics.operators import TELLING_ROWS, Passed
from headgate.statistics.profiling import KnownRates
from headgate.workload.declared_rates import declared_rates

Stored = Sequence[tuple[StoreTask, BlockRef | None]]


class Measuring:
    """Times and counts of a network's queries; ``run`` separates the jobs of this run from those of others.

    Queries that share operators are measured together: the jobs of one of them do the shared work.
    """

    def __init__(self, network: Network, spark: SparkSession, run: str) -> None:
        self._network = network
        self._task_time = TaskTime(spark)
        self._run = run
        self._group_of = groups_of(network)
        self._in_shared_jobs: dict[str, float] = {}
        self._operators_of: dict[str, tuple[str, ...]] = {}
        for query, group in self._group_of.items():
            names = dict.fromkeys((*self._operators_of.get(group, ()), *network.operators_of(query)))
            self._operators_of[group] = tuple(names)

    def of_query(self, batch_id: int, query: str) -> AbstractContextManager[None]:
        """Attribute the jobs that this thread starts to a query."""
        return self._task_time.under(self._tag(batch_id, self._group_of[query]))

    def of_operator(self, batch_id: int, operator: str) -> AbstractContextManager[None]:
        """Attribute the jobs that this thread starts to the queries of an operator."""
        return self.of_query(batch_id, self._network.queries_of(operator)[0])

    def add_seconds(self, batch_id: int, query: str, seconds: float) -> None:
        """Add what a query took in a job that it shared with others."""
        tag = self._tag(batch_id, self._group_of[query])
        self._in_shared_jobs[tag] = self._in_shared_jobs.get(tag, 0.0) + seconds

    def _tag(self, batch_id: int, group: str) -> str:
        return f"headgate {self._run} {batch_id} {group}"

    def run_trials(self, batch_id: int, trials: Sequence[Trial]) -> Mapping[str, Profiles]:
        """Evaluate predicates alone; their profiles by operator and text."""
        return run_trials(trials, self._task_time, self._tag(batch_id, "trial"))

    def works(
        self, batch_id: int, plan: TickPlan, results: Mapping[str, int], stored: Stored, least_rows: int
    ) -> list[TickWork]:
        """The work of the tick for each group of queries with at least so many tuples.

        What operators take is counted by the plan, unless the results are a better count. There is none if
        Spark, on a busy machine, is too late to tell the time of a group: the whole would seem too short.
        """
        taken = {name: moved.rows for name, moved in plan.moved.items()} | self._taken_by_last(results)
        rows_stored = {
            group: sum(plan.moved[name].fetched for name in names)
            for group, names in self._operators_of.items()
        }
        for task, ref in stored:
            group = self._group_of[self._network.queries_of(task.operator)[0]]
            rows_stored[group] += ref.rows if ref is not None else 0
        tuples = {
            group: own
            for group, names in self._operators_of.items()
            if max((own := {name: taken[name] for name in names}).values()) >= least_rows
        }
        seconds = {group: self._seconds(self._tag(batch_id, group)) for group in tuples}
        self._in_shared_jobs.clear()
        works = [
            TickWork(own, rows_stored[group], taken_s)
            for group, own in tuples.items()
            if (taken_s := seconds[group]) is not None
        ]
        return works if len(works) == len(tuples) else []

    def _seconds(self, tag: str) -> float | None:
        """Processor seconds under a tag; None if Spark has not recorded all of them in time."""
        seconds = self._task_time.seconds(tag)
        if seconds is None:
            self._task_time.settle()
            seconds = self._task_time.seconds(tag)
        return None if seconds is None else seconds + self._in_shared_jobs.get(tag, 0.0)

    def _taken_by_last(self, results: Mapping[str, int]) -> dict[str, float]:
        """Tuples that the last operators of queries have taken: as many as they pass on."""
        return {
            query.outputs[0]: float(results[query.name])
            for query in self._network.queries.values()
            if query.name in results and len(query.outputs) == 1 and query.sink.mode == "append"
        }

    def passed(
        self, plan: TickPlan, results: Mapping[str, int], selected: Mapping[str, int]
    ) -> dict[str, Passed]:
        """What operators have taken and passed on; exact where the tick counted it."""
        last = self._taken_by_last(results)
        counts = {**counted_rows(plan.counted), **selected}
        passed_on = {name: float(rows) for name, rows in counts.items()} | last
        found = {}
        for name, rows in passed_on.items():
            operator = self._network.operators[name]
            below = [passed_on.get(i.operator) for i in operator.inputs if isinstance(i, OperatorInput)]
            counted = [count for count in below if count is not None]
            # an operator that keeps order may leave some of its input for the next tick
            keeps_order = is_ordered(operator)
            taken = plan.moved[name].rows
            if name in last:
                taken = rows
            elif plan.counting and len(counted) == len(operator.inputs) and not keeps_order:
                taken = sum(counted)
            found[name] = Passed(taken, rows)
        for query in self._network.queries.values():
            if query.sink.mode != "append" and query.name in results:
                [output] = query.outputs
                found[output] = Passed(plan.moved[output].rows, float(results[query.name]))
        return found


def groups_of(network: Network) -> dict[str, str]:
    """A group for every query, the same for those that share operators."""
    group_of = {query: query for query in network.queries}
    for operator in network.operators:
        groups = {group_of[query] for query in network.queries_of(operator)}
        for query, group in group_of.items():
            if group in groups:
                group_of[query] = min(groups)
    return group_of


def widths_of(stored: Stored) -> dict[str, float]:
    """Bytes per tuple before each operator that tuples were stored for."""
    return {
        task.operator: ref.bytes / ref.rows
        for task, ref in stored
        if ref is not None and ref.rows >= TELLING_ROWS
    }


def known_rates(sources: Sources, streams: Iterable[StreamDefinition]) -> KnownRates:
    """Rates that need not be counted, and the streams that arrive as fast as they are read."""
    own = [stream for stream in streams if stream.name not in sources.frames]
    declared = {stream.name: rates for stream in own if (rates := declared_rates(stream))}
    recorded = _rates_of_files(sources, own)
    unpaced = {s.name for s in own if sources.is_file_stream(s) or s.format == "rate-micro-batch"}
    return KnownRates(declared, recorded, unpaced - recorded.keys())


def _rates_of_files(sources: Sources, streams: Iterable[StreamDefinition]) -> dict[str, float]:
    """Tuples per second of streams in files, by their own timestamps, however fast the files are read."""
    found = {}
    for definition in streams:
        if definition.timestamp is None or not sources.is_file_stream(definition):
            continue
        read = sources.read_files(definition, sources.present_files(definition))
        rows = read.selectExpr(f"{timestamp_us(read.schema, definition)} AS {sql.name(sql.TS)}")
        [(tuples, span_s)] = rows.agg(F.count(sql.TS), (F.max(sql.TS) - F.min(sql.TS)) / 1e6).collect()
        if tuples > 1 and span_s > 0:
            found[definition.name] = tuples / span_s
    return found
