"""The decision: a plan for every query and a keep ratio for every stream, and when to decide again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod

import numpy as np

from headgate.errors import SetupError
from headgate.model.join_order import JoinOrder
from headgate.planning.join_order.plans import Floats, Pair, Plans, SubsetRates, left_deep
from headgate.planning.join_order.problem import NO_TIME, JoinPredicate, JoinProblem, WindowSeconds
from headgate.planning.join_order.search import (
    Candidate,
    Choice,
    all_plans,
    best_orders,
    exhaustive_search,
    heuristic_search,
    left_deep_plans,
)
from headgate.planning.join_order.shed_plans import LEAST, OPEN, knapsack, solve

_MOST_COMBINATIONS = 20_000
_TOGETHER = "all predicates together"
_ONE_SECOND = WindowSeconds.of_probe(1.0)
# the relative change of a statistic that counts, if seen so many times in a row
_DRIFT, _LOOKS = 0.2, 2
# drop boxes close above the capacity, and open when a plan needs less than this share of it
_RELIEF = 0.9
# a new decision must yield so much more output, or cost so much less
_LEAST_GAIN = 0.05

PlansOf = Callable[[JoinProblem], Plans]


@dataclass(frozen=True)
class QueryDecision:
    """The plan of one query, the best candidates, and the reason."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    considered: int
    why: str


@dataclass(frozen=True)
class Decision:
    """A plan for every query, and the keep ratio of each stream; 1 for those not named."""

    queries: Mapping[str, QueryDecision]

    @property
    def is_feasible(self) -> bool:
        return all(decision.chosen.is_feasible for decision in self.queries.values())

    @property
    def keep(self) -> dict[str, float]:
        return {s: share for d in self.queries.values() for s, share in d.chosen.keep.items()}


def choose(problems: Sequence[JoinProblem], capacity: float, plans_of: PlansOf = left_deep_plans) -> Decision:
    if not 0 < capacity < float("inf"):
        raise SetupError(f"a capacity of {capacity:g} processors is out of range; write a number above 0")
    found = [_plans(problem, plans_of, capacity) for problem in problems]
    choices = [Choice(problem, plans) for problem, (plans, _) in zip(problems, found, strict=True)]
    for choice in choices:
        if not np.isfinite(choice.shed.cost_per_s(choice.whole)).all():
            many = f"the rates and windows of {choice.problem.query} multiply to more than can be counted"
            raise SetupError(f"{many}; write lower rates or shorter windows")
    chosen = _Together(choices, capacity).candidates() if len(choices) > 1 else ()
    decisions: dict[str, QueryDecision] = {}
    for number, (choice, (_, is_partial)) in enumerate(zip(choices, found, strict=True)):
        problem, considered = choice.problem, len(choice.plans)
        others = sum(c.shed_cost_per_s for position, c in enumerate(chosen) if position != number)
        left = max(capacity - others, capacity * 1e-9)
        candidates = exhaustive_search(problem, choice.plans, left)
        one = chosen[number] if chosen else candidates[0]
        payer = decisions.get(problem.shares_with or "")
        if payer is not None:
            decisions[problem.query] = _following(one, payer.chosen, capacity)
            continue
        why = _why(one, candidates, 1 if is_partial else considered, capacity, bool(chosen))
        if is_partial:
            streams = len(problem.inputs)
            why += f"; {streams} streams are too many to try all plans, so a heuristic found it"
        decisions[problem.query] = QueryDecision(one, tuple(candidates), considered, why)
    return Decision(decisions)


def _plans(problem: JoinProblem, plans_of: PlansOf, capacity: float) -> tuple[Plans, bool]:
    """The plans to try, and whether they are only some, because there are too many streams to try all."""
    try:
        plans, is_partial = plans_of(problem), False
    except SetupError:
        rates = SubsetRates.of(problem)
        orders = [best_orders(rates, np.array([limit])).orders[0, 0] for limit in (capacity, np.inf)]
        plans, is_partial = left_deep(np.unique(np.array(orders), axis=0)), True
    if problem.shares_with is not None:
        # all orders cost it the same
        plans = left_deep(np.arange(len(problem.inputs))[None, :])
    return plans, is_partial


