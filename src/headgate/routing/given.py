"""Weights that somebody gives: the rates and figures they lead to, branch by branch."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.errors import SetupError, known_names
from headgate.routing.network import RoutingNetwork, RoutingPlan
from headgate.routing.solution import Solution

Weights = Mapping[str, Mapping[str, float]]

# what is rarer than this among a plan's tuples changes no figure
_RAREST = 1e-12
_MOST_BRANCHES = 1_000_000


def evaluate(network: RoutingNetwork, weights: Weights) -> Solution:
    """Walk all branches: tuples go on in proportion to the weights of what is left to visit."""
    check_weights(network, weights)
    flows = {name: _branches(plan, weights) for name, plan in network.plans.items()}
    return Solution.dividing_by_load(network, flows)


def check_weights(network: RoutingNetwork, weights: Weights) -> None:
    """Refuse weights from or to something unknown, and those that lead nowhere."""
    for origin, row in weights.items():
        if origin not in network.rates and origin not in network.operators:
            known = known_names([*network.rates, *network.operators])
            raise SetupError(f"weights.{origin} is no source or operator; known: {known}")
        for to in row:
            if to not in network.operators:
                known = known_names(list(network.operators))
                raise SetupError(f"weights.{origin}.{to} is no operator; known: {known}")
        if not sum(row.values()) > 0:
            raise SetupError(f"weights.{origin} sum to 0; at least one must be above 0")


def _branches(plan: RoutingPlan, weights: Weights) -> dict[tuple[str, ...], float]:
    """The part of a plan's tuples on every path, selectivities aside."""
    finished: dict[tuple[str, ...], float] = {}
    active: list[tuple[tuple[str, ...], int, float]] = [((), 0, 1.0)]
    seen = 0
    while active:
        order, state, part = active.pop()
        seen += 1
        if seen > _MOST_BRANCHES:
            raise SetupError(f"plans.{plan.name}: the given weights lead to over {_MOST_BRANCHES} branches")
        moves = plan.moves(state)
        if not moves:
            finished[order] = finished.get(order, 0.0) + part
            continue
        at = order[-1] if order else plan.source
        row = weights.get(at, {})
        # where only one operator is left, no weight is needed
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
    return finished
