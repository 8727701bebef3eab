"""Routing policies: which operator a tuple visits next, chosen from the statistics that operators publish.

A policy returns weights; ``next_operator`` draws an operator from them by a uniform hash, so that a replay
routes every tuple the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from headgate.errors import InternalError, SetupError, unknown_name
from headgate.model.uniform_hash import mix, uniform
from headgate.routing.monitor import OperatorStatistics, Outcome
from headgate.routing.routing_network import RoutingNetwork
from headgate.routing.solution import Solution
from headgate.routing.solvers import largest_rate, least_response_time

_LEAST_SECONDS = 1e-12
# closer to the largest rate, response time is all queueing: then the load is spread as evenly as possible
_NEARLY_FULL = 0.97


@dataclass(frozen=True)
class RoutingView:
    """All that a router may know: statistics published by operators, the tuple's plan, time and rates."""

    statistics: Mapping[str, OperatorStatistics]
    plan: str = ""
    now_s: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    """Tuples per second of every source whose rate is known."""


class Router(Protocol):
    """Chooses by weights, without I/O, clock or randomness of its own."""

    name: str

    def prepare(self, network: RoutingNetwork) -> None:
        """Called once, before the first tuple is routed."""

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """Weights of the eligible operators for tuples that have visited ``done``; they sum to 1."""

    def learn(self, outcome: Outcome) -> None:
        """Called with what an operator has done since the previous call for it."""


def benefit(selectivity: float, seconds: float) -> float:
    """Tuples dropped per second of work; 0 if the operator outputs more tuples than it takes in."""
    return max(0.0, 1.0 - selectivity) / max(seconds, _LEAST_SECONDS)


def behind_queue(dropped_per_s: float, queue: float) -> float:
    """A benefit behind a queue: waiting counts as work."""
    return dropped_per_s / (1.0 + queue)


def _all_to_largest(scores: Mapping[str, float]) -> dict[str, float]:
    """Weight 1 for the largest score; equal scores share it."""
    most = max(scores.values())
    best = [name for name, score in scores.items() if score == most]
    return {name: 1.0 / len(best) if name in best else 0.0 for name in scores}


def _in_proportion(scores: Mapping[str, float]) -> dict[str, float]:
    """Weights in proportion to the scores; equal weights if all scores are 0."""
    most = max(scores.values())
    if most <= 0:
        return {name: 1.0 / len(scores) for name in scores}
    # divided by the largest first: squares of tiny scores would underflow
    total = sum(score / most for score in scores.values())
    return {name: score / most / total for name, score in scores.items()}


class StatisticsRouter:
    """Base of the policies that use published statistics alone: all tuples to the largest score."""

    name = ""

    def prepare(self, network: RoutingNetwork) -> None:
        """Do nothing."""

    def learn(self, outcome: Outcome) -> None:
        """Do nothing: the statistics contain it already."""

    def score(self, known: OperatorStatistics) -> float:
        """How good it is to send a tuple to an operator."""
        raise NotImplementedError

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        return _all_to_largest({name: self.score(view.statistics[name]) for name in eligible})


class ShortestQueue(StatisticsRouter):
    """q: the shortest queue."""

    name = "q"

    def score(self, known: OperatorStatistics) -> float:
        return -known.queue


class Tickets(ShortestQueue):
    """t: the most tickets, one for each tuple taken in and not passed on; the lottery of the first eddies.

    Without any tickets, the shortest queue.
    """

    name = "t"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        tickets = {name: view.statistics[name].tickets for name in eligible}
        return _all_to_largest(tickets) if max(tickets.values()) > 0 else super().route(done, eligible, view)


class SelectivityCost(StatisticsRouter):
    """sc: the most tuples dropped per second of work, which is the best order on a single processor."""

    name = "sc"

    def score(self, known: OperatorStatistics) -> float:
        return benefit(known.selectivity, known.seconds)


class SelectivityCostQueue(SelectivityCost):
    """scq: the most tuples dropped per second of waiting and work."""

    name = "scq"

    def score(self, known: OperatorStatistics) -> float:
        return behind_queue(benefit(known.selectivity, known.seconds), known.queue)


class WeightedSelectivityCost(SelectivityCost):
    """wsc: at random, in proportion to the square of the score of sc: better orders are more frequent."""

    name = "wsc"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        return _in_proportion({name: self.score(view.statistics[name]) ** 2 for name in eligible})


class WeightedSelectivityCostQueue(WeightedSelectivityCost, SelectivityCostQueue):
    """wscq: at random, in proportion to the square of the score of scq."""

    name = "wscq"


