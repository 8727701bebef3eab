"""Optimal routing: the largest sustainable rate (MDR) and the least mean response time (ART).

Both optimise flows over paths. Paths are generated on demand: given prices for the time of the servers, the
cheapest order of commuting operators is a sort, so six orders or 12! make no difference.

MDR is a linear program. In ART every server contributes a weight over 1 minus its utilisation; the sum is
convex in the flows if delivered tuples have visited the same operators on all paths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from headgate.errors import InternalError, SetupError
from headgate.routing.routing_network import RoutingNetwork
from headgate.routing.solution import Floats, PathColumn, Problem, Solution, shares_of_paths

_MDR_ROUNDS = 1000
_MDR_TOLERANCE = 1e-9
_ART_ROUNDS = 200
_ART_GAP = 1e-5
_RANDOM_STARTS = 20
# a step of the general solver takes some microseconds for every pair of paths; beyond this many, in one
# problem or in all steps together, flows are improved in a cheaper way, and not to the optimum
_MOST_PAIRS = 50_000
_MOST_EFFORT = 2_000_000
_ROUGH_ROUNDS = 30
_SHIFTS = 1000
_HALVINGS = 12
# solvers of smooth problems need some distance from the pole
_MOST_UTILISED = 1 - 1e-9


def largest_rate(network: RoutingNetwork) -> Solution:
    """The routing with the largest sustainable source rate."""
    columns, amounts = _largest_flow(Problem(network))
    return Solution.dividing_by_load(network, shares_of_paths(columns, amounts))


def _largest_flow(problem: Problem) -> tuple[list[PathColumn], Floats]:
    """Paths, and the share of a plan's tuples on each, at the largest rate."""
    columns = problem.first_columns()
    for _ in range(_MDR_ROUNDS):
        rate, amounts, prices, values = _largest_flow_on(problem, columns)
        entering = []
        for number, plan in enumerate(problem.plans):
            column = problem.cheapest(plan, prices)
            margin = _MDR_TOLERANCE * prices.max()
            is_cheaper = column.utilisation @ prices < values[number] * (1 - _MDR_TOLERANCE) - margin
            # one that is known already seems cheaper by the tolerance of the solver alone
            if is_cheaper and all(known.order != column.order for known in columns if known.plan == plan):
                entering.append(column)
        if not entering:
            return columns, amounts / rate
        columns += entering
    raise InternalError(f"no largest rate found in {_MDR_ROUNDS} rounds")


def _largest_flow_on(problem: Problem, columns: list[PathColumn]) -> tuple[float, Floats, Floats, Floats]:
    """The largest rate on the given paths, with flows and dual values: of servers, and of a plan's tuples."""
    # takes a third of a second to import
    from scipy.optimize import linprog

    # solvers take very small coefficients for zeros: flows are in units of what the best path of the slowest
    # plan sustains, and those of a worse path in units of what that path sustains
    unit = 1.0 / max(min(_busiest(c) for c in columns if c.plan == plan) for plan in problem.plans)
    restricted = _Restricted(problem, unit, columns)
    scales = np.maximum(1.0, restricted.used.max(axis=0))
    plans, servers = len(problem.plans), len(problem.servers)
    found = linprog(
        c=np.append(np.zeros(len(columns)), -1.0),
        A_ub=np.hstack([restricted.used / scales, np.zeros((servers, 1))]),
        b_ub=np.full(servers, problem.most_utilised),
        A_eq=np.hstack([restricted.belongs / scales, -np.ones((plans, 1))]),
        b_eq=np.zeros(plans),
        method="highs",
    )
    if found.status != 0:
        raise InternalError(f"the largest rate cannot be computed: {found.message}")
    prices: Floats = -np.asarray(found.ineqlin.marginals)
    values: Floats = -np.asarray(found.eqlin.marginals) / unit
    return float(found.x[-1]), found.x[:-1] / scales, prices, np.abs(values)


def _busiest(column: PathColumn) -> float:
    return float(np.max(column.utilisation))


