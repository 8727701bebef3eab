"""Outer, semi and anti joins of two windows as SQL.

Two tuples match or do not, whatever the ticks, at the timestamp of the later one. A tuple has its last chance
of a match at the last instant of its window; if there was none, it is due at that instant. Whether there was
one is computed from the windows of both sides, which are retained for as long as a tuple may be due, rather
than carried along as a mark: a tick that is executed again finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.model.expression import Expression
from headgate.model.joins import OuterWindowJoin, SemiWindowJoin
from headgate.model.window import HopWindow, RowWindow, TimeWindow
from headgate.spark import sql
from headgate.spark.operators.base import OperatorContext, SparkOperator, Stretch, spark_operator
from headgate.spark.operators.inputs import Retained, TickInput
from headgate.spark.operators.window_join import bucket_us, buckets, last_ts, matching, renamed_times
from headgate.spark.operators.window_tuples import retain_window, window_content
from headgate.spark.operators.windowed import WindowJoinOperator
from headgate.spark.sql import BEGINNING_US, TS, is_system

_DUE = "$due"
_ROW = "$tuple"


class OuterJoinOperator(WindowJoinOperator):
    """Emits matches, unless it is an anti join, and tuples that have had their last chance of one."""

    settings: OuterWindowJoin

    possible: tuple[Expression, ...] | None = None
    """Conditions under which a tuple may have a match; None for those of the join."""

    @property
    def reach_us(self) -> int:  # type: ignore[override]
        """At the end of input, all tuples without a match are due."""
        return max(self._preserved_window(side).reach_us for side in self.settings.preserved)

    def _preserved_window(self, side: int) -> TimeWindow:
        window = self.settings.sides[side].window
        assert isinstance(window, TimeWindow), f"tuples of {self.settings.sides[side].alias} are never due"
        return window

    def _retained(self, inputs: Sequence[TickInput], stretch: Stretch) -> list[Retained]:
        found = []
        for side, (one, window) in enumerate(zip(inputs, self.windows, strict=True)):
            since_ts = max(BEGINNING_US, stretch.since_ts - self.settings.longer_us(side))
            found.append(retain_window(one, window, replace(stretch, since_ts=since_ts)))
        return found

    def _joined(self, inputs: Sequence[TickInput], stretch: Stretch, is_slice: bool) -> str | None:
        contents = []
        for side, (one, window) in enumerate(zip(inputs, self.windows, strict=True)):
            old_ts = max(BEGINNING_US, stretch.old_ts - self.settings.longer_us(side))
            contents.append(window_content(one, window, old_ts, stretch.new_ts, is_slice))
        pairs = self._pairs(inputs, stretch, is_slice)
        return self.emitted(pairs, contents, stretch.old_ts, stretch.new_ts, is_slice)

    def emitted(
        self,
        pairs: str | None,
        contents: Sequence[str | None],
        old_ts: int,
        new_ts: int,
        is_slice: bool = False,
    ) -> str | None:
        """What is emitted from the old progress to the new; ``contents`` are all tuples that can match."""
        preserved = self.settings.preserved
        due = [self._unmatched(contents, side, old_ts, new_ts, is_slice) for side in preserved]
        return sql.union([pairs if self.settings.shown is None else None, *due])

    def _unmatched(
        self, contents: Sequence[str | None], side: int, old_ts: int, new_ts: int, is_slice: bool
    ) -> str | None:
        """The tuples of a side without a match that are due."""
        own, other = contents[side], contents[1 - side]
        if own is None:
            return None
        last = f"{_last_chance(self._preserved_window(side))} AS `{_DUE}`"
        timed = self._side(own, side, is_slice, is_anchor=True, added=[last])
        ts = f"`{TS}{side}`"
        bounds = [f"`{_DUE}` >= {sql.Bound(old_ts).at(ts)}", f"`{_DUE}` < {sql.Bound(new_ts).at(ts)}"]
        due = sql.select(["*"], timed, bounds)
        items = [f"`{_DUE}` AS {sql.name(TS)}", *self._null_beside(side)]
        if other is None:
            return sql.select(items, due)
        return (
            f"SELECT /*+ SHUFFLE_HASH(s{1 - side}) */ {sql.listed(items)}\n"
            f"FROM {sql.relation(due)} AS s{side}\n"
            f"LEFT ANTI JOIN {sql.relation(self._side(other, 1 - side, is_slice))} AS s{1 - side}\n"
            f"  ON {sql.all_of(self._matching(is_slice, self.possible))}"
        )

    def _null_beside(self, side: int) -> list[str]:
        """The columns of all results, those of the other side NULL."""
        shown = range(len(self.inputs)) if self.settings.shown is None else self.settings.shown
        items = []
        for number in shown:
            for field in self.inputs[number].fields:
                if not is_system(field.name):
                    name, kind = sql.name(field.name), field.dataType.simpleString()
                    items.append(name if number == side else f"CAST(NULL AS {kind}) AS {name}")
        return items

    def _width_us(self, is_slice: bool) -> int | None:
        """The width of time buckets; None where they would only double tuples."""
        return None if is_slice else bucket_us(self.settings)

    def _matching(self, is_slice: bool, possible: tuple[Expression, ...] | None = None) -> list[str]:
        own = self.settings if possible is None else replace(self.settings, predicates=possible)
        bucket = [] if self._width_us(is_slice) is None else ["`$bucket0` = `$bucket1`"]
        return [*matching(own), *bucket]

    def _side(
        self,
        tuples: str,
        side: int,
        is_slice: bool,
        is_anchor: bool = False,
        added: Sequence[str] = (),
    ) -> str:
        """The tuples of a side, their timestamps under names of its own.

        Those of an anchor, each in one bucket, are found once; the others are in all where they may match.
        """
        window = self.windows[side]
        user = [name for name in self.inputs[side].names if not is_system(name)]
        # what knows when tuples leave a row window is in one task already
        hint = sql.IN_ONE_TASK if is_slice and not isinstance(window, RowWindow) else ""
        width_us = self._width_us(is_slice)
        bucket = [] if width_us is None else [f"{buckets(width_us, is_anchor)} AS `$bucket{side}`"]
        return sql.select(
            [*renamed_times(window, side), *sql.names(user), *added, *bucket], tuples, hint=hint
        )


class SemiJoinOperator(OuterJoinOperator):
    """Emits each tuple of the left side at its first match."""

    reach_us = 0

    def emitted(
        self,
        pairs: str | None,
        contents: Sequence[str | None],
        old_ts: int,
        new_ts: int,
        is_slice: bool = False,
    ) -> str | None:
        """Tuples that have matched, unless the first match was before the old progress."""
        del pairs, new_ts
        left, right = contents
        if left is None or right is None:
            return None
        # equal tuples are emitted each by itself
        number = f"monotonically_increasing_id() AS `{_ROW}`"
        numbered = self._side(left, 0, is_slice, is_anchor=True, added=[number])
        user = [sql.name(name) for name in self.inputs[0].names if not is_system(name)]
        items = [f"min({last_ts(self.settings)}) AS {sql.name(TS)}", *(f"first({c}) AS {c}" for c in user)]
        matched = (
            f"SELECT /*+ SHUFFLE_HASH(s1) */ {sql.listed(items)}\nFROM {sql.relation(numbered)} AS s0\n"
            f"JOIN {sql.relation(self._side(right, 1, is_slice))} AS s1\n"
            f"  ON {sql.all_of(self._matching(is_slice))}\nGROUP BY `{_ROW}`"
        )
        ts = sql.name(TS)
        return sql.select([ts, *user], matched, [f"{ts} >= {sql.Bound(old_ts).at(ts)}"])


def _last_chance(window: TimeWindow) -> str:
    """The last instant at which a tuple is inside its window, in microseconds."""
    ts = sql.name(TS)
    if window.slide_us is None:
        return f"{ts} + {window.range_us}L"
    slide = f"{window.slide_us}L"
    if isinstance(window, HopWindow):
        return f"{ts} - pmod({ts}, {slide}) + {slide} - 1L"
    boundary = f"({ts} + {window.range_us}L - pmod({ts} + {window.range_us}L, {slide}))"
    # between two boundaries, a window that slides further than it reaches back may hold no tuple
    return f"IF({boundary} >= {ts}, {boundary} + {slide} - 1L, {ts})"


@spark_operator.register
def _outer_join(settings: OuterWindowJoin, context: OperatorContext) -> SparkOperator:
    del context
    return OuterJoinOperator(settings)


@spark_operator.register
def _semi_join(settings: SemiWindowJoin, context: OperatorContext) -> SparkOperator:
    del context
    return SemiJoinOperator(settings)
