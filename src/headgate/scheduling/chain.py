"""Chain: the steepest segment of the lower envelope."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling.chart import ProgressChart
from headgate.scheduling.units import Unit, UnitStrategy


class Chain(UnitStrategy):
    """Segments of every path's lower envelope, by their slope: the least memory on envelope charts."""

    name = "chain"

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """One unit a segment; slopes in bytes, so that paths of different widths compare."""
        for path in network.paths():
            for segment in ProgressChart.of_path(path, profiles).segments:
                operators = path[segment.first : segment.last]
                yield Unit(operators, segment.slope * profiles[path[0]].bytes_per_tuple)
