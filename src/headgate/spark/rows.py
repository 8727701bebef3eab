"""Tuples in a tick: the SQL that yields them, how many to expect, and where in time they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headgate.spark import sql
from headgate.spark.columns import BEGINNING_US, END_US, TS
from headgate.spark.spread import Spread, share_below

ReadRange = Callable[[int, int], str | None]


@dataclass(frozen=True)
class Rows:
    """What a stream or an operator passes on in a tick.

    ``query`` is a view or the text of a query; None if there are no tuples. No tuple below ``progress_ts``
    will come any more. An ``idle`` source holds no other one back.
    """

    query: str | None
    count: float
    upstream_rows: float
    """How many tuples the plan goes through at most; none of them may be lost."""
    min_ts: int
    max_ts: int
    progress_ts: int
    idle: bool = False
    spreads: tuple[Spread, ...] = ()
    """Timestamp distribution: by share, not by number."""
    read_range: ReadRange | None = None
    """Yields the tuples between two timestamps, from as little as possible."""

    def within(self, from_ts: int, to_ts: int) -> str | None:
        """The tuples with ``from_ts <= timestamp < to_ts``; None if there can be none.

        Bounds apply before what an operator computes for a tuple, which may be expensive.
        """
        if self.query is None or from_ts > self.max_ts or to_ts <= self.min_ts:
            return None
        if self.read_range is not None and (from_ts > self.min_ts or to_ts <= self.max_ts):
            return self.read_range(from_ts, to_ts)
        return between(self.query, from_ts, to_ts)

    def share_below(self, ts: int) -> float:
        """About which share of the tuples has a smaller timestamp."""
        if ts > self.max_ts:
            return 1.0
        return 0.0 if ts <= self.min_ts else share_below(self.spreads, ts)

    def scaled_spreads(self, from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """Timestamp distribution by number, between two timestamps."""
        total = sum(spread.rows for spread in self.spreads)
        scale = self.count / total if total else 0.0
        return tuple(spread.scaled(scale).between(from_ts, to_ts) for spread in self.spreads)

    def named(self, view: str) -> Rows:
        """The same tuples, computed once under the name of a view."""
        return replace(self, query=view, read_range=None)


NOTHING = Rows(None, 0.0, 0.0, END_US, BEGINNING_US, END_US)


def in_range(from_ts: int, to_ts: int) -> list[str]:
    """Conditions for ``from_ts <= timestamp < to_ts``; none for a side that is open."""
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

    This is the one rule; sources that are idle hold nothing back.
    """
    holding = [rows.progress_ts for rows in inputs if not rows.idle]
    return min(holding) if holding else max(rows.progress_ts for rows in inputs)
