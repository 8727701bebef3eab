"""Strategies of static priority: the network cut into units, and the unit of highest priority goes first."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn

# priorities that differ by less are equal but for rounding
_EQUAL = 1e-9


@dataclass(frozen=True)
class Unit:
    """Consecutive operators, leaf first, that are served together.

    A turn carries its tuples up to the end of the unit. What an interrupted turn has left inside of the
    unit goes first, so that no more tuples lie in mid-unit than processors work.
    """

    operators: tuple[str, ...]
    priority: float
    tuples_per_round: float = math.inf
    """The most that one turn takes: the unit's processing capacity, for strategies that serve in rounds."""


@dataclass(frozen=True)
class Place:
    """Where an operator stands: the ready one of least ``(level, -position - begun, oldest)`` is next."""

    level: int
    """Units of one priority share a level; level 0 goes first."""
    position: int
    """How far into its unit: 0 for the head."""
    route: tuple[str, ...]
    """The operator and those after it, to the end of the unit."""
    tuples_per_round: float


class UnitStrategy(ABC):
    """Serves the ready unit of highest priority; ties: first what lies in mid-unit, then the oldest tuple.

    After ``prepare``, ``units`` and ``places`` tell all that ``choose`` does.
    """

    name: str
    units: tuple[Unit, ...] = ()
    places: Mapping[str, Place] = {}

    @abstractmethod
    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """The units of the network; an operator may be in several, its highest counts."""

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Cut the network anew and sort the units, highest priority first."""
        units = self.cut(network, profiles)
        self.units = tuple(sorted(units, key=lambda unit: (-unit.priority, unit.operators)))
        self.places = places_in(self.units)

    def choose(self, view: SystemView) -> Turn | None:
        """What the best ready queue holds, to the end of its unit."""
        return turn_by_place(self.places, view.ready())


def turn_by_place(places: Mapping[str, Place], ready: Iterable[QueueView]) -> Turn | None:
    """The turn of the best placed among the ready queues."""
    best: tuple[int, int, float] | None = None
    chosen: QueueView | None = None
    for queue in ready:
        place = places[queue.operator]
        rank = (place.level, -place.position - queue.begun, queue.oldest_s)
        if best is None or rank < best:
            best, chosen = rank, queue
    if chosen is None:
        return None
    place = places[chosen.operator]
    return Turn(place.route, min(chosen.ready, place.tuples_per_round))


def places_in(units: Iterable[Unit]) -> dict[str, Place]:
    """Every operator's place in its unit of highest priority; ``units`` come highest first."""
    places: dict[str, Place] = {}
    for level, peers in enumerate(_levels(units)):
        for unit in peers:
            for position, operator in enumerate(unit.operators):
                if operator not in places:
                    route = unit.operators[position:]
                    places[operator] = Place(level, position, route, unit.tuples_per_round)
    return places


def _levels(units: Iterable[Unit]) -> list[list[Unit]]:
    levels: list[list[Unit]] = []
    for unit in units:
        if not levels or not _equal(levels[-1][0].priority, unit.priority):
            levels.append([])
        levels[-1].append(unit)
    return levels


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_EQUAL)
