"""Tuples in a tick: the SQL that yields them, their expected number and timestamp distribution."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headgate.spark import sql
from headgate.spark.sql import BEGINNING_US, END_US, TS

Reader = Callable[[int, int], str | None]


@dataclass(frozen=True)
class Rows:
    """What a stream or an operator passes on in a tick.

    ``query`` is a view or the text of a query; None if there are no tuples. No tuple below ``progress_ts``
    can arrive any more. An ``idle`` source does not hold others back.
    """

    query: str | None
    count: float
    upstream_rows: float
    """The largest number of tuples at any stage of the plan; none of them may be lost."""
    min_ts: int
    max_ts: int
    progress_ts: int
    idle: bool = False
    spreads: tuple[Spread, ...] = ()
    """Timestamp distribution: shares, not absolute numbers."""
    reader: Reader | None = None
    """Yields the tuples between two timestamps, from as little as possible."""

    def read_range(self, from_ts: int, to_ts: int) -> str | None:
        """The tuples with ``from_ts <= timestamp < to_ts``; None if there can be none.

        Bounds apply before what an operator computes for a tuple, which may be expensive.
        """
        if self.query is None or from_ts > self.max_ts or to_ts <= self.min_ts:
            return None
        if self.reader is not None and (from_ts > self.min_ts or to_ts <= self.max_ts):
            return self.reader(from_ts, to_ts)
        return between(self.query, from_ts, to_ts)

    def share_below(self, ts: int) -> float:
        """Approximate share of the tuples with a smaller timestamp."""
        if ts > self.max_ts:
            return 1.0
        return 0.0 if ts <= self.min_ts else share_below(self.spreads, ts)

    def scaled_spreads(self, from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """Timestamp distribution in absolute numbers, between two timestamps."""
        total = sum(spread.rows for spread in self.spreads)
        scale = self.count / total if total else 0.0
        return tuple(spread.scaled(scale).between(from_ts, to_ts) for spread in self.spreads)

    def mapped(self, change: Callable[[str], str]) -> Rows:
        """The same tuples with other columns."""
        if self.query is None:
            return self
        reader = self.reader

        def read(from_ts: int, to_ts: int) -> str | None:
            tuples = self.read_range(from_ts, to_ts)
            return tuples and sql.by_slice(tuples, change)

        return replace(self, query=sql.by_slice(self.query, change), reader=read if reader else None)

    def named(self, view: str) -> Rows:
        """The same tuples, read from a view."""
        return replace(self, query=view, reader=None)


NOTHING = Rows(None, 0.0, 0.0, END_US, BEGINNING_US, END_US)


def in_range(from_ts: int, to_ts: int) -> list[str]:
    """Conditions for ``from_ts <= timestamp < to_ts``; none for an open side."""
    own, conditions = sql.name(TS), []
    if from_ts > BEGINNING_US:
        conditions.append(f"{own} >= {sql.Bound(from_ts).at(own)}")
    if to_ts < END_US:
        conditions.append(f"{own} < {sql.Bound(to_ts).at(own)}")
    return conditions


def between(query: str, from_ts: int, to_ts: int) -> str:
    """The tuples of a query with ``from_ts <= timestamp < to_ts``."""
    conditions = in_range(from_ts, to_ts)
    return sql.select(["*"], query, conditions) if conditions else query


def progress_of(inputs: Sequence[Rows]) -> int:
    """How far an operator that keeps timestamp order may go: the progress of its slowest input.

    Idle sources hold nothing back.
    """
    holding = [rows.progress_ts for rows in inputs if not rows.idle]
    return min(holding) if holding else max(rows.progress_ts for rows in inputs)


# quantiles of every block and input split
QUANTILES = 32
# the least share of a queue that a cut takes, so that it empties however small the budget is
_LEAST_SHARE = 1 / 64


@dataclass(frozen=True)
class Spread:
    """Timestamp distribution: about ``below[i]`` tuples come before ``times[i]``, and none lies outside."""

    times: tuple[int, ...]
    below: tuple[float, ...]

    @staticmethod
    def over(rows: float, quantiles: Sequence[int]) -> Spread:
        """From evenly spaced quantiles, minimum and maximum included."""
        return Spread(tuple(quantiles), tuple(np.linspace(0.0, rows, len(quantiles)).tolist()))

    @property
    def rows(self) -> float:
        """Total number of tuples."""
        return self.below[-1] if self.below else 0.0

    def rows_below(self, ts: int) -> float:
        """Approximate number of tuples with a smaller timestamp; exact at both ends."""
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
        """The distribution of ``factor`` times as many tuples."""
        return Spread(self.times, tuple(b * factor for b in self.below))


def rows_below(spreads: Sequence[Spread], ts: int) -> float:
    """Approximate number of tuples with a smaller timestamp, over several distributions."""
    return sum(spread.rows_below(ts) for spread in spreads)


def share_below(spreads: Sequence[Spread], ts: int) -> float:
    """Approximate share of tuples with a smaller timestamp, over several distributions."""
    total = sum(spread.rows for spread in spreads)
    return rows_below(spreads, ts) / total if total else 1.0


def cut_at(spreads: Sequence[Spread], share: float, end_ts: int) -> int:
    """The timestamp below which a given share of the tuples lies; ``end_ts`` if there are none."""
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
    """Evenly spaced quantiles over several distributions; minimum and maximum are given.

    None if these distributions show nothing of what lies between, as when nearly all of their rows are late.
    """
    total = sum(spread.rows for spread in spreads)
    times = sorted({ts for spread in spreads for ts in spread.times if min_ts <= ts <= max_ts})
    if not total or not times:
        return ()
    reached = [rows_below(spreads, ts) / total for ts in times]
    wanted = [i / QUANTILES for i in range(1, QUANTILES)]
    found, place = [], 0
    for share in wanted:
        while place < len(times) - 1 and reached[place] < share:
            place += 1
        found.append(times[place])
    return (min_ts, *found, max_ts)
