"""ART: the routing of least mean response time at a given rate.

Every server adds a weight over 1 less its utilisation, which is convex in the flows where delivered tuples
have visited the same operators on all paths. Paths are generated as for MDR: the cheapest order at the slope
of the objective enters.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from headgate.errors import SetupError
from headgate.routing.columns import Column, Floats, Problem, order_flows
from headgate.routing.mdr import largest_flow
from headgate.routing.network import RoutingNetwork
from headgate.routing.solution import Solution

_ROUNDS = 200
_MIXES = 20
_GAP = 1e-5
# solvers of smooth problems need some room before the pole
_CLOSEST = 1 - 1e-9


def least_response_time(network: RoutingNetwork, rate: float) -> Solution:
    """The routing of least response time at a total source rate."""
    problem = Problem(network)
    columns, amounts = largest_flow(problem)
    used = float(np.max(_Restricted(problem, rate, columns).utilisation(amounts)))
    if used >= _CLOSEST:
        most = rate / used
        raise SetupError(f"no routing keeps up with {rate:g} tuples a second; the largest rate is {most:.6g}")
    if not any(column.delivered > 0 for column in columns):
        raise SetupError("no tuple reaches the sink, so none has a response time; raise selectivities of 0")
    found = [_descend(problem, rate, columns, start) for start in _starts(problem, rate, columns, amounts)]
    columns, amounts = min(found, key=lambda pair: _Restricted(problem, rate, pair[0]).value(pair[1]))
    return Solution.dividing_by_delay(network, order_flows(columns, amounts), rate)


def _starts(problem: Problem, rate: float, columns: list[Column], amounts: Floats) -> list[Floats]:
    """Where to begin: one place if the problem is convex, else many, each with an optimum nearby."""
    if problem.has_fixed_visits:
        return [amounts]
    restricted = _Restricted(problem, rate, columns)
    # always the same numbers: a routing is a function of its network
    generator = np.random.default_rng(0)
    mixed = generator.exponential(size=(_MIXES, len(columns))) ** 3
    single = np.eye(len(columns)) + restricted.belongs.T @ restricted.belongs * 1e-3
    other_plans = 1 - restricted.belongs.T @ restricted.belongs
    found = [amounts]
    for start in (*(single + other_plans * amounts), *mixed):
        feasible = _feasible(start, restricted.belongs)
        if np.max(restricted.utilisation(feasible)) < _CLOSEST:
            found.append(feasible)
    return found


class _Restricted:
    """Mean response time over the flows of some paths, and its slope."""

    def __init__(self, problem: Problem, rate: float, columns: list[Column]) -> None:
        self.problem = problem
        self.columns = columns
        self.used = rate * np.column_stack([column.utilisation for column in columns])
        self.visits = np.column_stack([column.visits for column in columns])
        self.delivered = np.array([column.delivered for column in columns])
        self.belongs = np.array([[float(c.plan == plan) for c in columns] for plan in problem.plans])

    def utilisation(self, amounts: Floats) -> Floats:
        return np.asarray(self.used @ amounts)

    def weights(self, amounts: Floats) -> Floats:
        """By server; the same for all flows where every path visits the same operators."""
        if self.problem.has_fixed_visits:
            return self._fixed_weights
        return self._weights(amounts)

    @cached_property
    def _fixed_weights(self) -> Floats:
        return self._weights((self.belongs / self.belongs.sum(axis=1, keepdims=True)).sum(axis=0))

    def _weights(self, amounts: Floats) -> Floats:
        weights = self.problem.delay_weights(self.visits @ amounts)
        return np.asarray(weights / max(float(self.delivered @ amounts), 1e-300))

    def value(self, amounts: Floats) -> float:
        spare = 1 - self.utilisation(amounts)
        return float(np.sum(self.weights(amounts) / spare)) if np.all(spare > 0) else float("inf")

    def server_slopes(self, amounts: Floats) -> Floats:
        """By how much a little more utilisation of each server adds, visits being equal."""
        spare = 1 - self.utilisation(amounts)
        return np.asarray(self.weights(amounts) / spare**2)

    def slopes(self, amounts: Floats) -> Floats:
        """By how much a little more flow on each path adds."""
        slopes = self.server_slopes(amounts) @ self.used
        if self.problem.has_fixed_visits:
            return np.asarray(slopes)
        delivered = max(float(self.delivered @ amounts), 1e-300)
        spare = 1 - self.utilisation(amounts)
        per_visit = self.problem.visit_slopes(self.visits @ amounts, spare)
        more_visits = (per_visit @ self.visits - self.value(amounts) * self.delivered) / delivered
        return np.asarray(slopes + more_visits)


def _descend(
    problem: Problem, rate: float, columns: list[Column], amounts: Floats
) -> tuple[list[Column], Floats]:
    for _ in range(_ROUNDS):
        restricted = _Restricted(problem, rate, columns)
        amounts = _master(restricted, amounts)
        entering = _entering(restricted, rate, amounts)
        if not entering:
            break
        # all paths of a list stay; of generated ones, those that are used
        kept = np.flatnonzero((amounts > 1e-9) | (not problem.has_fixed_visits))
        columns = [columns[number] for number in kept] + entering
        amounts = np.append(amounts[kept], np.zeros(len(entering)))
    return columns, amounts


def _entering(restricted: _Restricted, rate: float, amounts: Floats) -> list[Column]:
    """New paths that promise more than a sliver of the response time."""
    problem, columns = restricted.problem, restricted.columns
    by_server = restricted.server_slopes(amounts)
    paid = restricted.belongs @ (amounts * (by_server @ restricted.used))
    cheapest = [problem.cheapest(plan, by_server) for plan in problem.plans]
    gains = [paid[number] - rate * column.utilisation @ by_server for number, column in enumerate(cheapest)]
    if sum(gains) <= _GAP * restricted.value(amounts):
        return []
    known = {(column.plan, column.order) for column in columns}
    return [c for c, gain in zip(cheapest, gains, strict=True) if gain > 0 and (c.plan, c.order) not in known]


def _master(restricted: _Restricted, start: Floats) -> Floats:
    """The best flows on the given paths: a few variables, smooth, under linear constraints."""
    # takes a third of a second to import
    from scipy.optimize import minimize

    used, belongs = restricted.used, restricted.belongs
    scale = restricted.value(start)
    found = minimize(
        lambda x: min(restricted.value(x) / scale, 1e30),
        start,
        jac=lambda x: restricted.slopes(x) / scale,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints=[
            {"type": "eq", "fun": lambda x: belongs @ x - 1, "jac": lambda x: belongs},
            {"type": "ineq", "fun": lambda x: _CLOSEST - used @ x, "jac": lambda x: -used},
        ],
        options={"maxiter": 200, "ftol": 1e-10},
    )
    moved = _feasible(np.asarray(found.x), belongs)
    return moved if restricted.value(moved) < restricted.value(start) else start


def _feasible(amounts: Floats, belongs: Floats) -> Floats:
    """Every plan's flows sum to 1 and none is negative, to the last digit."""
    clipped = np.maximum(amounts, 0.0)
    return np.asarray(clipped / (belongs.T @ (belongs @ clipped)))
