"""Figures of a run as it goes: what the optimiser is asked while queries run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headgate.model.measured import Measured
from headgate.model.profile import Profiles
from headgate.planning.cost import NO_TIME, Flow, WindowSeconds
from headgate.planning.joins.exhaustive import left_deep_plans
from headgate.planning.joins.figures import Figures
from headgate.planning.joins.flows import flows_of
from headgate.planning.joins.plans import Plans, left_deep
from headgate.planning.joins.problem import JoinPredicate, JoinProblem
from headgate.planning.predicates import Asked
from headgate.planning.statistics import Known, MeasuredStatistics, Missing

_TOGETHER = "all predicates together"
_ONE_SECOND = WindowSeconds(probe_seconds=1.0)


@dataclass(frozen=True)
class LiveStatistics:
    """Rates as they are, selectivities as sampled, and one cost for every tuple that a join handles.

    ``selectivities`` go by operator and place of the predicate; those over more than two streams are not
    sampled, and count as 1 until results tell.
    """

    rates: Mapping[str, float]
    profiles: Profiles
    selectivities: Mapping[str, Mapping[int, float]]
    handled_seconds: float

    @property
    def _measured(self) -> MeasuredStatistics:
        return MeasuredStatistics(Measured(self.profiles, self.rates))

    def tuples_per_s(self, stream: str, missing: Missing) -> float:
        """How many tuples of a stream come in a second of its own time."""
        return self._measured.tuples_per_s(stream, missing)

    def keys(self, stream: str, missing: Missing) -> float:
        """Not measured."""
        return self._measured.keys(stream, missing)

    def rows(self, relation: str) -> float:
        """Selectivities are measured as matches of a tuple."""
        return self._measured.rows(relation)

    def selections(self, predicates: Sequence[Asked], missing: Missing) -> tuple[Known, ...]:
        """Predicates over single tuples: those of one operator as one."""
        return self._measured.selections(predicates, missing)

    def join_selectivities(
        self, predicates: Sequence[Asked], inputs: Sequence[Flow], missing: Missing
    ) -> tuple[float, ...]:
        """As sampled."""
        del inputs
        if not predicates:
            return ()
        known = self.selectivities.get(predicates[0].operator)
        if known is None:
            return tuple(missing.add(f"the selectivity of {asked.text}") for asked in predicates)
        return tuple(known.get(place, 1.0) for place in range(len(predicates)))

    def window_seconds(self, operator: str, stream: str | None, missing: Missing) -> WindowSeconds:
        """What a join takes for a tuple that it handles, of a stream or of another join."""
        del operator, stream, missing
        return WindowSeconds(probe_seconds=self.handled_seconds)

    def pass_seconds(self, operator: str, kind: str) -> float:
        """What an operator takes for a tuple."""
        return self._measured.pass_seconds(operator, kind)

    def weight(self, query: str) -> float:
        """All queries count the same."""
        return self._measured.weight(query)


@dataclass(frozen=True)
class Work:
    """What a plan does in a second: tuples that joins handle, seconds of all else, results."""

    handled_per_s: float
    other_s_per_s: float
    results_per_s: float


def work_of(problem: JoinProblem, order: Sequence[str], keep: Mapping[str, float]) -> Work:
    """The work of a left-deep plan behind drop boxes."""
    plan = plan_in_order(problem, order)
    shares = np.array([[keep.get(stream, 1.0) for stream in problem.streams]])
    handled = flows_of(plan, Figures.of(_only_handling(problem))).cost_per_s(shares)
    other = flows_of(plan, Figures.of(_without_handling(problem)))
    return Work(
        float(handled[0]),
        float(other.cost_per_s(shares)[0]),
        float(other.joined_per_s(shares)[0]) * problem.results_per_match,
    )


def _only_handling(problem: JoinProblem) -> JoinProblem:
    # a join that is shared handles its tuples once
    is_own = len(problem.inputs) > 1 and problem.shares_with is None
    taken = _ONE_SECOND if is_own else NO_TIME
    inputs = (replace(i, select_seconds=0.0, window_seconds=taken) for i in problem.inputs)
    return replace(problem, inputs=tuple(inputs), between=taken, result_seconds=0.0)


def _without_handling(problem: JoinProblem) -> JoinProblem:
    inputs = (replace(i, window_seconds=NO_TIME) for i in problem.inputs)
    return replace(problem, inputs=tuple(inputs), between=NO_TIME)


def corrected(problem: JoinProblem, passing: float) -> JoinProblem:
    """The problem with so many times the matches that its predicates promise one by one.

    What keeps others from passing is asked by the last join: predicates over three streams, or some that go
    together.
    """
    if len(problem.inputs) == 1:
        return problem
    last = JoinPredicate(_TOGETHER, frozenset(problem.aliases), min(1.0, passing))
    more = problem.results_per_match * max(1.0, passing)
    return replace(problem, predicates=(*problem.predicates, last), results_per_match=more)


def plan_in_order(problem: JoinProblem, order: Sequence[str]) -> Plans:
    """The one plan that joins inputs in that order."""
    return left_deep(np.array([[problem.aliases.index(alias) for alias in order]]))


def connected_plans(problem: JoinProblem) -> Plans:
    """Left-deep plans with as few cross products as can be: by hash, they are what costs most."""
    plans = left_deep_plans(problem)
    crosses = plans.crosses(Figures.of(problem))
    return plans.only(np.flatnonzero(crosses == crosses.min()))
