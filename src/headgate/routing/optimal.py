"""optimal: the weights of the analysis, solved again as statistics come in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from headgate.errors import InternalError
from headgate.routing.choosing import in_proportion
from headgate.routing.learnt import best_routing, learnt_network
from headgate.routing.network import RoutingNetwork
from headgate.routing.router import RoutingView
from headgate.routing.scq import queue_benefit
from headgate.routing.statistics import Outcome


class Optimal:
    """Routes by history; histories that the solution does not know go by benefit, as under wscq."""

    name = "optimal"

    def __init__(self, every_s: float = 20.0) -> None:
        self.every_s = every_s
        self._network: RoutingNetwork | None = None
        self._weights: dict[tuple[str, frozenset[str]], Mapping[str, float]] = {}
        self._solved_s = float("-inf")
        self._is_stale = True

    def prepare(self, network: RoutingNetwork) -> None:
        """Start from the figures of the plan."""
        self._network = network
        self._solve(network)

    def learn(self, outcome: Outcome) -> None:
        """Something new is known, so the solution is of the past."""
        self._is_stale = True

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """The weights of this history."""
        if self._network is None:
            raise InternalError("the router was not prepared")
        if self._is_stale and view.now_s - self._solved_s >= self.every_s:
            self._solve(learnt_network(self._network, view.statistics, view.rates))
            self._solved_s, self._is_stale = view.now_s, False
        weights = self._weights.get((view.plan, frozenset(done)), {})
        known = {name: weights.get(name, 0.0) for name in eligible}
        if sum(known.values()) > 0:
            return in_proportion(known)
        return in_proportion({name: queue_benefit(view.statistics[name]) ** 2 for name in eligible})

    def _solve(self, network: RoutingNetwork) -> None:
        choices = best_routing(network).histories.choices
        self._weights = {(choice.plan, frozenset(choice.done)): choice.weights for choice in choices}
