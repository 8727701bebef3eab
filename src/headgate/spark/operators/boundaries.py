"""Aggregates that emit all groups now and then: with every n-th tuple, or at times over all tuples so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import LongType, StructField, StructType

from headgate.model.operator import Aggregate
from headgate.model.window import HopWindow, LandmarkWindow, SlidingRowWindow, UntilWindow
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import Results, Stretch
from headgate.spark.operators.inputs import LogInput, QueueInput, StoreTask, TickInput
from headgate.spark.operators.window_tuples import first_seq_from, retain_window
from headgate.spark.operators.windowed import AggregateOperator, RunningAggregateOperator, due_boundaries
from headgate.spark.sql import BEGINNING_US, END_US, SEQ, TS, UNTIL

_PANE, _NEXT, _AT, _END = "`$pane`", "`$next`", "`$at`", "`$end`"
_FIRST = "$first"
_FIRST_NUMBER = StructType([StructField(_FIRST, LongType())])


class SlidingRowAggregateOperator(AggregateOperator):
    """Emits every group over the last n tuples, with each tuple whose number is a multiple of the slide.

    Sequence numbers take the place of timestamps: the window of a boundary is half open, from its number
    less the length of the window on.
    """

    def __init__(self, settings: Aggregate, store: BlockStore) -> None:
        super().__init__(settings)
        assert isinstance(settings.window, SlidingRowWindow)
        self._window, self._store = settings.window, store

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Groups at the boundaries between the old and the new progress."""
        [one] = inputs
        found = Results(None, [retain_window(one, self._window, stretch)])
        arrived = stretch.content(_as_declared(one))
        if arrived is None:
            return found
        first_number = self._first_number(one, arrived, stretch, found)
        log = _log_of(one)
        # a derived stream does not tell the bounds of numbers, nor does a stream that was there before
        first, last = 0, END_US
        if log is not None:
            blocks = (*log.blocks, *log.fresh)
            first_seq = first_seq_from(blocks, stretch.old_ts)
            if isinstance(one, LogInput):
                one = replace(one, from_seq=max(0, first_seq - self._window.rows))
            if first_number is None:
                first, last = first_seq, max((block.end_seq for block in blocks), default=0)
        tuples = one.content(BEGINNING_US, stretch.new_ts)
        if tuples is not None:
            found.query = self._at_boundaries(tuples, arrived, first, last, first_number)
        return found

    def _first_number(self, one: TickInput, arrived: str, stretch: Stretch, found: Results) -> str | None:
        """SQL for the number of the first tuple that the query sees, stored once; None if it is 0."""
        log = _log_of(one)
        if log is not None and log.source.since is None:
            return None
        if kept := stretch.state.groups:
            view = self._store.view(f"first number of {self.name}", kept, _FIRST_NUMBER)
            return f"(SELECT max({sql.name(_FIRST)}) FROM {sql.relation(view)})"
        least = f"min({sql.name(SEQ)}) AS {sql.name(_FIRST)}"
        # a minimum of nothing would be a row, too
        first = f"{sql.select([least], arrived)}\nHAVING count(*) > 0"
        found.stores.append(StoreTask(self.name, None, first, _FIRST_NUMBER, 1))
        return f"({sql.select([least], arrived)})"

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Over all tuples."""
        del old_ts, new_ts
        return self._at_boundaries(tuples, tuples, 0, END_US)

    def _at_boundaries(
        self, tuples: str, arrived: str, first_seq: int, end_seq: int, first_number: str | None = None
    ) -> str:
        """Groups over the tuples of each window; ``arrived`` are those of the stream as declared."""
        slide, own = self._window.slide, sql.name(TS)
        seq = sql.name(SEQ) if first_number is None else f"({sql.name(SEQ)} - {first_number})"
        keyed = aggregate.keyed(self.settings, tuples, [SEQ])
        numbered = sql.select([f"{seq} AS {own}", f"* EXCEPT ({sql.name(SEQ)})"], keyed)
        window = HopWindow(self._window.rows, slide)
        first, last = sql.Bound(first_seq + -first_seq % slide), sql.Bound(end_seq - end_seq % slide)
        whole = aggregate.at_boundaries(self.settings, numbered, window, first, last, self.types)
        counted = sql.select([f"{own} AS {_AT}", f"{seq} + 1L AS {_END}"], arrived)
        ends = sql.select(["*"], counted, [f"pmod({_END}, {slide}L) = 0"])
        items = [f"b.{_AT} AS {own}", f"w.* EXCEPT ({own})"]
        return (
            f"SELECT /*+ BROADCAST(b) */ {sql.listed(items)}\nFROM {sql.relation(whole)} AS w\n"
            f"JOIN {sql.relation(ends)} AS b\n  ON w.{own} = b.{_END}"
        )


def _log_of(one: TickInput) -> LogInput | None:
    """The log that numbers the tuples of an input; None for a derived stream."""
    if isinstance(one, LogInput):
        return one
    assert isinstance(one, QueueInput)
    return one.log


def _as_declared(one: TickInput) -> TickInput:
    """The stream below all selections, or its numbers and timestamps alone."""
    if isinstance(one, LogInput):
        return replace(one, selects=(), source=replace(one.source, columns=()))
    assert isinstance(one, QueueInput)
    return one.unfiltered if one.log is None else one.log


class LandmarkAggregateOperator(RunningAggregateOperator):
    """Emits every group at each boundary, over all tuples so far; a group is carried as one row."""

    def __init__(self, settings: Aggregate, store: BlockStore) -> None:
        super().__init__(settings, store)
        assert isinstance(settings.window, LandmarkWindow)
        self._window = settings.window

    @property
    def reach_us(self) -> int:  # type: ignore[override]
        """At the end of input, the first boundary that is not before the last tuple is due."""
        return self._window.slide_us - 1

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Groups at the boundaries between the old and the new progress, and groups to carry."""
        [one] = inputs
        retained, kept, old, new = (
            [one.retain(stretch.new_ts)],
            stretch.state.groups,
            stretch.old_ts,
            stretch.new_ts,
        )
        tuples = one.content(old, new) if new > old else None
        if new <= old or (tuples is None and not kept):
            return Results(None, retained)
        carried = self._carried(kept)
        first, last = due_boundaries(self._window, old, new)
        query = self._totals(tuples, carried, first, last) if first <= last else None
        if tuples is None:
            return Results(query, retained)
        return Results(query, retained, [self._carry(tuples, carried, kept)], groups=())

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Without carried groups."""
        return self._totals(tuples, None, old_ts, new_ts)

    def _totals(self, tuples: str | None, carried: str | None, first: int, last: int) -> str:
        """Running totals of panes, each valid until the next pane of its group."""
        slide, own, groups = self._window.slide_us, self.settings, aggregate.group_names(self.settings)
        by = f"PARTITION BY {', '.join(groups)} " if groups else ""
        names = [name for name, _ in aggregate.partials(own)]
        over = f"OVER ({by}ORDER BY {_PANE} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        totals = [f"{aggregate.merge(name)} {over} AS {sql.name(name)}" for name in names]
        following = f"lead({_PANE}) OVER ({by}ORDER BY {_PANE}) AS {_NEXT}"
        panes = self._panes(tuples, carried, first)
        running = sql.select([_PANE, following, *groups, *totals], panes)
        low = f"greatest({_PANE}, {sql.Bound(first).at(_PANE)})"
        due = sql.Bound(last).at(_PANE)
        high = f"least(coalesce({_NEXT} - {slide}L, {due}), {due})"
        at = f"explode(sequence({low},\n    {high}, {slide}L)) AS {sql.name(TS)}"
        emitted = sql.select([at, *groups, *sql.names(names)], running, [f"{low} <= {high}"])
        values = [f"{text} AS {sql.name(name)}" for name, text in aggregate.final(own, self.types)]
        return sql.select([sql.name(TS), *groups, *values], emitted)

    def _panes(self, tuples: str | None, carried: str | None, first: int) -> str:
        """Partial aggregates by the first boundary that they belong to, one row a group."""
        own, groups = self.settings, aggregate.group_names(self.settings)
        names, slide, ts = [name for name, _ in aggregate.partials(own)], self._window.slide_us, sql.name(TS)
        by = f"\nGROUP BY {', '.join([_PANE, *groups])}"
        fresh = kept = None
        if tuples is not None:
            keyed = aggregate.keyed(own, tuples, [TS])
            timed = sql.select([f"{ts} + pmod(-{ts}, {slide}L) AS {_PANE}", "*"], keyed)
            parts = [f"{text} AS {sql.name(name)}" for name, text in aggregate.partials(own)]
            fresh = sql.select([_PANE, *groups, *parts], timed) + by
        if carried is not None:
            columns = [*groups, *sql.names(names)]
            kept = sql.select([f"{sql.Bound(first).at(columns[0])} AS {_PANE}", *columns], carried)
        both = sql.union([kept, fresh])
        assert both is not None
        merged = [f"{aggregate.merge(name)} AS {sql.name(name)}" for name in names]
        return sql.select([_PANE, *groups, *merged], both) + by


class UntilAggregateOperator(AggregateOperator):
    """Emits every group at each boundary, over the tuples whose own end is not before it."""

    def __init__(self, settings: Aggregate) -> None:
        super().__init__(settings)
        assert isinstance(settings.window, UntilWindow) and settings.window.slide_us is not None
        self._window, self._slide_us = settings.window, settings.window.slide_us

    @property
    def reach_us(self) -> int:  # type: ignore[override]
        """At the end of input, the first boundary that is not before the last tuple is due."""
        return self._slide_us - 1

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Every tuple at each of its boundaries."""
        first, last = due_boundaries(self._window, old_ts, new_ts)
        source, own = aggregate.keyed(self.settings, tuples, [TS, UNTIL]), sql.name(TS)
        lifetime = (own, sql.name(UNTIL))
        return aggregate.over_lifetimes(
            self.settings, source, lifetime, self._slide_us, sql.Bound(first), sql.Bound(last)
        )
