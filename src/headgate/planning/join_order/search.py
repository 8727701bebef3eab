"""Search for the best plan of one query, exhaustively or by dynamic programming; candidates, evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from headgate.errors import SetupError
from headgate.model.join_order import JoinOrder
from headgate.model.operator_inputs import aliased
from headgate.planning.join_order.plans import (
    Floats,
    Ints,
    Pair,
    Plans,
    Shape,
    SubsetRates,
    bushy_plans,
    left_deep,
    left_deep_orders,
)
from headgate.planning.join_order.problem import Flow, JoinProblem, WindowSeconds, source_flow
from headgate.planning.join_order.shed_plans import LinearPlans, TimedPlans, objective, shed_plans
from headgate.planning.plan_tree import Json, Tree


@dataclass(frozen=True)
class Candidate:
    """A plan with its drop boxes, evaluated.

    ``cost_per_s`` is its CPU time per second without shedding, ``shed_cost_per_s`` with its drop boxes;
    ``keep`` is the keep ratio of each stream, ``pairs`` are the joins.
    """

    problem: JoinProblem
    pairs: tuple[Pair, ...]
    cost_per_s: float
    shed_cost_per_s: float
    output_per_s: float
    keep: Mapping[str, float]
    crosses: int
    is_feasible: bool

    @property
    def shape(self) -> Shape:
        """The joins as nested pairs of inputs."""
        shapes: dict[int, Shape] = {}
        for left, right in self.pairs:
            sides = [shapes.get(side, side.bit_length() - 1) for side in (left, right) if side]
            shapes[left | right] = sides[0] if len(sides) == 1 else (sides[0], sides[1])
        return shapes[left | right]

    @property
    def objective(self) -> float:
        return float(objective(np.array(self.output_per_s), np.array(self.shed_cost_per_s)))

    @property
    def order(self) -> JoinOrder:
        return _order(self.shape, self.problem.aliases)

    def __str__(self) -> str:
        def written(shape: Shape) -> str:
            if isinstance(shape, int):
                return self.problem.aliases[shape]
            return f"({', '.join(map(written, shape))})"

        return written(self.shape).removeprefix("(").removesuffix(")")

    def under(self, problem: JoinProblem) -> Candidate:
        keep = np.array([[self.keep[stream] for stream in problem.streams]])
        plan = Plans(np.array([self.pairs]), np.zeros(1, dtype=np.int64))
        [candidate] = Choice(problem, plan).candidates(keep, np.inf)
        return candidate


def _order(shape: Shape, aliases: tuple[str, ...]) -> JoinOrder:
    if isinstance(shape, int):
        return JoinOrder((aliases[shape],))
    left, right = (_order(side, aliases) for side in shape)
    return JoinOrder((*left, *(right if len(right) == 1 else (right,))))


@dataclass(frozen=True)
class Choice:
    """A query with the plans to choose from."""

    problem: JoinProblem
    plans: Plans

    @cached_property
    def rates(self) -> SubsetRates:
        return SubsetRates.of(self.problem)

    @cached_property
    def shed(self) -> LinearPlans | TimedPlans:
        return shed_plans(self.plans, self.rates)

    @property
    def whole(self) -> Floats:
        """The keep ratios of boxes that keep everything."""
        return np.ones((len(self.plans), len(self.problem.streams)))

    def only(self, which: Ints) -> Choice:
        return Choice(self.problem, self.plans.only(which))

    def candidates(self, keep: Floats, capacity: float) -> list[Candidate]:
        problem, shed = self.problem, self.shed
        unshed, shed_costs = shed.cost_per_s(self.whole).tolist(), shed.cost_per_s(keep).tolist()
        joined, crosses = shed.joined_per_s(keep).tolist(), self.plans.crosses(self.rates).tolist()
        return [
            Candidate(
                problem=problem,
                pairs=tuple(map(tuple, self.plans.pairs[plan].tolist())),
                cost_per_s=unshed[plan],
                shed_cost_per_s=shed_costs[plan],
                output_per_s=joined[plan] * problem.results_per_match,
                keep=dict(zip(problem.streams, shares, strict=True)),
                crosses=crosses[plan],
                is_feasible=unshed[plan] < capacity,
            )
            for plan, shares in enumerate(keep.tolist())
        ]


# an operator, its output, the cost of windows over it, and the aliases that it joins
_Operator = tuple[Tree, Flow, WindowSeconds, frozenset[str]]


def operators_of(candidate: Candidate) -> Tree:
    """The operators of the plan after shedding, with output rate and CPU time per second."""
    problem = candidate.problem
    top, flow, _, _ = _operator(candidate, candidate.shape)
    if not problem.result_seconds and problem.results_per_match == 1:
        return top
    results_per_s, cost = flow.tuples_per_s * problem.results_per_match, problem.result_seconds
    return _estimate("results", results_per_s, flow.tuples_per_s * cost, None, top)


def _estimate(does: str, per_s: float, cost_per_s: float, held: float | None, *inputs: Tree) -> Tree:
    window = "" if held is None else f", {held:,.6g} in its window"
    note = f": {per_s:,.6g} tuples/s{window}, {cost_per_s:,.4g} processors"
    values: Json = {"tuples_per_s": per_s, "window_tuples": held, "cost_per_s": cost_per_s}
    return Tree(does, inputs, note=note, values=values)


def _operator(candidate: Candidate, shape: Shape) -> _Operator:
    if isinstance(shape, int):
        return _stream(candidate, shape)
    problem = candidate.problem
    left, of_left, left_seconds, left_aliases = _operator(candidate, shape[0])
    right, of_right, right_seconds, right_aliases = _operator(candidate, shape[1])
    aliases = left_aliases | right_aliases
    inside = [p for p in problem.predicates if p.aliases <= aliases]
    across = [p for p in inside if p.aliases & left_aliases and p.aliases & right_aliases]
    flow = of_left.joined(of_right, prod(p.selectivity for p in across))
    does = f"join {' AND '.join(p.text for p in across)}" if across else "cross product"
    cost = of_left.join_cost_per_s(of_right, left_seconds, right_seconds)
    if not across:
        cost += flow.tuples_per_s * problem.between.pair_seconds
    does += _shared(problem.shares_with)
    estimate = _estimate(does, flow.tuples_per_s, cost, flow.window_tuples, left, right)
    return estimate, flow, problem.between, aliases


def _stream(candidate: Candidate, number: int) -> _Operator:
    read = candidate.problem.inputs[number]
    keep = candidate.keep[read.stream]
    arriving = source_flow(read.window, read.tuples_per_s, keep)
    flow = arriving.selected(read.selectivity)
    is_joined = len(candidate.problem.inputs) > 1
    does = f"stream {aliased(read.stream, read.alias)}"
    does += (f" {read.window}" if is_joined else "") + (f", {keep:.4g} kept" if keep < 1 else "")
    held = arriving.window_tuples if is_joined else None
    estimate = _estimate(does, arriving.tuples_per_s, 0.0, held)
    if read.select_seconds or read.selectivity != 1:
        does = f"select {' AND '.join(read.selections) or read.alias}{_shared(read.shares_with)}"
        cost = arriving.tuples_per_s * read.select_seconds
        held = flow.window_tuples if is_joined else None
        estimate = _estimate(does, flow.tuples_per_s, cost, held, estimate)
    return estimate, flow, read.window_seconds, frozenset({read.alias})


def _shared(query: str | None) -> str:
    return "" if query is None else f", shared with {query}"


# the most streams; drop boxes under time windows take thousands of times as long as a knapsack
MOST_LEFT_DEEP = 8
MOST_LEFT_DEEP_TIMED = 6
MOST_BUSHY = 7
MOST_BUSHY_TIMED = 5
_MOST_CANDIDATES = 10
# objectives that differ by less are the same, computed in another order
_TIE = 1e-9


def left_deep_plans(problem: JoinProblem) -> Plans:
    return left_deep(left_deep_orders(_inputs(problem, MOST_LEFT_DEEP, MOST_LEFT_DEEP_TIMED)))


def all_plans(problem: JoinProblem) -> Plans:
    return bushy_plans(_inputs(problem, MOST_BUSHY, MOST_BUSHY_TIMED))


def _inputs(problem: JoinProblem, most: int, most_timed: int) -> int:
    inputs, most = len(problem.inputs), most if problem.is_linear else most_timed
    if inputs > most:
        too_many = f"{problem.query} joins {inputs} streams, too many to try all plans"
        raise SetupError(f"{too_many}; up to {most} can be")
    return inputs


def exhaustive_search(problem: JoinProblem, plans: Plans, capacity: float) -> list[Candidate]:
    """The best plans with their drop boxes, up to ten, the best one first."""
    choice = Choice(problem, plans)
    keep = choice.shed.keep_within(choice.whole, np.full(len(plans), capacity))
    # by objective, then by cross products, by cost without shedding, and in order of FROM
    worth = objective(choice.shed.joined_per_s(keep), choice.shed.cost_per_s(keep))
    unshed, crosses = choice.shed.cost_per_s(choice.whole), plans.crosses(choice.rates)
    ranked = np.lexsort([_steps(unshed), crosses, _steps(-worth)])[:_MOST_CANDIDATES]
    best = choice.only(ranked)
    candidates = best.candidates(best.shed.refine(keep[ranked], capacity), capacity)
    # refining may have changed the ranking
    return sorted(candidates, key=lambda c: -float(f"{c.objective:.9g}"))


def _steps(values: Floats) -> Ints:
    """Ranks in ascending order, equal for values that differ only by rounding."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    with np.errstate(invalid="ignore"):
        apart = ~(np.abs(np.diff(ordered)) <= _TIE * np.abs(ordered[1:])) & (ordered[1:] != ordered[:-1])
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(apart)])
    return ranks


