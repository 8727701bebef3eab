"""Progress charts: what is left of a tuple, over the processor time it has received."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from headgate.model.profile import Profile, Profiles

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
    """A hop of the lower envelope, over the operators ``[first, last)``; ``slope`` is size per second."""

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

    @staticmethod
    def of_path(path: Sequence[str], profiles: Profiles) -> ProgressChart:
        """The chart of operators by name."""
        return ProgressChart.of([profiles[name] for name in path])

    def slope(self, start: int, end: int) -> float:
        """Size released per second between two points."""
        return _slope(self.points[start], self.points[end])

    def steepest_descent(self, start: int) -> int:
        """The later point with the steepest slope from here; ties go to the nearest."""
        return next(segment.last for segment in _hops(self.points, start))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The lower envelope from the first point to the last; slopes never rise."""
        return tuple(_hops(self.points, 0))

    @cached_property
    def envelope(self) -> tuple[Point, ...]:
        """The corners of the lower envelope."""
        return (self.points[0], *(self.points[segment.last] for segment in self.segments))

    def size_at(self, seconds: float) -> float:
        """The chart as a step function: a tuple shrinks when an operator is done with it."""
        return [point.size for point in self.points if point.seconds <= seconds][-1]

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
        """The sum of all segments' gaps: what chain may need above the envelope, for a path."""
        return sum(self.gap(segment) for segment in self.segments)

    def plot(self, axes: Axes) -> None:
        """Draw the steps and the lower envelope below them."""
        seconds, sizes = zip(*((p.seconds, p.size) for p in self.points), strict=True)
        axes.step(seconds, sizes, where="post", color="#9aa5b1", label="progress chart")
        corners = [(p.seconds, p.size) for p in self.envelope]
        axes.plot(*zip(*corners, strict=True), "o-", color="#d1495b", label="lower envelope")
        axes.set_xlabel("processor time received (s)")
        axes.set_ylabel("size left")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)


def _hops(points: Sequence[Point], start: int) -> list[Segment]:
    """The lower hull in one pass; corners in line with their neighbours stay, so ties go to the nearest."""
    corners: list[int] = []
    for number in range(start, len(points)):
        while len(corners) >= 2 and _steepens(points, corners[-2], corners[-1], number):
            corners.pop()
        corners.append(number)
    return [Segment(i, j, max(0.0, _slope(points[i], points[j]))) for i, j in pairwise(corners)]


def _steepens(points: Sequence[Point], before: int, corner: int, after: int) -> bool:
    into, out = _slope(points[before], points[corner]), _slope(points[corner], points[after])
    return into < out if math.isinf(out) else into < out - _EQUAL * abs(out)


def _slope(start: Point, end: Point) -> float:
    released, seconds = start.size - end.size, end.seconds - start.seconds
    if seconds > 0:
        return released / seconds
    # nothing released in no time: no reason to stop here
    return math.inf if released > 0 else -math.inf
