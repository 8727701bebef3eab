"""Path capacity: the path that gets the most tuples out."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling.capacity import processing_per_s
from headgate.scheduling.units import Unit, UnitStrategy


class PathCapacity(UnitStrategy):
    """Whole paths, by the tuples they process a second: the least total latency.

    A turn takes what a path processes in ``round_s``.
    """

    name = "path-capacity"

    def __init__(self, round_s: float = 1.0) -> None:
        self._round_s = round_s

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """One unit a path."""
        for path in network.paths():
            capacity = processing_per_s(path, profiles)
            yield Unit(path, capacity, max(1.0, capacity * self._round_s))