class Found(NamedTuple):
    """The best plan of each problem: ``orders[problem, 0]``, and its keep ratios."""

    orders: Ints
    keep: Floats


def heuristic_search(problem: JoinProblem, capacity: float) -> Candidate:
    """The plan found by dynamic programming over subsets of streams, left-deep.

    The best plan of every subset is kept. One that does not fit gets its drop boxes at once; they stay, as
    filters would, and later ones are multiplied with them. Finds the best plan if a left-deep one fits.
    """
    rates = SubsetRates.of(problem)
    found = best_orders(rates, np.array([capacity]))
    if problem.is_linear:
        return Choice(problem, left_deep(found.orders[0])).candidates(found.keep[0], capacity)[0]
    # drop boxes were rough on the way: only the order counts, and the cheapest may be better
    cheapest = best_orders(rates, np.array([np.inf]))
    orders = np.concatenate([found.orders[0], cheapest.orders[0]])
    return exhaustive_search(problem, left_deep(orders), capacity)[0]


def best_orders(rates: SubsetRates, capacity: Floats) -> Found:
    """The plan of every problem in the batch, by way of the best plans of all subsets, the smallest first."""
    problems, boxes = len(capacity), int(rates.boxes.max()) + 1
    subsets = [0]
    orders, keep = np.zeros((problems, 1, 0), dtype=np.int64), np.ones((problems, 1, boxes))
    for size in range(1, rates.inputs + 1):
        at = {subset: position for position, subset in enumerate(subsets)}
        subsets = [sum(1 << i for i in chosen) for chosen in combinations(range(rates.inputs), size)]
        # the highest first: of two inputs that are the sides of one join, the first of FROM then stands first
        last = np.array([[i for i in reversed(range(rates.inputs)) if s >> i & 1] for s in subsets])
        rest = np.array([[at[s ^ (1 << int(i))] for i in row] for s, row in zip(subsets, last, strict=True)])
        lasts = np.broadcast_to(last, (problems, *last.shape))[..., None]
        # a best plan of the others, joined with the last
        tried = np.concatenate([orders[:, rest], lasts], axis=-1)
        plans = left_deep(tried.reshape(-1, size), np.repeat(np.arange(problems), last.size))
        most = keep[:, rest].reshape(len(plans), -1)
        kept, cost, joined = shed_plans(plans, rates).roughly_within(most, np.repeat(capacity, last.size))
        worth = objective(joined, cost).reshape(-1, size)
        best = worth.max(axis=1, keepdims=True)
        tied = (worth == best) | (worth >= best * (1 - _TIE))
        crosses = np.where(tied, plans.crosses(rates).reshape(-1, size), rates.inputs)
        chosen = crosses.argmin(axis=1).reshape(problems, len(subsets))[..., None, None]
        orders = np.take_along_axis(tried, chosen, axis=2)[:, :, 0]
        keep = np.take_along_axis(kept.reshape(*tried.shape[:3], -1), chosen, axis=2)[:, :, 0]
    return Found(orders, keep)
