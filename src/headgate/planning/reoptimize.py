"""When to choose anew while queries run: figures have drifted, or the load has crossed the capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.choose import Decision, PlansOf, choose
from headgate.planning.joins.exhaustive import cost_per_s, left_deep_plans, output_per_s
from headgate.planning.joins.heuristic import heuristic
from headgate.planning.joins.problem import JoinProblem


@dataclass(frozen=True)
class Patience:
    """How easily to choose anew.

    ``drift`` is the relative change of a figure that counts, once seen ``looks`` times in a row. Boxes close
    above the capacity, and open when a plan takes less than ``relief`` of it. Another decision must give
    ``least_gain`` more, or take that much less.
    """

    drift: float = 0.2
    looks: int = 2
    relief: float = 0.9
    least_gain: float = 0.05


@dataclass(frozen=True)
class Change:
    """A new decision, and why it was made."""

    reason: str
    before: Decision
    after: Decision


class Reoptimizer:
    """Watches figures, and decides again when it is worth it."""

    def __init__(
        self,
        problems: Sequence[JoinProblem],
        capacity: float,
        patience: Patience | None = None,
        plans_of: PlansOf = left_deep_plans,
    ) -> None:
        self._patience = patience or Patience()
        self._plans_of = plans_of
        self._basis = tuple(problems)
        self._basis_capacity = capacity
        self._seen = 0
        self.capacity = capacity
        self.decision = choose(problems, capacity, plans_of)

    def look(self, problems: Sequence[JoinProblem]) -> Change | None:
        """Take the newest figures; the change to make, if there is one."""
        reason = self._reason(problems)
        self._seen = self._seen + 1 if reason else 0
        if reason is None or self._seen < self._patience.looks:
            return None
        self._seen = 0
        after = choose(problems, self.capacity, self._plans_of)
        # from now on, drift is what differs from these figures
        self._basis, self._basis_capacity = tuple(problems), self.capacity
        if not self._is_worth_it(after, problems):
            return None
        before, self.decision = self.decision, after
        return Change(reason, before, after)

    def _reason(self, problems: Sequence[JoinProblem]) -> str | None:
        if self.decision.is_feasible:
            load = sum(cost_per_s(p, self._current(p)) for p in problems)
            if load > self.capacity:
                return f"load {load:.4g} is above the capacity of {self.capacity:g}"
        else:
            # the plan that sheds best need not be the one that fits first
            load = sum(heuristic(p, inf).cost_per_s for p in problems)
            if load < self._patience.relief * self.capacity:
                return (
                    f"load {load:.4g} is below {self._patience.relief:g} of the capacity of {self.capacity:g}"
                )
            if self._has_drifted(self._basis_capacity, self.capacity):
                return f"the capacity went from {self._basis_capacity:.4g} to {self.capacity:.4g}"
        return next(self._drifts(problems), None)

    def _has_drifted(self, before: float, now: float) -> bool:
        return abs(now - before) > self._patience.drift * abs(before)

    def _drifts(self, problems: Sequence[JoinProblem]) -> Iterator[str]:
        for old, new in zip(self._basis, problems, strict=True):
            for (name, before), (_, now) in zip(_figures(old), _figures(new), strict=True):
                if self._has_drifted(before, now):
                    yield f"{name} went from {before:.4g} to {now:.4g}"

    def _is_worth_it(self, after: Decision, problems: Sequence[JoinProblem]) -> bool:
        """Whether the new plans and boxes do better on the newest figures than those there are."""
        patience = self._patience
        stays = [replace(self._current(p), problem=p) for p in problems]
        kept_cost = sum(cost_per_s(p, c, c.keep) for p, c in zip(problems, stays, strict=True))
        if kept_cost > self.capacity:
            return True
        new = [after.queries[p.query].chosen for p in problems]
        given = sum(output_per_s(p, c, c.keep) * p.weight for p, c in zip(problems, stays, strict=True))
        gives = sum(c.output_per_s * p.weight for p, c in zip(problems, new, strict=True))
        cost = sum(c.kept_cost_per_s for c in new)
        if gives > given * (1 + patience.least_gain):
            return True
        # what all plans pay alike for the same results says nothing about which is better
        alike = sum(_results_cost_per_s(p, c) for p, c in zip(problems, stays, strict=True))
        return gives >= given * (1 - 1e-9) and cost - alike < (kept_cost - alike) * (1 - patience.least_gain)

    def _current(self, problem: JoinProblem) -> Candidate:
        return self.decision.queries[problem.query].chosen


def _results_cost_per_s(problem: JoinProblem, plan: Candidate) -> float:
    """What the operators above a join take for its results."""
    if not problem.results_per_match:
        return 0.0
    joined_per_s = output_per_s(problem, plan, plan.keep) / problem.results_per_match
    return joined_per_s * problem.result_seconds


def _figures(problem: JoinProblem) -> Iterator[tuple[str, float]]:
    """All figures of a problem by name, in the same order each time."""
    for i in problem.inputs:
        yield f"the rate of {i.stream}", i.tuples_per_s
        yield f"the selectivity of {i.alias}'s selections", i.selectivity
        yield f"the cost of {i.alias}'s selections", i.select_seconds
        yield (
            f"the cost of {i.alias}'s window",
            i.window_seconds.upkeep_seconds + i.window_seconds.probe_seconds,
        )
    for predicate in problem.predicates:
        yield f"the selectivity of {predicate.text}", predicate.selectivity
    yield "the cost of joins", problem.between.upkeep_seconds + problem.between.probe_seconds
    yield "the cost of results", problem.result_seconds
