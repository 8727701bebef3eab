"""Paths as columns of the optimisation: what a tuple that takes a path asks of every server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.routing.network import SHARED, RoutingNetwork, RoutingPlan
from headgate.routing.plans import Paths

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One path of one plan, per tuple a second of all sources together."""

    plan: str
    order: tuple[str, ...]
    utilisation: Floats
    """Of every server."""
    delivered: float
    """Tuples a second that reach the sink."""
    visits: Floats
    """Of those, how many pass through every operator."""


class Problem:
    """A network as numbers: servers, operators and plans in the order of the network."""

    def __init__(self, network: RoutingNetwork) -> None:
        self.network = network
        self.shares = network.shares()
        self.operators = list(network.operators)
        self.servers = list(network.servers)
        self.server = {name: self.servers.index(network.server_of(name)) for name in self.operators}
        self.seconds = {
            name: operator.per_tuple / network.servers[network.server_of(name)]
            for name, operator in network.operators.items()
        }
        """Service time; of the shared resource, as if an operator had all of it."""
        self.most_utilised = network.max_queue / (1.0 + network.max_queue)
        """The utilisation at which a queue has its greatest length."""
        self.plans = list(network.plans)
        self.has_fixed_visits = all(_visits_all(plan) for plan in network.plans.values())
        """Whether a delivered tuple has visited the same operators on every path."""

    @cached_property
    def selectivities(self) -> dict[str, dict[str, float]]:
        """Of every operator, by plan."""
        return {
            name: {op: self.network.operators[op].selectivity_of(plan.source) for op in plan.operators}
            for name, plan in self.network.plans.items()
        }

    def column(self, plan: str, order: tuple[str, ...]) -> Column:
        """The column of a path."""
        share = self.shares[self.network.plans[plan].source]
        utilisation = np.zeros(len(self.servers))
        reached = share
        for operator in order:
            utilisation[self.server[operator]] += reached * self.seconds[operator]
            reached *= self.selectivities[plan][operator]
        visits = np.zeros(len(self.operators))
        visits[[self.operators.index(operator) for operator in order]] = reached
        return Column(plan, order, utilisation, reached, visits)

    def cheapest(self, plan: str, server_costs: Floats) -> Column:
        """The path that costs least if a server's time costs so much."""
        routing_plan = self.network.plans[plan]
        costs = {op: float(server_costs[self.server[op]]) * self.seconds[op] for op in routing_plan.operators}
        return self.column(plan, routing_plan.cheapest(costs, self.selectivities[plan]))

    def first_columns(self) -> list[Column]:
        """All paths of plans that list them, the cheapest order of the others."""
        found = []
        for name, plan in self.network.plans.items():
            if isinstance(plan, Paths):
                found += [self.column(name, path) for path in dict.fromkeys(plan.paths)]
            else:
                found.append(self.cheapest(name, np.ones(len(self.servers))))
        return found

    def delay_weights(self, visits: Floats) -> Floats:
        """What every server adds to the rate-weighted response time, times 1 less its utilisation.

        The shared resource is divided in the best way: by the square roots of what operators weigh.
        """
        amounts = np.maximum(visits, 0.0) * self._seconds
        weights = np.bincount(
            self._server, np.where(self._shared, np.sqrt(amounts), amounts), len(self.servers)
        )
        return np.where(self._is_pool, weights**2, weights)

    def visit_slopes(self, visits: Floats, spare: Floats) -> Floats:
        """By how much a little more visits of each operator adds to the same."""
        slopes = self._seconds / spare[self._server]
        weights = self.delay_weights(visits)[self._server]
        # a sharing operator that nobody visits yet would have an infinite slope
        amounts = np.maximum(visits * self._seconds, 1e-12 * np.maximum(weights, 1e-300))
        return np.asarray(np.where(self._shared, slopes * np.sqrt(weights / amounts), slopes))

    @cached_property
    def _seconds(self) -> Floats:
        return np.array([self.seconds[name] for name in self.operators])

    @cached_property
    def _server(self) -> NDArray[np.int64]:
        return np.array([self.server[name] for name in self.operators])

    @cached_property
    def _is_pool(self) -> NDArray[np.bool_]:
        return np.array([name == SHARED for name in self.servers])

    @cached_property
    def _shared(self) -> NDArray[np.bool_]:
        return np.array([self.is_shared(name) for name in self.operators])

    def is_shared(self, operator: str) -> bool:
        """Whether an operator lives on the shared resource."""
        return self.servers[self.server[operator]] == SHARED


def _visits_all(plan: RoutingPlan) -> bool:
    return not isinstance(plan, Paths) or len({frozenset(path) for path in plan.paths}) == 1


def order_flows(columns: list[Column], amounts: Floats) -> Mapping[str, dict[tuple[str, ...], float]]:
    """Amounts by plan and path, as parts of the plan's tuples."""
    flows: dict[str, dict[tuple[str, ...], float]] = {}
    for column, amount in zip(columns, amounts, strict=True):
        # what a solver leaves at rounding is no path
        if amount > 1e-9:
            orders = flows.setdefault(column.plan, {})
            orders[column.order] = orders.get(column.order, 0.0) + float(amount)
    return {
        plan: {order: amount / sum(orders.values()) for order, amount in orders.items()}
        for plan, orders in flows.items()
    }
