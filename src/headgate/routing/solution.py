"""A network as paths with the load they put on its servers; a routing over them and its consequences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError, known_names
from headgate.routing.routing_network import SHARED, Paths, RoutingNetwork, RoutingPlan

Key = TypeVar("Key")
Floats = NDArray[np.float64]
Path = tuple[str, ...]
Flows = Mapping[str, Mapping[Path, float]]
"""By plan: the share of its tuples on each path."""
Weights = Mapping[str, Mapping[str, float]]
"""From a source or operator to an operator."""

# branches rarer than this among the tuples of a plan change no result
_RAREST = 1e-12
_MOST_BRANCHES = 1_000_000


@dataclass(frozen=True)
class PathColumn:
    """One path of one plan, for a total source rate of 1."""

    plan: str
    order: Path
    work: Floats
    """Utilisation of its server that every operator causes."""
    utilisation: Floats
    """Utilisation of every server."""
    delivered: float
    """Tuples per second that reach the sink."""
    visits: Floats
    """How many of those pass through every operator."""


class Problem:
    """A network as arrays: servers, operators and plans in the order of the network."""

    def __init__(self, network: RoutingNetwork) -> None:
        self.network = network
        self.plans = list(network.plans)
        self.operators = list(network.operators)
        self.servers = list(network.servers)
        placed = network.operators.values()
        server_names = [network.server_of(name) for name in self.operators]
        self.resources = np.array([network.servers[name] for name in server_names])
        self.seconds = np.array([operator.per_tuple for operator in placed]) / self.resources
        """Service time of every operator; on the shared resource, as if the operator had all of it."""
        self.is_shared = np.array([name == SHARED for name in server_names])
        """Whether an operator uses the shared resource."""
        self.most_utilised = network.max_queue / (1.0 + network.max_queue)
        """Utilisation at which the mean queue reaches ``max_queue``."""
        listed = [plan for plan in network.plans.values() if isinstance(plan, Paths)]
        self.has_fixed_visits = all(len(set(map(frozenset, plan.paths))) == 1 for plan in listed)
        """Whether delivered tuples have visited the same operators on every path."""
        self._server = np.array([self.servers.index(name) for name in server_names])
        self._shares = network.shares()
        self._number = {name: number for number, name in enumerate(self.operators)}
        self._selectivities = {
            name: {op: network.operators[op].selectivity_of(plan.source) for op in plan.operators}
            for name, plan in network.plans.items()
        }

    def column(self, plan: str, order: Path) -> PathColumn:
        work, visits = np.zeros(len(self.operators)), np.zeros(len(self.operators))
        numbers = [self._number[operator] for operator in order]
        reached = self._shares[self.network.plans[plan].source]
        for operator, number in zip(order, numbers, strict=True):
            work[number] = reached * self.seconds[number]
            reached *= self._selectivities[plan][operator]
        visits[numbers] = reached
        return PathColumn(plan, order, work, self._by_server(work), reached, visits)

    def _by_server(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self._server, values, len(self.servers)), np.float64)

    def cheapest(self, plan: str, server_costs: Floats) -> PathColumn:
        """The cheapest path at given prices of the servers' time."""
        costs = dict(zip(self.operators, (server_costs[self._server] * self.seconds).tolist(), strict=True))
        return self.column(plan, self.network.plans[plan].cheapest(costs, self._selectivities[plan]))

    def first_columns(self) -> list[PathColumn]:
        """All listed paths, and for other plans the cheapest order."""
        columns = []
        for name, plan in self.network.plans.items():
            if isinstance(plan, Paths):
                columns += [self.column(name, path) for path in dict.fromkeys(plan.paths)]
            else:
                columns.append(self.cheapest(name, np.ones(len(self.servers))))
        return columns

    def totals(self, flows: Flows) -> tuple[Floats, Floats, float]:
        """Work, visits and delivered tuples of all paths together."""
        paths = [(plan, order, share) for plan, orders in flows.items() for order, share in orders.items()]
        columns = [(self.column(plan, order), share) for plan, order, share in paths]
        none = np.zeros(len(self.operators))
        return (
            sum((share * column.work for column, share in columns), none),
            sum((share * column.visits for column, share in columns), none),
            sum(share * column.delivered for column, share in columns),
        )

    def delay_weights(self, visits: Floats) -> Floats:
        """Contribution of every server to the rate-weighted response time, times 1 minus its utilisation.

        The optimal division of the shared resource is by the square roots of the operators' weights.
        """
        amounts = np.maximum(visits, 0.0) * self.seconds
        weights = self._by_server(np.where(self.is_shared, np.sqrt(amounts), amounts))
        return np.where(np.array(self.servers) == SHARED, weights**2, weights)

    def visit_slopes(self, visits: Floats, spare: Floats) -> Floats:
        """Derivative of that contribution by the visits of each operator."""
        slopes = self.seconds / spare[self._server]
        weights = self.delay_weights(visits)[self._server]
        # the slope of an operator on the shared resource that no tuple visits would be infinite
        amounts = np.maximum(visits * self.seconds, 1e-12 * np.maximum(weights, 1e-300))
        return np.asarray(np.where(self.is_shared, slopes * np.sqrt(weights / amounts), slopes))


