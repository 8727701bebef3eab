"""Mixed: chain where it pays, first in first out where it does not."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling.chart import ProgressChart, Segment
from headgate.scheduling.units import Unit, UnitStrategy


class Mixed(UnitStrategy):
    """Chain over envelopes whose flat end is one segment.

    All segments of a path that free less than ``least_slope``, relative to the path's steepest, are merged.
    0 is chain; above 1 every path is one segment.
    """

    name = "mixed"

    def __init__(self, least_slope: float = 0.5) -> None:
        self._least_slope = least_slope

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """The steep segments, and one for the rest."""
        for path in network.paths():
            chart = ProgressChart.of_path(path, profiles)
            for segment in merged(chart, self._least_slope * chart.segments[0].slope):
                operators = path[segment.first : segment.last]
                yield Unit(operators, segment.slope * profiles[path[0]].bytes_per_tuple)


def merged(chart: ProgressChart, least_slope: float) -> tuple[Segment, ...]:
    """The envelope's segments, those flatter than ``least_slope`` as one."""
    steep = tuple(segment for segment in chart.segments if segment.slope >= least_slope)
    end = len(chart.points) - 1
    begin = steep[-1].last if steep else 0
    # slopes never rise along the envelope, so the flat ones are its end
    return (*steep, Segment(begin, end, chart.slope(begin, end))) if begin < end else steep
