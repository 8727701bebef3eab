"""Join orders of running queries: live statistics, and when to choose again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from headgate.planning.join_order.choose import Decision, PlansOf, choose
from headgate.planning.join_order.plans import Plans, SubsetRates, left_deep
from headgate.planning.join_order.problem import NO_TIME, JoinPredicate, JoinProblem, WindowSeconds
from headgate.planning.join_order.search import Candidate, Choice, heuristic_search, left_deep_plans

_TOGETHER = "all predicates together"
_ONE_SECOND = WindowSeconds(probe_seconds=1.0)
# the relative change of a statistic that counts, if seen so many times in a row
_DRIFT, _LOOKS = 0.2, 2
# drop boxes close above the capacity, and open when a plan needs less than this share of it
_RELIEF = 0.9
# a new decision must yield so much more output, or cost so much less
_LEAST_GAIN = 0.05


@dataclass(frozen=True)
class PlanWork:
    """The work of a plan per second: tuples that joins handle, seconds of everything else, results."""

    handled_per_s: float
    other_s_per_s: float
    results_per_s: float


def work_of(problem: JoinProblem, order: Sequence[str], keep: Mapping[str, float]) -> PlanWork:
    plan = plan_in_order(problem, order)
    shares = np.array([[keep.get(stream, 1.0) for stream in problem.streams]])
    # a shared join handles its tuples once
    is_own = len(problem.inputs) > 1 and problem.shares_with is None
    taken = _ONE_SECOND if is_own else NO_TIME
    free = tuple(replace(i, window_seconds=NO_TIME) for i in problem.inputs)
    counted = tuple(replace(i, select_seconds=0.0, window_seconds=taken) for i in problem.inputs)
    other = Choice(replace(problem, inputs=free, between=NO_TIME), plan).shed
    handled = Choice(replace(problem, inputs=counted, between=taken, result_seconds=0.0), plan).shed
    return PlanWork(
        float(handled.cost_per_s(shares)[0]),
        float(other.cost_per_s(shares)[0]),
        float(other.joined_per_s(shares)[0]) * problem.results_per_match,
    )


def correct(problem: JoinProblem, passing: float) -> JoinProblem:
    """The problem with ``passing`` times the matches that its predicates predict one by one.

    The correction, for predicates over three streams and for correlated ones, applies to the last join.
    """
    if len(problem.inputs) == 1:
        return problem
    last = JoinPredicate(_TOGETHER, frozenset(problem.aliases), min(1.0, passing))
    more = problem.results_per_match * max(1.0, passing)
    return replace(problem, predicates=(*problem.predicates, last), results_per_match=more)


def plan_in_order(problem: JoinProblem, order: Sequence[str]) -> Plans:
    return left_deep(np.array([[problem.aliases.index(alias) for alias in order]]))


def connected_plans(problem: JoinProblem) -> Plans:
    """Left-deep plans with the fewest cross products, which cost most in hash joins."""
    plans = left_deep_plans(problem)
    crosses = plans.crosses(SubsetRates.of(problem))
    return plans.only(np.flatnonzero(crosses == crosses.min()))


class Reoptimizer:
    """Watches statistics, and decides again when it pays."""

    def __init__(
        self, problems: Sequence[JoinProblem], capacity: float, plans_of: PlansOf = left_deep_plans
    ) -> None:
        self._plans_of = plans_of
        self._basis = tuple(problems)
        self._basis_capacity = capacity
        self._seen = 0
        self.capacity = capacity
        self.decision = choose(problems, capacity, plans_of)

    def look(self, problems: Sequence[JoinProblem]) -> str:
        reason = self._reason(problems)
        self._seen = self._seen + 1 if reason else 0
        if self._seen < _LOOKS:
            return ""
        self._seen = 0
        after = choose(problems, self.capacity, self._plans_of)
        # from now on, drift is relative to these statistics
        self._basis, self._basis_capacity = tuple(problems), self.capacity
        if not self._is_worth_it(after, problems):
            return ""
        self.decision = after
        return reason

    def _reason(self, problems: Sequence[JoinProblem]) -> str:
        if self.decision.is_feasible:
            load = sum(candidate.cost_per_s for candidate in self._current(problems))
            if load > self.capacity:
                return f"load {load:.4g} is above the capacity of {self.capacity:g}"
        else:
            # the plan that sheds best need not be the first to fit
            load = sum(heuristic_search(p, inf).cost_per_s for p in problems)
            if load < _RELIEF * self.capacity:
                return f"load {load:.4g} is below {_RELIEF:g} of the capacity of {self.capacity:g}"
            if _has_drifted(self._basis_capacity, self.capacity):
                return f"the capacity went from {self._basis_capacity:.4g} to {self.capacity:.4g}"
        for old, new in zip(self._basis, problems, strict=True):
            for (name, before), (_, now) in zip(_statistics(old), _statistics(new), strict=True):
                if _has_drifted(before, now):
                    return f"{name} went from {before:.4g} to {now:.4g}"
        return ""

    def _is_worth_it(self, after: Decision, problems: Sequence[JoinProblem]) -> bool:
        """Whether the new plans and drop boxes do better under the latest statistics."""
        stays, new = self._current(problems), [after.queries[p.query].chosen for p in problems]
        stays_cost, cost = (sum(c.shed_cost_per_s for c in plans) for plans in (stays, new))
        given, gives = (sum(c.output_per_s * c.problem.weight for c in plans) for plans in (stays, new))
        if stays_cost > self.capacity or gives > given * (1 + _LEAST_GAIN):
            return True
        # the cost of results is the same for all plans, so it is left out of the comparison
        some = [(c, c.problem) for c in stays if c.problem.results_per_match]
        alike = sum(c.output_per_s / p.results_per_match * p.result_seconds for c, p in some)
        return gives >= given * (1 - 1e-9) and cost - alike < (stays_cost - alike) * (1 - _LEAST_GAIN)

    def _current(self, problems: Sequence[JoinProblem]) -> list[Candidate]:
        return [self.decision.queries[problem.query].chosen.under(problem) for problem in problems]


def _has_drifted(before: float, now: float) -> bool:
    return abs(now - before) > _DRIFT * abs(before)


def _statistics(problem: JoinProblem) -> Iterator[tuple[str, float]]:
    """All statistics of a problem by name, always in the same order."""
    for i in problem.inputs:
        yield f"the rate of {i.stream}", i.tuples_per_s
        yield f"the selectivity of {i.alias}'s selections", i.selectivity
        yield f"the cost of {i.alias}'s selections", i.select_seconds
        yield f"the cost of {i.alias}'s window", _every_second(i.window_seconds)
    for predicate in problem.predicates:
        yield f"the selectivity of {predicate.text}", predicate.selectivity
    yield "the cost of joins", _every_second(problem.between)
    yield "the cost of results", problem.result_seconds


def _every_second(window: WindowSeconds) -> float:
    return window.upkeep_seconds + window.probe_seconds
