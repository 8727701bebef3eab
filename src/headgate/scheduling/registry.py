"""Strategies by name."""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import SetupError, known_names
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.round_robin import RoundRobin
from headgate.scheduling.strategy import Strategy

_STRATEGIES: dict[str, Callable[[], Strategy]] = {
    Fifo.name: Fifo,
    RoundRobin.name: RoundRobin,
}


def strategy_names() -> tuple[str, ...]:
    """All strategies there are."""
    return tuple(_STRATEGIES)


def strategy_named(name: str) -> Strategy:
    """A new strategy of that name."""
    if name not in _STRATEGIES:
        raise SetupError(f"unknown strategy {name}; known: {known_names(strategy_names())}")
    return _STRATEGIES[name]()
