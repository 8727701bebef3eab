"""Strategies by name."""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import SetupError, known_names
from headgate.scheduling.chain import Chain
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.greedy import Greedy
from headgate.scheduling.mixed import Mixed
from headgate.scheduling.path_capacity import PathCapacity
from headgate.scheduling.round_robin import RoundRobin
from headgate.scheduling.segment import SegmentStrategy
from headgate.scheduling.simplified_segment import SimplifiedSegment
from headgate.scheduling.strategy import Strategy

_CLASSES: tuple[Callable[[], Strategy], ...] = (
    Fifo,
    RoundRobin,
    Greedy,
    Chain,
    Mixed,
    PathCapacity,
    SegmentStrategy,
    SimplifiedSegment,
)
_STRATEGIES: dict[str, Callable[[], Strategy]] = {strategy().name: strategy for strategy in _CLASSES}


def strategy_names() -> tuple[str, ...]:
    """All strategies there are."""
    return tuple(_STRATEGIES)


def strategy_named(name: str) -> Strategy:
    """A new strategy of that name."""
    if name not in _STRATEGIES:
        raise SetupError(f"unknown strategy {name}; known: {known_names(strategy_names())}")
    return _STRATEGIES[name]()