class Optimal:
    """optimal: the weights of the analysis, solved again as selectivities and rates are learnt.

    Routes by history; histories that the solution does not contain are routed as under wscq.
    """

    name = "optimal"

    def __init__(self) -> None:
        self.every_s = 20.0
        """Time between two solutions."""
        self._network: RoutingNetwork | None = None
        self._weights: dict[tuple[str, frozenset[str]], Mapping[str, float]] = {}
        self._solved_s = float("-inf")
        self._is_stale = True
        self._otherwise = WeightedSelectivityCostQueue()

    def prepare(self, network: RoutingNetwork) -> None:
        """Solve for the estimates of the plan."""
        self._network = network
        self._solve(network)

    def learn(self, outcome: Outcome) -> None:
        """Mark the solution as outdated."""
        self._is_stale = True

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        if self._network is None:
            raise InternalError("the router was not prepared")
        if self._is_stale and view.now_s - self._solved_s >= self.every_s:
            self._solve(learnt_network(self._network, view.statistics, view.rates))
            self._solved_s, self._is_stale = view.now_s, False
        weights = self._weights.get((view.plan, frozenset(done)), {})
        known = {name: weights.get(name, 0.0) for name in eligible}
        if sum(known.values()) > 0:
            return _in_proportion(known)
        return self._otherwise.route(done, eligible, view)

    def _solve(self, network: RoutingNetwork) -> None:
        choices = best_routing(network).histories.choices
        self._weights = {(choice.plan, frozenset(choice.done)): choice.weights for choice in choices}


def learnt_network(
    network: RoutingNetwork, statistics: Mapping[str, OperatorStatistics], rates: Mapping[str, float]
) -> RoutingNetwork:
    """The network with measured selectivities, service times and rates in place of those of the plan.

    Ratios between the selectivities of one operator by source stay those of the plan.
    """
    operators = dict(network.operators)
    for name, operator in network.operators.items():
        if (known := statistics.get(name)) is not None:
            per_tuple = max(known.seconds, 1e-12) * network.servers[network.server_of(name)]
            planned, learnt = operator.selectivity, max(known.selectivity, 0.0)
            selectivity: float | Mapping[str, float] = learnt
            if isinstance(planned, Mapping) and (mean := sum(planned.values()) / len(planned)) > 0:
                selectivity = {source: learnt * value / mean for source, value in planned.items()}
            operators[name] = replace(operator, per_tuple=per_tuple, selectivity=selectivity)
    known_rates = {source: rates.get(source, rate) for source, rate in network.rates.items()}
    return replace(network, operators=operators, rates=known_rates)


def best_routing(network: RoutingNetwork) -> Solution:
    """The least response time where the rate leaves room for it, otherwise the largest rate."""
    most = largest_rate(network)
    rate = network.total_rate
    if rate is None or rate <= 0 or rate >= _NEARLY_FULL * most.mdr:
        return most
    try:
        return least_response_time(network, rate)
    except SetupError:
        return most


_CLASSES: tuple[type[StatisticsRouter | Optimal], ...] = (
    *(Tickets, ShortestQueue, SelectivityCost, WeightedSelectivityCost),
    *(SelectivityCostQueue, WeightedSelectivityCostQueue, Optimal),
)
_ROUTERS = {router.name: router for router in _CLASSES}


def router_names() -> tuple[str, ...]:
    return tuple(_ROUTERS)


def router_named(name: str) -> Router:
    if name not in _ROUTERS:
        raise SetupError(unknown_name("policy", name, router_names()))
    return _ROUTERS[name]()


def choice_bounds(weights: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """The part of [0, 1) that leads to each operator."""
    total = sum(weights.values())
    bounds, begin = {}, 0.0
    for name, weight in weights.items():
        end = begin + weight / total
        bounds[name] = begin, end
        begin = end
    last = [name for name, weight in weights.items() if weight > 0][-1]
    # the remainder of rounding belongs to the last operator
    bounds[last] = bounds[last][0], 1.0
    return bounds


def next_operator(weights: Mapping[str, float], chance: float) -> str:
    """The operator to whose part of [0, 1) a number belongs."""
    for name, (begin, end) in choice_bounds(weights).items():
        if begin <= chance < end:
            return name
    raise ValueError(f"{chance} is not in [0, 1)")


def routing_chance(seed: int, tuple_number: int, visit: int) -> float:
    """A number in [0, 1) that depends on nothing else, so that routing can be replayed."""
    return uniform(mix(mix(seed) ^ mix(tuple_number)), visit)