def _following(own: Candidate, payer: Candidate, capacity: float) -> QueryDecision:
    """A query that shares the join of another: it uses the same order, and pays for the rest."""
    follows = replace(own, pairs=payer.pairs, crosses=payer.crosses)
    share = own.cost_per_s / capacity
    why = f"shares the join of {payer.problem.query}: it takes {share:.4g} of the capacity more"
    if not own.is_feasible:
        full = own.problem.output_per_s
        why += f"; with drop boxes it gives {own.output_per_s:,.6g} of {full:,.6g} results per second"
    return QueryDecision(follows, (follows,), 1, why)


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
    text += f"with drop boxes it gives {chosen.output_per_s:,.6g} of {full:,.6g} results per second"
    if is_shared:
        return text
    text += of and f", the most{of}"
    cheapest = min(candidates, key=lambda c: c.cost_per_s)
    if cheapest.cost_per_s < chosen.cost_per_s:
        text += f"; the cheapest, {cheapest}, would give {cheapest.output_per_s:,.6g}"
    return text


@dataclass(frozen=True)
class _Together:
    """A plan for every query and one drop box for every stream, for the largest weighted output of all."""

    choices: Sequence[Choice]
    capacity: float

    @cached_property
    def streams(self) -> list[str]:
        return list(dict.fromkeys(s for choice in self.choices for s in choice.problem.streams))

    def candidates(self) -> tuple[Candidate, ...]:
        costs = [choice.shed.cost_per_s(choice.whole) for choice in self.choices]
        cheapest = [int(own.argmin()) for own in costs]
        if sum(float(own.min()) for own in costs) <= self.capacity:
            return self._with_boxes(cheapest, {})
        if all(choice.problem.is_linear for choice in self.choices):
            if prod(len(choice.plans) for choice in self.choices) <= _MOST_COMBINATIONS:
                chosen = self._best_combination()
            else:
                climbed = [self._climbed(list(plans)) for plans in (cheapest, self._best_alone())]
                chosen, _ = max(climbed, key=lambda pair: pair[1])
            # exact, unlike a linear program solver, which stops where gains are small in absolute terms
            keep = knapsack(*self._slopes(chosen), np.asarray(self.capacity))
        else:
            found = [(*self._curved(plans), plans) for plans in (cheapest, self._best_alone())]
            _, keep, chosen = max(found, key=lambda one: one[0])
        return self._with_boxes(chosen, dict(zip(self.streams, keep.tolist(), strict=True)))

    def _best_combination(self) -> list[int]:
        slopes = [self._all_slopes(choice) for choice in self.choices]
        chosen = np.indices([len(gains) for gains, _ in slopes]).reshape(len(slopes), -1)
        gains = sum((own[plans] for (own, _), plans in zip(slopes, chosen, strict=True)), np.zeros(()))
        costs = sum((own[plans] for (_, own), plans in zip(slopes, chosen, strict=True)), np.zeros(()))
        best = int(self._outputs(gains, costs).argmax())
        return [int(plan) for plan in chosen[:, best]]

    def _best_alone(self) -> list[int]:
        """The plan of each query with the most output at an equal share of the capacity."""
        share = self.capacity / len(self.choices)
        shed = [(choice.shed, choice.whole) for choice in self.choices]
        keep = [own.keep_within(whole, np.full(len(whole), share)) for own, whole in shed]
        return [int(own.joined_per_s(kept).argmax()) for (own, _), kept in zip(shed, keep, strict=True)]

    def _climbed(self, plans: list[int]) -> tuple[list[int], float]:
        """The plans, one query's changed at a time while that gives more output."""
        output = -1.0
        while True:
            before = output
            for number, choice in enumerate(self.choices):
                gains, costs = self._slopes(plans, leave_out=number)
                own_gains, own_costs = self._all_slopes(choice)
                outputs = self._outputs(gains + own_gains, costs + own_costs)
                if outputs.max() > output * (1 + 1e-12):
                    plans[number], output = int(outputs.argmax()), float(outputs.max())
            if output <= before * (1 + 1e-12):
                return plans, output

    def _outputs(self, gains: Floats, costs: Floats) -> Floats:
        keep = knapsack(gains, costs, np.full(len(gains), self.capacity))
        return np.asarray((gains * keep).sum(axis=1))

    def _all_slopes(self, choice: Choice) -> tuple[Floats, Floats]:
        """Weighted output and cost of each whole stream, for every plan of a query over row windows."""
        problem, plans = choice.problem, len(choice.plans)
        gains, costs = np.zeros((2, plans, len(self.streams)))
        for unit, stream in zip(np.eye(len(problem.streams)), problem.streams, strict=True):
            keep, at = np.broadcast_to(unit, (plans, len(unit))), self.streams.index(stream)
            gains[:, at] = choice.shed.joined_per_s(keep) * problem.results_per_match * problem.weight
            costs[:, at] = choice.shed.cost_per_s(keep)
        return gains, costs

    def _slopes(self, plans: Sequence[int], leave_out: int | None = None) -> tuple[Floats, Floats]:
        gains, costs = np.zeros((2, len(self.streams)))
        for number, choice in enumerate(self._only(plans)):
            if number != leave_out:
                own_gains, own_costs = self._all_slopes(choice)
                gains, costs = gains + own_gains[0], costs + own_costs[0]
        return gains, costs

    def _curved(self, plans: Sequence[int]) -> tuple[float, Floats]:
        """Output and keep ratios under time windows, by a general solver from several starting points."""
        positions = [[self.streams.index(s) for s in c.problem.streams] for c in self.choices]
        pairs = list(zip(self._only(plans), positions, strict=True))

        def output(x: Floats) -> float:
            joined = [(c.problem, float(c.shed.joined_per_s(x[None, at])[0])) for c, at in pairs]
            return sum(per_s * problem.results_per_match * problem.weight for problem, per_s in joined)

        def cost(x: Floats) -> float:
            return sum(float(c.shed.cost_per_s(x[None, at])[0]) for c, at in pairs)

        best = np.full(len(self.streams), LEAST)
        for start in (0.9, 0.5, 0.1):
            found = solve(output, cost, np.full(len(best), start), self.capacity)
            if cost(found) <= self.capacity * (1 + 1e-6) and output(found) > output(best):
                best = found
        keep = np.where(best > 1 - OPEN, 1.0, best)
        return output(keep), keep

    def _with_boxes(self, plans: Sequence[int], keep: Mapping[str, float]) -> tuple[Candidate, ...]:
        candidates = []
        for choice in self._only(plans):
            shares = np.array([[keep.get(stream, 1.0) for stream in choice.problem.streams]])
            candidates += choice.candidates(shares, self.capacity)
        is_feasible = sum(c.cost_per_s for c in candidates) < self.capacity
        return tuple(replace(candidate, is_feasible=is_feasible) for candidate in candidates)

    def _only(self, plans: Sequence[int]) -> list[Choice]:
        return [c.only(np.array([plan])) for c, plan in zip(self.choices, plans, strict=True)]


