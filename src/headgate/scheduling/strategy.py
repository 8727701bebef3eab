"""The strategy protocol, and strategies of static priority, which cut the network into units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn

# priorities that differ by less are equal but for rounding
_EQUAL = 1e-9


class Strategy(Protocol):
    """Decides which tuples move next. It performs no I/O and has no clock or randomness of its own.

    ``choose`` sees the whole system each time, so priorities may be static, dynamic or by deadline.
    """

    name: str

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Learn the network; called again whenever profiles change."""

    def choose(self, view: SystemView) -> Turn | None:
        """The next turn, or None when nothing is ready."""


@dataclass(frozen=True)
class Unit:
    """Consecutive operators, leaf first, that are served together.

    A turn carries its tuples to the end of the unit. Tuples that an interrupted turn left inside the unit go
    first, so at most as many tuples lie in mid-unit as there are processors.
    """

    operators: tuple[str, ...]
    priority: float
    tuples_per_round: float = math.inf
    """The most that one turn takes: the unit's processing capacity, for strategies that serve in rounds."""


@dataclass(frozen=True)
class Position:
    """An operator's position in the order of service: least ``(level, -depth - begun, oldest)`` first."""

    level: int
    """Units of equal priority share a level; level 0 goes first."""
    depth: int
    """Operators before it in its unit."""
    route: tuple[str, ...]
    """The operator and those after it, to the end of the unit."""
    tuples_per_round: float


class UnitStrategy(ABC):
    """Serves the ready unit of highest priority; ties go to tuples in mid-unit, then to the oldest tuple.

    After ``prepare``, ``units`` and ``positions`` describe completely how ``choose`` decides.
    """

    name: str
    units: tuple[Unit, ...] = ()
    positions: Mapping[str, Position] = {}

    @abstractmethod
    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """The units of the network; if an operator is in several, that of highest priority counts."""

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Cut the network and sort the units, highest priority first."""
        units = sorted(self.cut(network, profiles), key=lambda unit: (-unit.priority, unit.operators))
        self.units = tuple(units)
        positions: dict[str, Position] = {}
        level, priority = -1, math.nan
        for unit in units:
            if not math.isclose(priority, unit.priority, rel_tol=_EQUAL):
                level, priority = level + 1, unit.priority
            for depth, operator in enumerate(unit.operators):
                position = Position(level, depth, unit.operators[depth:], unit.tuples_per_round)
                positions.setdefault(operator, position)
        self.positions = positions

    def choose(self, view: SystemView) -> Turn | None:
        """The best ready queue, to the end of its unit."""
        return turn_by_position(self.positions, view.ready())


def turn_by_position(positions: Mapping[str, Position], ready: Iterable[QueueView]) -> Turn | None:
    """The turn of the ready queue with the best position."""

    def rank(queue: QueueView) -> tuple[int, int, float]:
        position = positions[queue.operator]
        return position.level, -position.depth - queue.begun, queue.oldest_s

    chosen = min(ready, key=rank, default=None)
    if chosen is None:
        return None
    position = positions[chosen.operator]
    return Turn(position.route, min(chosen.ready, position.tuples_per_round))
