"""A routing and what it gives: utilisation, largest rate, response time, weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.routing.columns import Column, Problem
from headgate.routing.histories import Histories
from headgate.routing.network import RoutingNetwork

Flows = Mapping[str, Mapping[tuple[str, ...], float]]


@dataclass(frozen=True)
class Solution:
    """For every plan, the part of its tuples that takes each path; and how the shared resource is divided."""

    network: RoutingNetwork
    flows: Flows
    resources: Mapping[str, float]
    """What every operator has for itself; for those on a node, all of the node."""

    @classmethod
    def dividing_by_load(cls, network: RoutingNetwork, flows: Flows) -> Solution:
        """Divide the shared resource so that all who share it are utilised alike."""
        problem = Problem(network)
        work = _work(problem, _columns(problem, flows))
        shared = sum(amount for name, amount in work.items() if problem.is_shared(name))
        parts = {name: amount / shared if shared else 0.0 for name, amount in work.items()}
        return cls(network, flows, _resources(problem, parts))

    @classmethod
    def dividing_by_delay(cls, network: RoutingNetwork, flows: Flows, rate: float) -> Solution:
        """Divide the shared resource so that response times at a rate are least."""
        problem = Problem(network)
        columns = _columns(problem, flows)
        visits = sum((amount * column.visits for column, amount in columns), np.zeros(len(problem.operators)))
        work = {name: rate * amount for name, amount in _work(problem, columns).items()}
        roots = {
            name: float(np.sqrt(visits[number] * problem.seconds[name]))
            for number, name in enumerate(problem.operators)
            if problem.is_shared(name)
        }
        spare = 1.0 - sum(work[name] for name in roots)
        whole = sum(roots.values())
        parts = {name: work[name] + spare * root / whole for name, root in roots.items()} if whole else {}
        return cls(network, flows, _resources(problem, parts))

    @cached_property
    def _problem(self) -> Problem:
        return Problem(self.network)

    @cached_property
    def _seconds(self) -> dict[str, float]:
        # of the shared resource, an operator that no tuple reaches has none
        return {
            name: operator.per_tuple / self.resources[name] if self.resources[name] > 0 else math.inf
            for name, operator in self.network.operators.items()
        }

    @cached_property
    def visits_per_tuple(self) -> dict[str, float]:
        """Tuples a second into every operator, per tuple a second of all sources together."""
        problem = self._problem
        work = _work(problem, _columns(problem, self.flows))
        return {name: amount / problem.seconds[name] for name, amount in work.items()}

    def utilisation(self, rate: float) -> dict[str, float]:
        """Of every operator's resource, at a total source rate; operators on one node have the node's."""
        visits = self.visits_per_tuple
        own = {name: rate * n * self._seconds[name] if n > 0 else 0.0 for name, n in visits.items()}
        by_node: dict[str, float] = {}
        for name, used in own.items():
            server = self._server(name)
            by_node[server] = by_node.get(server, 0.0) + used
        return {name: by_node[self._server(name)] for name in own}

    def _server(self, operator: str) -> str:
        node = self.network.operators[operator].node
        return operator if node is None else f"node {node}"

    @cached_property
    def mdr(self) -> float:
        """The largest total source rate at which no queue is longer than allowed."""
        most = max(self.utilisation(1.0).values())
        return self._problem.most_utilised / most if most > 0 else float("inf")

    def art(self, rate: float) -> float | None:
        """The mean response time of tuples that reach the sink; None if some server cannot keep up."""
        utilisation = self.utilisation(rate)
        if max(utilisation.values()) >= 1:
            return None
        residence = {name: s / (1 - utilisation[name]) for name, s in self._seconds.items()}
        waited = delivered = 0.0
        for column, amount in _columns(self._problem, self.flows):
            if column.delivered > 0:
                delivered += amount * column.delivered
                waited += amount * column.delivered * sum(residence[name] for name in column.order)
        return waited / delivered if delivered > 0 else None

    @cached_property
    def histories(self) -> Histories:
        """Rates and weights by history."""
        return Histories.of(self.network, self.flows)


def _resources(problem: Problem, parts: Mapping[str, float]) -> dict[str, float]:
    network = problem.network
    return {
        name: network.servers[network.server_of(name)] * (parts[name] if problem.is_shared(name) else 1.0)
        for name in problem.operators
    }


def _columns(problem: Problem, flows: Flows) -> list[tuple[Column, float]]:
    return [
        (problem.column(plan, order), amount)
        for plan, orders in flows.items()
        for order, amount in orders.items()
    ]


def _work(problem: Problem, columns: list[tuple[Column, float]]) -> dict[str, float]:
    """Utilisation that every operator causes, per tuple a second."""
    work = dict.fromkeys(problem.operators, 0.0)
    for column, amount in columns:
        reached = amount * problem.shares[problem.network.plans[column.plan].source]
        for operator in column.order:
            work[operator] += reached * problem.seconds[operator]
            reached *= problem.selectivities[column.plan][operator]
    return work