@dataclass(frozen=True)
class RoutingChoice:
    """Where tuples of one plan and history go next."""

    plan: str
    done: tuple[str, ...]
    rate: float
    """Tuples per second, for a total source rate of 1."""
    weights: Mapping[str, float]
    """Of the eligible operators; they sum to 1."""


@dataclass(frozen=True)
class Histories:
    """All histories that occur, shortest first, and how tuples move from operator to operator."""

    choices: tuple[RoutingChoice, ...]
    weights: Weights
    """Among tuples that had a choice; where none had, among all."""

    @classmethod
    def of(cls, network: RoutingNetwork, flows: Flows) -> Histories:
        """Follow every path; paths that share a history are mixed."""
        shares = network.shares()
        choices: list[RoutingChoice] = []
        with_choice: dict[str, dict[str, float]] = _table()
        without_choice: dict[str, dict[str, float]] = _table()
        for name, plan in network.plans.items():
            rates: dict[int, dict[str, float]] = _table()
            origins: dict[int, dict[str, float]] = _table()
            for order, amount in flows.get(name, {}).items():
                state, at, reached = 0, plan.source, amount * shares[plan.source]
                for operator in order:
                    rates[state][operator] += reached
                    origins[state][at] += reached
                    state = dict(plan.moves(state))[operator]
                    reached *= network.operators[operator].selectivity_of(plan.source)
                    at = operator
            for state in sorted(rates, key=lambda s: len(plan.done(s))):
                total = sum(rates[state].values())
                if total <= 0:
                    continue
                weights = {operator: rate / total for operator, rate in rates[state].items()}
                choices.append(RoutingChoice(name, plan.done(state), total, weights))
                moved = with_choice if len(plan.moves(state)) > 1 else without_choice
                for at, rate in origins[state].items():
                    for operator, weight in weights.items():
                        moved[at][operator] += rate * weight
        places = (*network.rates, *network.operators)
        moves = {at: with_choice.get(at) or without_choice.get(at) for at in places}
        return cls(tuple(choices), {at: _scaled_to_1(row) for at, row in moves.items() if row})


def _table() -> defaultdict[Any, Any]:
    return defaultdict(lambda: defaultdict(float))


def _scaled_to_1(amounts: Mapping[Key, float]) -> dict[Key, float]:
    total = sum(amounts.values())
    return {key: amount / total for key, amount in amounts.items()}


def shares_of_paths(columns: list[PathColumn], amounts: Floats) -> Flows:
    flows: dict[str, dict[Path, float]] = _table()
    for column, amount in zip(columns, amounts.tolist(), strict=True):
        # smaller amounts are rounding errors of the solver
        if amount > 1e-9:
            flows[column.plan][column.order] += amount
    return {plan: _scaled_to_1(orders) for plan, orders in flows.items()}


