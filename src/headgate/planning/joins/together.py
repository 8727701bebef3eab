"""Several queries over shared streams and one capacity: plans and drop boxes chosen together.

A stream has one drop box, whoever reads it. What counts is the output of all queries, each with its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.exhaustive import candidates_of
from headgate.planning.joins.figures import Figures, Floats
from headgate.planning.joins.flows import Flows, flows_of
from headgate.planning.joins.knapsack import knapsack
from headgate.planning.joins.plans import Plans
from headgate.planning.joins.problem import JoinProblem

_LEAST = 1e-12
_OPEN = 1e-6
_MOST_COMBINATIONS = 20_000


@dataclass(frozen=True)
class Choice:
    """A query with the plans to choose from."""

    problem: JoinProblem
    plans: Plans


def together(choices: Sequence[Choice], capacity: float) -> tuple[Candidate, ...]:
    """A plan for every query and one set of boxes: all of each stream if that fits, else what counts most."""
    cheapest = [int(_costs(choice).argmin()) for choice in choices]
    if sum(float(_costs(c)[plan]) for c, plan in zip(choices, cheapest, strict=True)) <= capacity:
        return _with_boxes(choices, cheapest, {}, capacity)
    streams = tuple(dict.fromkeys(s for choice in choices for s in choice.problem.streams))
    if all(choice.problem.is_linear for choice in choices):
        chosen = _best_plans(choices, streams, cheapest, capacity)
        # exact: a solver of linear programs stops where gains are small in absolute terms
        keep = knapsack(*_slopes(choices, streams, chosen), np.asarray(capacity))
    else:
        starts = (cheapest, _best_alone(choices, capacity))
        found = [(_curved(choices, streams, plans, capacity), plans) for plans in starts]
        keep, chosen = max(found, key=lambda pair: _output(choices, streams, pair[1], pair[0]))
    return _with_boxes(choices, chosen, dict(zip(streams, keep.tolist(), strict=True)), capacity)


def _best_plans(
    choices: Sequence[Choice], streams: Sequence[str], start: Sequence[int], capacity: float
) -> list[int]:
    """The plans that give the most together: all combinations are tried, or one query's plan at a time."""
    if prod(len(choice.plans.pairs) for choice in choices) <= _MOST_COMBINATIONS:
        return _best_combination(choices, streams, capacity)
    starts = (start, _best_alone(choices, capacity))
    found = [_climbed(choices, streams, list(begin), capacity) for begin in starts]
    return max(found, key=lambda pair: pair[1])[0]


def _best_combination(choices: Sequence[Choice], streams: Sequence[str], capacity: float) -> list[int]:
    slopes = [_all_slopes(choice, streams) for choice in choices]
    chosen = np.indices([len(gains) for gains, _ in slopes]).reshape(len(choices), -1)
    gains = sum((own[plans] for (own, _), plans in zip(slopes, chosen, strict=True)), np.zeros(()))
    costs = sum((own[plans] for (_, own), plans in zip(slopes, chosen, strict=True)), np.zeros(()))
    keep = knapsack(gains, costs, np.full(len(gains), capacity))
    best = int((gains * keep).sum(axis=1).argmax())
    return [int(plan) for plan in chosen[:, best]]


def _best_alone(choices: Sequence[Choice], capacity: float) -> list[int]:
    """The plan of each query that gives the most if it had an equal share of the capacity."""
    return [int(_shed_output(choice, capacity / len(choices)).argmax()) for choice in choices]


def _climbed(
    choices: Sequence[Choice], streams: Sequence[str], plans: list[int], capacity: float
) -> tuple[list[int], float]:
    output = -1.0
    while True:
        before = output
        for number, choice in enumerate(choices):
            gains, costs = _slopes(choices, streams, plans, leave_out=number)
            own_gains, own_costs = _all_slopes(choice, streams)
            gains, costs = gains + own_gains, costs + own_costs
            keep = knapsack(gains, costs, np.full(len(gains), capacity))
            outputs = (gains * keep).sum(axis=1)
            if outputs.max() > output * (1 + 1e-12):
                plans[number], output = int(outputs.argmax()), float(outputs.max())
        if output <= before * (1 + 1e-12):
            return plans, output


