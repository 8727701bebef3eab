"""How tuples lie over time, told by a few quantiles: enough to say where to cut a queue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# quantiles kept of every block and chunk
QUANTILES = 32
# of a queue that is cut at all: so that it comes to its end, however small the budget is
_LEAST_SHARE = 1 / 64


@dataclass(frozen=True)
class Spread:
    """``below[i]`` tuples, about, have a timestamp before ``times[i]``; none lies outside of them."""

    times: tuple[int, ...]
    below: tuple[float, ...]

    @staticmethod
    def over(rows: float, quantiles: Sequence[int]) -> Spread:
        """Tuples between evenly spaced quantiles, the least and the greatest timestamp included."""
        return Spread(tuple(quantiles), tuple(np.linspace(0.0, rows, len(quantiles)).tolist()))

    @property
    def rows(self) -> float:
        """All of them."""
        return self.below[-1] if self.below else 0.0

    def rows_below(self, ts: int) -> float:
        """About how many tuples have a smaller timestamp; exact at both ends."""
        if not self.times or ts <= self.times[0]:
            return 0.0
        if ts > self.times[-1]:
            return self.rows
        # the first of equal timestamps: the others are not below it
        place = bisect_left(self.times, ts)
        if self.times[place] == ts:
            return self.below[place]
        since, until = self.times[place - 1], self.times[place]
        share = (ts - since) / (until - since)
        return self.below[place - 1] + share * (self.below[place] - self.below[place - 1])

    def between(self, from_ts: int, to_ts: int) -> Spread:
        """The tuples with ``from_ts <= timestamp < to_ts``."""
        if not self.times or (from_ts <= self.times[0] and to_ts > self.times[-1]):
            return self
        first, last = self.rows_below(from_ts), self.rows_below(to_ts)
        if last <= first:
            return Spread((), ())
        inside = [(t, b) for t, b in zip(self.times, self.below, strict=True) if from_ts < t < to_ts]
        start, end = max(from_ts, self.times[0]), min(to_ts - 1, self.times[-1])
        points = [(start, first), *inside, (max(start, end), last)]
        return Spread(tuple(t for t, _ in points), tuple(b - first for _, b in points))

    def scaled(self, factor: float) -> Spread:
        """So many times as many tuples."""
        return Spread(self.times, tuple(b * factor for b in self.below))


def rows_below(spreads: Sequence[Spread], ts: int) -> float:
    """About how many tuples of all have a smaller timestamp."""
    return sum(spread.rows_below(ts) for spread in spreads)


def share_below(spreads: Sequence[Spread], ts: int) -> float:
    """About which share of all tuples has a smaller timestamp."""
    total = sum(spread.rows for spread in spreads)
    return rows_below(spreads, ts) / total if total else 1.0


def cut_at(spreads: Sequence[Spread], share: float, end_ts: int) -> int:
    """The timestamp below which a share of the tuples lies; ``end_ts`` if there are none."""
    times = {time for spread in spreads for time in spread.times}
    if not times:
        return end_ts
    # both edges of a timestamp: many tuples may share it
    edges = sorted({edge for time in times for edge in (time, time + 1)})
    reached = [rows_below(spreads, edge) for edge in edges]
    wanted = max(share, _LEAST_SHARE) * reached[-1]
    place = max(1, bisect_left(reached, wanted))
    step = (wanted - reached[place - 1]) / max(reached[place] - reached[place - 1], 1e-9)
    return edges[place - 1] + max(place == 1, round(step * (edges[place] - edges[place - 1])))


def merged_quantiles(spreads: Sequence[Spread], min_ts: int, max_ts: int) -> tuple[int, ...]:
    """Evenly spaced quantiles of the tuples of several spreads; their ends are given."""
    total = sum(spread.rows for spread in spreads)
    if not total:
        return ()
    times = sorted({ts for spread in spreads for ts in spread.times if min_ts <= ts <= max_ts})
    reached = [rows_below(spreads, ts) / total for ts in times]
    wanted = [i / QUANTILES for i in range(1, QUANTILES)]
    found, place = [], 0
    for share in wanted:
        while place < len(times) - 1 and reached[place] < share:
            place += 1
        found.append(times[place])
    return (min_ts, *found, max_ts)