@dataclass(frozen=True)
class Solution:
    """The flows of every plan, and how the shared resource is divided."""

    network: RoutingNetwork
    flows: Flows
    resources: Mapping[str, float]
    """Resource of every operator; for operators on a node, that of the whole node."""
    gap: float = 0.0
    """By which share the response time could at most be shorter, where a search ended before the optimum."""

    @classmethod
    def dividing_by_load(cls, network: RoutingNetwork, flows: Flows) -> Solution:
        """Divide the shared resource so that all operators on it have the same utilisation."""
        problem = Problem(network)
        work = np.where(problem.is_shared, problem.totals(flows)[0], 0.0)
        return cls._dividing(problem, flows, work / (work.sum() or 1.0))

    @classmethod
    def dividing_by_delay(cls, network: RoutingNetwork, flows: Flows, rate: float) -> Solution:
        """Divide the shared resource so that the response time at a rate is least."""
        problem = Problem(network)
        work, visits, _ = problem.totals(flows)
        used = rate * work
        roots = np.where(problem.is_shared, np.sqrt(visits * problem.seconds), 0.0)
        spare = 1.0 - used[problem.is_shared].sum()
        return cls._dividing(problem, flows, used + spare * roots / (roots.sum() or 1.0))

    @classmethod
    def _dividing(cls, problem: Problem, flows: Flows, parts: Floats) -> Solution:
        resources = problem.resources * np.where(problem.is_shared, parts, 1.0)
        return cls(problem.network, flows, dict(zip(problem.operators, resources.tolist(), strict=True)))

    @cached_property
    def _problem(self) -> Problem:
        return Problem(self.network)

    @cached_property
    def _totals(self) -> tuple[Floats, Floats, float]:
        return self._problem.totals(self.flows)

    @cached_property
    def _seconds(self) -> Floats:
        # an operator that no tuple reaches has no part of the shared resource
        resources = np.array([self.resources[name] or math.nan for name in self.network.operators])
        work = np.array([operator.per_tuple for operator in self.network.operators.values()])
        return np.asarray(work / resources)

    def utilisation(self, rate: float) -> dict[str, float]:
        """Utilisation of every operator's resource at a total source rate; of its node, if it is on one."""
        input_rates = self._totals[0] / self._problem.seconds
        own = np.nan_to_num(rate * input_rates * self._seconds).tolist()
        by_node: dict[str | None, float] = defaultdict(float)
        for operator, used in zip(self.network.operators.values(), own, strict=True):
            by_node[operator.node] += used
        return {
            name: used if operator.node is None else by_node[operator.node]
            for (name, operator), used in zip(self.network.operators.items(), own, strict=True)
        }

    @cached_property
    def mdr(self) -> float:
        """The largest total source rate at which no mean queue exceeds ``max_queue``."""
        most = max(self.utilisation(1.0).values())
        return self._problem.most_utilised / most if most > 0 else float("inf")

    def art(self, rate: float) -> float | None:
        """Mean response time of tuples that reach the sink; None if a server is overloaded."""
        utilisation = np.array(list(self.utilisation(rate).values()))
        _, visits, delivered = self._totals
        if max(utilisation) >= 1 or delivered <= 0:
            return None
        waited = np.nan_to_num(visits * self._seconds / (1 - utilisation))
        return float(waited.sum() / delivered)

    @cached_property
    def histories(self) -> Histories:
        return Histories.of(self.network, self.flows)


def evaluate(network: RoutingNetwork, weights: Weights) -> Solution:
    """The routing of given weights: at every branch, tuples divide in proportion to the weights."""
    check_weights(network, weights)
    flows = {name: _branches(plan, weights) for name, plan in network.plans.items()}
    return Solution.dividing_by_load(network, flows)


def check_weights(network: RoutingNetwork, weights: Weights) -> None:
    """Reject weights that name an unknown source or operator, and rows that sum to 0."""
    for origin, row in weights.items():
        if origin not in network.rates and origin not in network.operators:
            known = known_names([*network.rates, *network.operators])
            raise SetupError(f"weights.{origin} is not a source or operator; known: {known}")
        for to in row:
            if to not in network.operators:
                known = known_names(list(network.operators))
                raise SetupError(f"weights.{origin}.{to} is not an operator; known: {known}")
        if not sum(row.values()) > 0:
            raise SetupError(f"weights.{origin} sum to 0; at least one must be above 0")


def _branches(plan: RoutingPlan, weights: Weights) -> dict[Path, float]:
    """Share of a plan's tuples on every path, disregarding selectivities."""
    finished: dict[Path, float] = defaultdict(float)
    active: list[tuple[Path, int, float]] = [((), 0, 1.0)]
    seen = 0
    while active:
        order, state, part = active.pop()
        seen += 1
        if seen > _MOST_BRANCHES:
            raise SetupError(f"plans.{plan.name}: the given weights lead to over {_MOST_BRANCHES} branches")
        moves = plan.moves(state)
        if not moves:
            finished[order] += part
            continue
        at = order[-1] if order else plan.source
        row = weights.get(at, {})
        # a single eligible operator needs no weight
        total = sum(row.get(operator, 0.0) for operator, _ in moves)
        if total <= 0 and len(moves) > 1:
            ready = ", ".join(operator for operator, _ in moves)
            done = ", ".join(order) or "nothing"
            raise SetupError(
                f"weights.{at} sum to 0 over {ready}, for which plans.{plan.name} is ready after {done}"
            )
        for operator, after in moves:
            share = 1.0 if total <= 0 else row.get(operator, 0.0) / total
            if part * share > _RAREST:
                active.append(((*order, operator), after, part * share))
    return dict(finished)
