"""MDR: the largest total source rate before some queue passes its limit, and the routing that sustains it.

A linear program over path flows. Paths are generated as they are needed: given the prices of the servers'
time, the cheapest order of commuting operators is a sort, so six orders or 12! are the same to it.
"""

from __future__ import annotations

import numpy as np

from headgate.errors import InternalError
from headgate.routing.columns import Column, Floats, Problem, order_flows
from headgate.routing.network import RoutingNetwork
from headgate.routing.solution import Solution

_ROUNDS = 1000
_TOLERANCE = 1e-9


def largest_rate(network: RoutingNetwork) -> Solution:
    """The routing with the largest rate."""
    problem = Problem(network)
    columns, amounts = largest_flow(problem)
    return Solution.dividing_by_load(network, order_flows(columns, amounts))


def largest_flow(problem: Problem) -> tuple[list[Column], Floats]:
    """Paths, and the part of all tuples that takes each, at the largest rate."""
    columns = problem.first_columns()
    for _ in range(_ROUNDS):
        rate, amounts, prices, values = _master(problem, columns)
        entering = []
        for number, plan in enumerate(problem.plans):
            column = problem.cheapest(plan, prices)
            if column.utilisation @ prices < values[number] * (1 - _TOLERANCE) - _TOLERANCE * prices.max():
                entering.append(column)
        if not entering:
            return columns, amounts / rate
        columns += entering
    raise InternalError(f"no largest rate found in {_ROUNDS} rounds")


def _master(problem: Problem, columns: list[Column]) -> tuple[float, Floats, Floats, Floats]:
    """The best rate on the given paths, its flows, prices of servers, and the worth of a plan's tuples."""
    # takes a third of a second to import
    from scipy.optimize import linprog

    # in units of the least capacity: rates may be of any size
    unit = 1.0 / max(float(np.max(column.utilisation)) for column in columns)
    plans, servers = len(problem.plans), len(problem.servers)
    used = np.column_stack([column.utilisation for column in columns]) * unit
    belongs = np.zeros((plans, len(columns) + 1))
    for number, column in enumerate(columns):
        belongs[problem.plans.index(column.plan), number] = 1.0
    belongs[:, -1] = -1.0
    found = linprog(
        c=np.append(np.zeros(len(columns)), -1.0),
        A_ub=np.hstack([used, np.zeros((servers, 1))]),
        b_ub=np.full(servers, problem.most_utilised),
        A_eq=belongs,
        b_eq=np.zeros(plans),
        method="highs",
    )
    if found.status != 0:
        raise InternalError(f"the largest rate cannot be computed: {found.message}")
    prices: Floats = -np.asarray(found.ineqlin.marginals)
    values: Floats = -np.asarray(found.eqlin.marginals) / unit
    return float(found.x[-1]), found.x[:-1], prices, np.abs(values)