def _all_slopes(choice: Choice, streams: Sequence[str]) -> tuple[Floats, Floats]:
    """Weighted output and cost per stream kept whole, for every plan of a query over row windows."""
    flows = flows_of(choice.plans, Figures.of(choice.problem))
    own = np.eye(len(choice.problem.streams))
    plans = len(choice.plans.pairs)
    gains, costs = np.zeros((plans, len(streams))), np.zeros((plans, len(streams)))
    for place, stream in enumerate(choice.problem.streams):
        unit = np.broadcast_to(own[place], (plans, len(own)))
        at = streams.index(stream)
        gains[:, at] = flows.joined_per_s(unit) * choice.problem.results_per_match * choice.problem.weight
        costs[:, at] = flows.cost_per_s(unit)
    return gains, costs


def _slopes(
    choices: Sequence[Choice], streams: Sequence[str], plans: Sequence[int], leave_out: int | None = None
) -> tuple[Floats, Floats]:
    gains, costs = np.zeros(len(streams)), np.zeros(len(streams))
    for number, (choice, plan) in enumerate(zip(choices, plans, strict=True)):
        if number != leave_out:
            own_gains, own_costs = _all_slopes(_only(choice, plan), streams)
            gains, costs = gains + own_gains[0], costs + own_costs[0]
    return gains, costs


def _curved(
    choices: Sequence[Choice], streams: Sequence[str], plans: Sequence[int], capacity: float
) -> Floats:
    """Boxes under time windows, by a general solver from several starts."""
    from scipy.optimize import minimize

    def output(x: Floats) -> float:
        return _output(choices, streams, plans, x)

    def cost(x: Floats) -> float:
        return _total(choices, streams, plans, x, lambda flows, keep, _: flows.cost_per_s(keep))

    best = np.full(len(streams), _LEAST)
    for start in (0.9, 0.5, 0.1):
        found = minimize(
            lambda x: -np.log(max(output(x), 1e-300)),
            np.full(len(streams), start),
            bounds=[(_LEAST, 1.0)] * len(streams),
            constraints={"type": "ineq", "fun": lambda x: 1 - cost(x) / capacity},
            method="SLSQP",
        ).x
        if cost(found) <= capacity * (1 + 1e-6) and output(found) > output(best):
            best = found
    return np.where(best > 1 - _OPEN, 1.0, best)


def _output(choices: Sequence[Choice], streams: Sequence[str], plans: Sequence[int], keep: Floats) -> float:
    """Results of all queries a second, each by its weight."""
    return _total(
        choices,
        streams,
        plans,
        keep,
        lambda flows, shares, p: flows.joined_per_s(shares) * p.results_per_match * p.weight,
    )


def _total(
    choices: Sequence[Choice],
    streams: Sequence[str],
    plans: Sequence[int],
    keep: Floats,
    figure: Callable[[Flows, Floats, JoinProblem], Floats],
) -> float:
    total = 0.0
    for choice, plan in zip(choices, plans, strict=True):
        own = keep[None, [streams.index(stream) for stream in choice.problem.streams]]
        flows = flows_of(_only(choice, plan).plans, Figures.of(choice.problem))
        total += float(figure(flows, own, choice.problem)[0])
    return total


def _with_boxes(
    choices: Sequence[Choice], plans: Sequence[int], keep: dict[str, float], capacity: float
) -> tuple[Candidate, ...]:
    candidates = []
    for choice, plan in zip(choices, plans, strict=True):
        shares = np.array([[keep.get(stream, 1.0) for stream in choice.problem.streams]])
        [candidate] = candidates_of(choice.problem, _only(choice, plan).plans, shares, capacity)
        candidates.append(candidate)
    is_feasible = sum(c.cost_per_s for c in candidates) < capacity
    return tuple(replace(candidate, is_feasible=is_feasible) for candidate in candidates)


def _only(choice: Choice, plan: int) -> Choice:
    return Choice(choice.problem, choice.plans.only(np.array([plan])))


def _costs(choice: Choice) -> Floats:
    flows = flows_of(choice.plans, Figures.of(choice.problem))
    return flows.cost_per_s(np.ones((len(choice.plans.pairs), len(choice.problem.streams))))


def _shed_output(choice: Choice, capacity: float) -> Floats:
    flows = flows_of(choice.plans, Figures.of(choice.problem))
    whole = np.ones((len(choice.plans.pairs), len(choice.problem.streams)))
    return flows.joined_per_s(flows.keep_within(whole, np.full(len(whole), capacity)))