def least_response_time(network: RoutingNetwork, rate: float) -> Solution:
    """The routing of least mean response time at a total source rate."""
    problem = Problem(network)
    columns, amounts = _largest_flow(problem)
    used = float(np.max(_Restricted(problem, rate, columns).utilisation(amounts)))
    if used >= _MOST_UTILISED:
        most = rate / used
        raise SetupError(f"no routing sustains {rate:g} tuples per second; the largest rate is {most:.6g}")
    if not any(column.delivered > 0 for column in columns):
        raise SetupError("no tuple reaches the sink, so there is no response time; raise selectivities of 0")
    descent = _Descent(problem, rate)
    best = descent.from_flows(columns, amounts)
    for start in _other_starts(problem, rate, columns, amounts):
        if descent.effort < _MOST_EFFORT:
            best = min(best, descent.from_flows(columns, start), key=lambda flows: flows.value)
    flows = shares_of_paths(best.columns, best.amounts)
    return replace(Solution.dividing_by_delay(network, flows, rate), gap=best.gap)


def _other_starts(problem: Problem, rate: float, columns: list[PathColumn], amounts: Floats) -> list[Floats]:
    """More starting points, each near another local optimum; none if the problem is convex."""
    if problem.has_fixed_visits:
        return []
    restricted = _Restricted(problem, rate, columns)
    # a fixed seed, since a routing is a function of its network
    generator = np.random.default_rng(0)
    mixed = generator.exponential(size=(_RANDOM_STARTS, len(columns))) ** 3
    single = np.eye(len(columns)) + restricted.belongs.T @ restricted.belongs * 1e-3
    other_plans = 1 - restricted.belongs.T @ restricted.belongs
    found = []
    for start in (*(single + other_plans * amounts), *mixed):
        feasible = _feasible(start, restricted.belongs)
        if np.max(restricted.utilisation(feasible)) < _MOST_UTILISED:
            found.append(feasible)
    return found


class _Restricted:
    """Mean response time as a function of the flows on some paths, and its gradient."""

    def __init__(self, problem: Problem, rate: float, columns: list[PathColumn]) -> None:
        self.problem = problem
        self.columns = columns
        self.used = rate * np.column_stack([column.utilisation for column in columns])
        self.visits = np.column_stack([column.visits for column in columns])
        self.delivered = np.array([column.delivered for column in columns])
        self.belongs = np.array([[float(c.plan == plan) for c in columns] for plan in problem.plans])
        self._even = (self.belongs / self.belongs.sum(axis=1, keepdims=True)).sum(axis=0)

    def utilisation(self, amounts: Floats) -> Floats:
        return np.asarray(self.used @ amounts)

    def weights(self, amounts: Floats) -> Floats:
        """Weight of every server; independent of the flows if every path visits the same operators."""
        if self.problem.has_fixed_visits:
            amounts = self._even
        weights = self.problem.delay_weights(self.visits @ amounts)
        return np.asarray(weights / max(float(self.delivered @ amounts), 1e-300))

    def value(self, amounts: Floats) -> float:
        spare = 1 - self.utilisation(amounts)
        return float(np.sum(self.weights(amounts) / spare)) if np.all(spare > 0) else float("inf")

    def server_slopes(self, amounts: Floats) -> Floats:
        """Derivative by the utilisation of each server, at constant visits."""
        spare = 1 - self.utilisation(amounts)
        return np.asarray(self.weights(amounts) / spare**2)

    def slopes(self, amounts: Floats) -> Floats:
        """Derivative by the flow on each path."""
        slopes = self.server_slopes(amounts) @ self.used
        if self.problem.has_fixed_visits:
            return np.asarray(slopes)
        delivered = max(float(self.delivered @ amounts), 1e-300)
        spare = 1 - self.utilisation(amounts)
        per_visit = self.problem.visit_slopes(self.visits @ amounts, spare)
        more_visits = (per_visit @ self.visits - self.value(amounts) * self.delivered) / delivered
        return np.asarray(slopes + more_visits)


class _Flows(NamedTuple):
    columns: list[PathColumn]
    amounts: Floats
    value: float
    gap: float


