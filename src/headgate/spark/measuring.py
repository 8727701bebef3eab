"""Measuring a tick: what the learner is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from headgate.model.network import Network
from headgate.model.operator import Aggregate, Operator, OperatorInput, WindowUpdate
from headgate.model.profile import Profiles
from headgate.spark.costs import Work
from headgate.spark.learn import TELLING_ROWS, Passed
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.inputs import StoreTask
from headgate.spark.tasktime import TaskTime
from headgate.spark.tick_plan import TickPlan, counted_rows
from headgate.spark.trial import Trial, tried

Stored = Sequence[tuple[StoreTask, BlockRef | None]]


class Measuring:
    """Times and counts of a network's queries. ``run`` tells this run's jobs from those of others.

    What queries share is done by the jobs of one of them, so their times are told together.
    """

    def __init__(self, network: Network, spark: SparkSession, run: str) -> None:
        self._network = network
        self._task_time = TaskTime(spark)
        self._run = run
        self._group_of = groups_of(network)
        self._operators_of: dict[str, tuple[str, ...]] = {}
        for query, group in self._group_of.items():
            names = dict.fromkeys((*self._operators_of.get(group, ()), *network.operators_of(query)))
            self._operators_of[group] = tuple(names)

    def of_query(self, batch_id: int, query: str) -> AbstractContextManager[None]:
        """The jobs that this thread starts now are a query's."""
        return self._task_time.under(self._tag(batch_id, self._group_of[query]))

    def of_operator(self, batch_id: int, operator: str) -> AbstractContextManager[None]:
        """The jobs that this thread starts now are of an operator's queries."""
        return self.of_query(batch_id, self._network.queries_of(operator)[0])

    def _tag(self, batch_id: int, group: str) -> str:
        return f"headgate {self._run} {batch_id} {group}"

    def tried(self, batch_id: int, trials: Sequence[Trial]) -> Mapping[str, Profiles]:
        """What predicates are like, each asked alone."""
        return tried(trials, self._task_time, f"headgate {self._run} {batch_id} trial")

    def works(self, batch_id: int, plan: TickPlan, results: Mapping[str, int], stored: Stored) -> list[Work]:
        """What the tick did for each group of queries that it did enough for.

        What operators take is counted by the plan; where results tell better, they do.
        """
        taken = {name: moved.rows for name, moved in plan.moved.items()} | self._projected(results)
        rows_stored = {
            group: sum(plan.moved[name].fetched for name in names)
            for group, names in self._operators_of.items()
        }
        for task, ref in stored:
            group = self._group_of[self._network.queries_of(task.operator)[0]]
            rows_stored[group] += ref.rows if ref is not None else 0
        works = []
        for group, names in self._operators_of.items():
            tuples = {name: taken[name] for name in names}
            if max(tuples.values()) >= TELLING_ROWS:
                seconds = self._task_time.seconds(self._tag(batch_id, group))
                works.append(Work(tuples, rows_stored[group], seconds))
        return works

    def _projected(self, results: Mapping[str, int]) -> dict[str, float]:
        """Tuples that the last operators of queries have taken, which pass on as many."""
        return {
            query.outputs[0]: float(results[query.name])
            for query in self._network.queries.values()
            if query.name in results and len(query.outputs) == 1
        }

    def passed(self, plan: TickPlan, results: Mapping[str, int]) -> dict[str, Passed]:
        """What operators have taken and passed on; exact where the tick counted it."""
        passed_on = {name: float(rows) for name, rows in counted_rows(plan.counted).items()}
        projected = self._projected(results)
        passed_on |= projected
        operators = self._network.operators
        found = {}
        for name, rows in passed_on.items():
            sources = operators[name].inputs
            below = [passed_on.get(i.operator) for i in sources if isinstance(i, OperatorInput)]
            counted = [b for b in below if b is not None]
            # an ordered operator may leave some of what it is given for the next tick
            exact = plan.counting and len(counted) == len(sources) and not _keeps_order(operators[name])
            taken = plan.moved[name].rows
            if name in projected:
                taken = rows
            elif exact:
                taken = sum(counted)
            found[name] = Passed(taken, rows)
        return found


def _keeps_order(operator: Operator) -> bool:
    return isinstance(operator, (WindowUpdate, Aggregate))


def groups_of(network: Network) -> dict[str, str]:
    """A name for every query, the same for those that share operators."""
    group_of = {query: query for query in network.queries}
    for operator in network.operators:
        groups = {group_of[query] for query in network.queries_of(operator)}
        for query, group in group_of.items():
            if group in groups:
                group_of[query] = min(groups)
    return group_of


def widths_of(stored: Stored) -> dict[str, float]:
    """Bytes of a tuple before each operator that tuples were stored for."""
    return {
        task.operator: ref.bytes / ref.rows
        for task, ref in stored
        if ref is not None and ref.rows >= TELLING_ROWS
    }
