"""Chain: progress charts, their lower envelopes, and the strategies that follow them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.formats.html import html_drawing, plural
from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles
from headgate.scheduling.strategy import Unit, UnitStrategy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# slopes that differ by less are equal but for rounding
_EQUAL = 1e-12


@dataclass(frozen=True)
class Point:
    """After ``seconds`` of processing, ``size`` is left of a tuple that came with size 1."""

    seconds: float
    size: float


@dataclass(frozen=True)
class Segment:
    """A segment of the lower envelope, over the operators ``[first, last)``; ``slope`` is size per second."""

    first: int
    last: int
    slope: float


@dataclass(frozen=True)
class ProgressChart:
    """The points of a path: one before its operators, and one after each of them."""

    points: tuple[Point, ...]

    @staticmethod
    def of(path: Sequence[Profile]) -> ProgressChart:
        """The chart of a path's profiles, leaf first; the last one's output leaves memory."""
        points, seconds, tuples = [Point(0.0, 1.0)], 0.0, 1.0
        # where tuples weigh nothing, they are counted
        widths = [p.bytes_per_tuple for p in path] if path[0].bytes_per_tuple > 0 else [1.0] * len(path)
        for number, profile in enumerate(path):
            seconds += profile.seconds_per_tuple * tuples
            tuples *= profile.selectivity
            # delivered tuples leave memory, whatever the last selectivity
            is_last = number == len(path) - 1
            size = 0.0 if is_last else tuples * widths[number + 1] / widths[0]
            points.append(Point(seconds, size))
        return ProgressChart(tuple(points))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The lower envelope from the first point to the last; slopes never rise.

        Corners in line with their neighbours stay, so ties go to the nearest.
        """
        points, corners = self.points, list[int]()
        for number in range(len(points)):
            while len(corners) >= 2 and _steepens(points, corners[-2], corners[-1], number):
                corners.pop()
            corners.append(number)
        both = pairwise(corners)
        return tuple(Segment(i, j, max(0.0, _slope(points[i], points[j]))) for i, j in both)

    @cached_property
    def envelope(self) -> tuple[Point, ...]:
        return (self.points[0], *(self.points[segment.last] for segment in self.segments))

    def envelope_at(self, seconds: float) -> float:
        """The lower envelope, linear between its corners."""
        for start, end in pairwise(self.envelope):
            if seconds < end.seconds:
                return start.size - _slope(start, end) * (seconds - start.seconds)
        return self.points[-1].size

    def gap(self, segment: Segment) -> float:
        """How far the chart lies above the envelope, at most, within a segment."""
        inside = pairwise(self.points[segment.first : segment.last + 1])
        return max(before.size - self.envelope_at(after.seconds) for before, after in inside)

    @property
    def gaps(self) -> float:
        """The sum of all segments' gaps: the most that chain may need above the envelope, per path."""
        return sum(self.gap(segment) for segment in self.segments)

    def __repr__(self) -> str:
        end = self.points[-1]
        operators, segments = plural(len(self.points) - 1, "operator"), plural(len(self.segments), "segment")
        return f"<ProgressChart of {operators}: {segments}, {end.seconds:.4g} s to size {end.size:.4g}>"

    def _repr_html_(self) -> str:
        return html_drawing(self.plot)

    def plot(self, axes: Axes) -> None:
        seconds, sizes = zip(*((p.seconds, p.size) for p in self.points), strict=True)
        axes.step(seconds, sizes, where="post", color="#9aa5b1", label="progress chart")
        corners = [(p.seconds, p.size) for p in self.envelope]
        axes.plot(*zip(*corners, strict=True), "o-", color="#d1495b", label="lower envelope")
        axes.set_xlabel("processor time received (s)")
        axes.set_ylabel("size left")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)


def _steepens(points: Sequence[Point], before: int, corner: int, after: int) -> bool:
    into, out = _slope(points[before], points[corner]), _slope(points[corner], points[after])
    return into < out if math.isinf(out) else into < out - _EQUAL * abs(out)


def _slope(start: Point, end: Point) -> float:
    released, seconds = start.size - end.size, end.seconds - start.seconds
    if seconds > 0:
        return released / seconds
    # an operator that takes no time and releases nothing ends no segment
    return math.inf if released > 0 else -math.inf


class Chain(UnitStrategy):
    """Segments of every path's lower envelope, by slope: the least memory on charts that are envelopes."""

    name = "chain"

    def __init__(self) -> None:
        self._charts: dict[tuple[str, ...], tuple[list[Profile], ProgressChart]] = {}

    def segments_of(self, chart: ProgressChart) -> tuple[Segment, ...]:
        return chart.segments

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """One unit per segment; slopes are in bytes, so that paths of different widths compare."""
        # paths that are new or whose profiles have changed get new charts; those that are gone lose theirs
        known, self._charts = self._charts, {}
        for path in network.paths():
            own = [profiles[name] for name in path]
            before = known.get(path)
            chart = before[1] if before is not None and before[0] == own else ProgressChart.of(own)
            self._charts[path] = own, chart
            for segment in self.segments_of(chart):
                operators = path[segment.first : segment.last]
                yield Unit(operators, segment.slope * profiles[path[0]].bytes_per_tuple)


class Mixed(Chain):
    """Chain over envelopes whose flat end is one segment.

    All segments of a path that free less than ``least_slope``, relative to the path's steepest, are merged.
    0 is chain; above 1 every path is one segment.
    """

    name = "mixed"

    def __init__(self, least_slope: float = 0.5) -> None:
        super().__init__()
        self._least_slope = least_slope

    def segments_of(self, chart: ProgressChart) -> tuple[Segment, ...]:
        least_slope = self._least_slope * chart.segments[0].slope
        steep = tuple(segment for segment in chart.segments if segment.slope >= least_slope)
        # slopes never rise along the envelope, so the flat ones are its end
        begin, end = steep[-1].last if steep else 0, len(chart.points) - 1
        slope = _slope(chart.points[begin], chart.points[end])
        return (*steep, Segment(begin, end, slope)) if begin < end else steep
