"""All plans of a query with the best drop boxes for each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headgate.errors import SetupError
from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.figures import Figures, Floats, Ints
from headgate.planning.joins.flows import Flows, flows_of, objective
from headgate.planning.joins.plans import Plans, bushy_plans, left_deep, left_deep_orders, plan_of, shape_of
from headgate.planning.joins.problem import JoinProblem

# boxes under time windows take thousands of times as long as a knapsack
MOST_LEFT_DEEP = 8
MOST_LEFT_DEEP_TIMED = 6
MOST_BUSHY = 7
MOST_BUSHY_TIMED = 5
# objectives that differ by less are the same, computed in another order
_TIE = 1e-9


def left_deep_plans(problem: JoinProblem) -> Plans:
    """Every plan that joins one stream at a time."""
    most = MOST_LEFT_DEEP if problem.is_linear else MOST_LEFT_DEEP_TIMED
    return left_deep(left_deep_orders(_no_more_than(problem, most)))


def all_plans(problem: JoinProblem) -> Plans:
    """Every plan, of whatever shape."""
    return bushy_plans(_no_more_than(problem, MOST_BUSHY if problem.is_linear else MOST_BUSHY_TIMED))


def exhaustive(problem: JoinProblem, plans: Plans, capacity: float, most: int = 10) -> list[Candidate]:
    """The best plans with their boxes, the one to choose first."""
    figures = Figures.of(problem)
    flows = flows_of(plans, figures)
    whole = np.ones((len(plans.pairs), len(problem.streams)))
    keep = flows.keep_within(whole, np.full(len(whole), capacity))
    ranked = ranking(plans, figures, flows, keep)[:most]
    some = plans.only(ranked)
    candidates = candidates_of(problem, some, refined(problem, some, keep[ranked], capacity), capacity)
    # one that was refined may have overtaken
    return sorted(candidates, key=lambda c: -float(f"{c.objective:.9g}"))


def ranking(plans: Plans, figures: Figures, flows: Flows, keep: Floats) -> Ints:
    """Plans by output for cost; then those with fewer cross products, less cost unshed, the order of FROM."""
    unshed = flows.cost_per_s(np.ones_like(keep))
    keys = [_steps(unshed), plans.crosses(figures), _steps(-objective(flows, keep))]
    return np.asarray(np.lexsort(keys))


def refined(problem: JoinProblem, plans: Plans, keep: Floats, capacity: float) -> Floats:
    """The boxes of plans, improved where a plan has both row and time windows."""
    flows = flows_of(plans, Figures.of(problem))
    return np.array([flows.refined(plan, shares, capacity) for plan, shares in enumerate(keep)])


def candidates_of(problem: JoinProblem, plans: Plans, keep: Floats, capacity: float) -> list[Candidate]:
    """Plans with their boxes, in the order given."""
    figures = Figures.of(problem)
    flows = flows_of(plans, figures)
    unshed, kept = flows.cost_per_s(np.ones_like(keep)).tolist(), flows.cost_per_s(keep).tolist()
    joined, crosses = flows.joined_per_s(keep).tolist(), plans.crosses(figures).tolist()
    return [
        Candidate(
            problem=problem,
            shape=shape_of(plans.pairs[plan]),
            cost_per_s=unshed[plan],
            kept_cost_per_s=kept[plan],
            output_per_s=joined[plan] * problem.results_per_match,
            keep=dict(zip(problem.streams, keep[plan].tolist(), strict=True)),
            crosses=crosses[plan],
            is_feasible=unshed[plan] < capacity,
        )
        for plan in range(len(keep))
    ]


def cost_per_s(problem: JoinProblem, plan: Candidate, keep: Mapping[str, float] | None = None) -> float:
    """Processors that a plan keeps busy on the figures of this problem, unshed or behind boxes."""
    return float(_flows(problem, plan).cost_per_s(_shares(problem, keep))[0])


def output_per_s(problem: JoinProblem, plan: Candidate, keep: Mapping[str, float] | None = None) -> float:
    """Results a second of a plan on the figures of this problem."""
    joined = float(_flows(problem, plan).joined_per_s(_shares(problem, keep))[0])
    return joined * problem.results_per_match


def _flows(problem: JoinProblem, plan: Candidate) -> Flows:
    return flows_of(plan_of(plan.shape), Figures.of(problem))


def _shares(problem: JoinProblem, keep: Mapping[str, float] | None) -> Floats:
    return np.array([[1.0 if keep is None else keep[stream] for stream in problem.streams]])


def _steps(values: Floats) -> Ints:
    """Ranks from the smallest on, equal for values that differ by rounding alone."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    with np.errstate(invalid="ignore"):
        apart = ~(np.abs(np.diff(ordered)) <= _TIE * np.abs(ordered[1:])) & (ordered[1:] != ordered[:-1])
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(apart)])
    return ranks


def _no_more_than(problem: JoinProblem, most: int) -> int:
    inputs = len(problem.inputs)
    if inputs > most:
        raise SetupError(
            f"{problem.query} joins {inputs} streams, too many to try all plans; up to {most} can be"
        )
    return inputs
