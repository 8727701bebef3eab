"""Strategies that the compiled loop can follow: those which ask for nothing but a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling import Strategy
from headgate.scheduling.fifo import Fifo
from headgate.scheduling.units import UnitStrategy


@dataclass(frozen=True)
class StaticPriority:
    """The ready operator of least ``(level, position)`` is next; then the oldest head, then as in ``scan``.

    ``begun_first``: interrupted work goes before other work of its position.
    """

    scan: tuple[str, ...]
    levels: tuple[int, ...]
    positions: tuple[int, ...]
    begun_first: bool


def static_priority(strategy: Strategy, network: Network, profiles: Profiles) -> StaticPriority | None:
    """The order in which a strategy serves; None if that depends on more."""
    names = tuple(network.operators)
    # a subclass may choose in another way
    if type(strategy) is Fifo:
        scan = sorted(names, key=lambda name: (len(network.path_from(name)), name))
        return StaticPriority(tuple(scan), (0,) * len(names), (0,) * len(names), begun_first=False)
    if isinstance(strategy, UnitStrategy) and type(strategy).choose is UnitStrategy.choose:
        strategy.prepare(network, profiles)
        places = strategy.places
        scan = sorted(names, key=lambda name: places[name].level)
        return StaticPriority(
            tuple(scan),
            tuple(places[name].level for name in names),
            tuple(-places[name].position for name in names),
            begun_first=True,
        )
    return None
