"""The decision: a plan for every query, and what to keep of each stream, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headgate.errors import SetupError
from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.exhaustive import exhaustive, left_deep_plans
from headgate.planning.joins.figures import Figures
from headgate.planning.joins.heuristic import best_orders
from headgate.planning.joins.plans import Plans, left_deep
from headgate.planning.joins.problem import JoinProblem
from headgate.planning.joins.together import Choice, together

PlansOf = Callable[[JoinProblem], Plans]


@dataclass(frozen=True)
class QueryDecision:
    """The plan of one query, the best of those it was chosen from, and why."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    considered: int
    why: str


@dataclass(frozen=True)
class Decision:
    """What to run: a plan a query, and the share to keep of each stream; those not named are kept whole."""

    capacity: float
    queries: Mapping[str, QueryDecision]

    @property
    def is_feasible(self) -> bool:
        """Whether everything fits without shedding."""
        return all(decision.chosen.is_feasible for decision in self.queries.values())

    @property
    def keep(self) -> dict[str, float]:
        """The share to keep of every stream."""
        return {s: share for d in self.queries.values() for s, share in d.chosen.keep.items()}


def choose(
    problems: Sequence[JoinProblem], capacity: float, plans_of: PlansOf = left_deep_plans, most: int = 10
) -> Decision:
    """Choose for all queries together; ``most`` candidates of each are kept to be shown."""
    if not 0 < capacity < float("inf"):
        raise SetupError(f"a capacity of {capacity:g} processors runs nothing; write a number above 0")
    choices = [Choice(problem, _plans(problem, plans_of, capacity)) for problem in problems]
    chosen = together(choices, capacity) if len(choices) > 1 else ()
    decisions: dict[str, QueryDecision] = {}
    for number, choice in enumerate(choices):
        others = sum(c.kept_cost_per_s for place, c in enumerate(chosen) if place != number)
        left = max(capacity - others, capacity * 1e-9)
        candidates = exhaustive(choice.problem, choice.plans, left, most)
        one = chosen[number] if chosen else candidates[0]
        payer = decisions.get(choice.problem.shares_with or "")
        if payer is not None:
            decisions[choice.problem.query] = _following(one, payer.chosen, capacity)
            continue
        considered = len(choice.plans.pairs)
        is_partial = is_too_many(choice.problem, plans_of)
        why = _why(one, candidates, 1 if is_partial else considered, capacity, bool(chosen))
        if is_partial:
            streams = len(choice.problem.inputs)
            why += f"; {streams} streams are too many to try all plans, so a heuristic found it"
        decisions[choice.problem.query] = QueryDecision(one, tuple(candidates), considered, why)
    return Decision(capacity, decisions)


def _following(own: Candidate, payer: Candidate, capacity: float) -> QueryDecision:
    """A query whose join is another's: it goes by the other's order, and pays for the rest."""
    follows = replace(own, shape=payer.shape, crosses=payer.crosses)
    share = own.cost_per_s / capacity
    why = f"shares the join of {payer.problem.query}: it takes {share:.4g} of the capacity more"
    if not own.is_feasible:
        full = own.problem.output_per_s
        why += f"; with drop boxes it gives {own.output_per_s:,.6g} of {full:,.6g} results a second"
    return QueryDecision(follows, (follows,), 1, why)


def is_too_many(problem: JoinProblem, plans_of: PlansOf) -> bool:
    """Whether a query has too many streams to try all its plans."""
    try:
        plans_of(problem)
    except SetupError:
        return True
    return False


def _plans(problem: JoinProblem, plans_of: PlansOf, capacity: float) -> Plans:
    if problem.shares_with is not None:
        # all orders cost it the same
        return left_deep(np.arange(len(problem.inputs))[None, :])
    if not is_too_many(problem, plans_of):
        return plans_of(problem)
    figures = Figures.of(problem)
    orders = [best_orders(figures, np.array([limit])).orders[0, 0] for limit in (capacity, np.inf)]
    return left_deep(np.unique(np.array(orders), axis=0))


def _why(
    chosen: Candidate, candidates: Sequence[Candidate], considered: int, capacity: float, is_shared: bool
) -> str:
    share = chosen.cost_per_s / capacity
    of = "" if considered == 1 else f" of {considered} plans"
    if chosen.is_feasible:
        return f"fits: it takes {share:.4g} of the capacity" + (of and f", the least{of}")
    subject = "the queries do not fit together" if is_shared else "no plan fits"
    full = chosen.problem.output_per_s
    text = f"{subject}: this one would take {share:.4g} of the capacity; "
    text += f"with drop boxes it gives {chosen.output_per_s:,.6g} of {full:,.6g} results a second"
    if is_shared:
        return text
    text += of and f", the most{of}"
    cheapest = min(candidates, key=lambda c: c.cost_per_s)
    if cheapest.cost_per_s < chosen.cost_per_s:
        text += f"; the cheapest, {cheapest}, would give {cheapest.output_per_s:,.6g}"
    return text