class _Descent:
    """Improves flows, and generates paths that improve them further."""

    def __init__(self, problem: Problem, rate: float) -> None:
        self._problem = problem
        self._rate = rate
        self.effort = 0
        """Pairs of paths in all steps of the general solver so far."""

    def from_flows(self, columns: list[PathColumn], amounts: Floats) -> _Flows:
        rough = 0
        for _ in range(_ART_ROUNDS):
            restricted = _Restricted(self._problem, self._rate, columns)
            if len(columns) ** 2 > _MOST_PAIRS or self.effort > _MOST_EFFORT:
                amounts, rough = _shifted(restricted, amounts), rough + 1
            else:
                amounts, effort = _least_delay_on(restricted, amounts)
                self.effort += effort
            entering, gap = _entering(restricted, self._rate, amounts)
            if not entering or rough == _ROUGH_ROUNDS:
                break
            # listed paths all stay; generated ones stay while they are used
            kept = np.flatnonzero((amounts > 1e-9) | (not self._problem.has_fixed_visits))
            columns = [columns[number] for number in kept] + entering
            amounts = np.append(amounts[kept], np.zeros(len(entering)))
        return _Flows(columns, amounts, restricted.value(amounts), gap)


def _entering(restricted: _Restricted, rate: float, amounts: Floats) -> tuple[list[PathColumn], float]:
    """New paths that together would reduce the response time by more than the tolerance; by how much."""
    problem, columns = restricted.problem, restricted.columns
    by_server = restricted.server_slopes(amounts)
    paid = restricted.belongs @ (amounts * (by_server @ restricted.used))
    cheapest = [problem.cheapest(plan, by_server) for plan in problem.plans]
    gains = [paid[number] - rate * column.utilisation @ by_server for number, column in enumerate(cheapest)]
    gap = float(sum(gains)) / (restricted.value(amounts) or 1.0)
    if gap <= _ART_GAP:
        return [], 0.0
    known = {(column.plan, column.order) for column in columns}
    better = [c for c, gain in zip(cheapest, gains, strict=True) if gain > 0]
    return [c for c in better if (c.plan, c.order) not in known], min(gap, 1.0)


def _least_delay_on(restricted: _Restricted, start: Floats) -> tuple[Floats, int]:
    """The best flows on the given paths, a small smooth problem with linear constraints; and the effort."""
    scale = restricted.value(start)
    if scale == 0:
        # work too small for a number: no flows are faster
        return start, 0
    # takes a third of a second to import
    from scipy.optimize import minimize

    used, belongs = restricted.used, restricted.belongs
    found = minimize(
        lambda x: min(restricted.value(x) / scale, 1e30),
        start,
        jac=lambda x: restricted.slopes(x) / scale,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints=[
            {"type": "eq", "fun": lambda x: belongs @ x - 1, "jac": lambda x: belongs},
            {"type": "ineq", "fun": lambda x: _MOST_UTILISED - used @ x, "jac": lambda x: -used},
        ],
        options={"maxiter": 200, "ftol": 1e-10},
    )
    moved = _feasible(np.asarray(found.x), belongs)
    effort = int(found.nit) * len(start) ** 2
    return (moved if restricted.value(moved) < restricted.value(start) else start), effort


def _shifted(restricted: _Restricted, amounts: Floats) -> Floats:
    """Better flows on many paths: each plan in turn moves tuples to its cheapest path, by Newton's steps."""
    used, value, amounts = restricted.used, restricted.value(amounts), amounts.copy()
    for _ in range(1 + _SHIFTS // len(restricted.belongs)):
        before = value
        for paths in map(np.flatnonzero, restricted.belongs):
            slopes = restricted.slopes(amounts)[paths]
            best = int(slopes.argmin())
            steep = 2 * restricted.weights(amounts) / (1 - restricted.utilisation(amounts)) ** 3
            bends = steep @ (used[:, paths] - used[:, paths[best], None]) ** 2
            step = np.zeros(len(amounts))
            step[paths] = -np.minimum(amounts[paths], (slopes - slopes[best]) / np.maximum(bends, 1e-300))
            step[paths[best]] = -step[paths].sum()
            # the steps of several paths together may go too far
            for length in 0.5 ** np.arange(_HALVINGS):
                if (moved := restricted.value(amounts + length * step)) < value:
                    amounts, value = amounts + length * step, moved
                    break
        if before - value <= _ART_GAP / 10 * value:
            break
    return _feasible(amounts, restricted.belongs)


def _feasible(amounts: Floats, belongs: Floats) -> Floats:
    """The flows scaled so that none is negative and those of every plan sum to exactly 1."""
    clipped = np.maximum(amounts, 0.0)
    return np.asarray(clipped / (belongs.T @ (belongs @ clipped)))