@dataclass(frozen=True)
class PlanWork:
    """The work of a plan per second: tuples that joins handle, seconds of everything else, results."""

    handled_per_s: float
    other_s_per_s: float
    results_per_s: float


def work_of(problem: JoinProblem, order: JoinOrder, keep: Mapping[str, float]) -> PlanWork:
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


def plan_in_order(problem: JoinProblem, order: JoinOrder) -> Plans:
    """The one plan that joins in this order."""
    pairs: list[Pair] = []
    whole = _joined(problem, order, pairs)
    return Plans(np.array([pairs or [(whole, 0)]]), np.zeros(1, dtype=np.int64))


def _joined(problem: JoinProblem, order: JoinOrder, pairs: list[Pair]) -> int:
    """The subset that an order joins; appends its joins, lowest first."""

    def subset(item: str | JoinOrder) -> int:
        return 1 << problem.aliases.index(item) if isinstance(item, str) else _joined(problem, item, pairs)

    left = subset(order[0])
    for item in order[1:]:
        right = subset(item)
        pairs.append((left, right))
        left |= right
    return left


def plans_on_spark(problem: JoinProblem) -> Plans:
    """All plans, bushy ones too unless there are too many streams to try them."""
    try:
        return all_plans(problem)
    except SetupError:
        return left_deep_plans(problem)


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
