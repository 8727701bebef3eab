"""Routers by name."""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import SetupError, known_names
from headgate.routing.optimal import Optimal
from headgate.routing.q import ShortestQueue
from headgate.routing.router import Router
from headgate.routing.sc import SelectivityCost
from headgate.routing.scq import SelectivityCostQueue
from headgate.routing.t import Tickets
from headgate.routing.wsc import WeightedSelectivityCost
from headgate.routing.wscq import WeightedSelectivityCostQueue

_ROUTERS: dict[str, Callable[[], Router]] = {
    "t": Tickets,
    "q": ShortestQueue,
    "sc": SelectivityCost,
    "wsc": WeightedSelectivityCost,
    "scq": SelectivityCostQueue,
    "wscq": WeightedSelectivityCostQueue,
    "optimal": Optimal,
}


def router_names() -> tuple[str, ...]:
    """All routers there are."""
    return tuple(_ROUTERS)


def router_named(name: str) -> Router:
    """A new router."""
    if name not in _ROUTERS:
        raise SetupError(f"unknown policy {name}; known: {known_names(router_names())}")
    return _ROUTERS[name]()
