"""Sliding aggregates from partial aggregates of panes, which are kept instead of tuples.

Reading the tuples of a window again in every tick costs no write, and is cheaper while they are few. Once
they are many, or from the beginning if the window has many panes, each tuple is read once.

Panes of the greatest common divisor of range and slide are level 0. When a run of eight of them is complete
it is merged into one of level 1, and so on. A window is covered by the largest panes that fit: an hour in
steps of a second takes some fifty partial aggregates a group instead of 3,600, and its state does not grow
with the number of boundaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from pyspark.sql.types import StructType

from headgate.model.operator import Aggregate
from headgate.model.window import (
    LandmarkWindow,
    SessionWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
)
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import BlockRef
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, Results, SparkOperator, Stretch, spark_operator
from headgate.spark.operators.boundaries import (
    LandmarkAggregateOperator,
    SlidingRowAggregateOperator,
    UntilAggregateOperator,
)
from headgate.spark.operators.inputs import StoreTask, TickInput
from headgate.spark.operators.sessions import SessionAggregateOperator
from headgate.spark.operators.windowed import (
    RunningAggregateOperator,
    SlidingAggregateOperator,
    TupleAggregateOperator,
    due_boundaries,
)
from headgate.spark.sql import BEGINNING_US, TS

# panes of one level that make up one of the next
_FAN = 8
# a window of more panes is long: its panes are kept from the beginning
FEWEST_PANES = 32
# with fewer open blocks, merging them costs more than reading them one by one
_MOST_OPEN = 8
LEAST_READ_AGAIN = 100_000
"""Tuples of a short window that a tick would read again, from which on its panes are kept."""
_LEVEL, _EDGE, _END = "`$level`", "`$edge`", sql.name(TS)
# by how a block came about: panes that wait for their run to be complete, and complete runs
_OPEN, _RUNS = 0, 1


def has_panes(settings: Aggregate) -> bool:
    """Whether the window slides, and its aggregates can be computed from partial ones."""
    window = settings.window
    slides = isinstance(window, TimeWindow) and bool(window.slide_us)
    return slides and all(call.is_mergeable for call in settings.aggregates)


class PaneAggregateOperator(SlidingAggregateOperator):
    """Emits every group at each boundary, from partial aggregates where these are worth keeping."""

    def __init__(self, settings: Aggregate, store: BlockStore) -> None:
        super().__init__(settings)
        window = settings.window
        assert isinstance(window, TimeWindow) and window.slide_us is not None
        self._window = window
        self._store = store
        self._width_us = gcd(window.range_us, window.slide_us)
        self.panes = StructType([])
        """Columns of the retained panes; set when the network is prepared."""

    @property
    def _levels(self) -> int:
        levels = 1
        while self._level_us(levels) <= self._window.range_us:
            levels += 1
        return levels

    def _level_us(self, level: int) -> int:
        return self._width_us * int(_FAN**level)

    @property
    def _is_long(self) -> bool:
        return self._window.range_us // self._width_us > FEWEST_PANES

    def _keeps_panes(self, one: TickInput, stretch: Stretch) -> bool:
        """Whether panes are kept: those of a short window once its tuples would be read again, and are many.

        Without any, no tuple from before is inside the window, or none has been kept as a pane yet.
        """
        if stretch.state.groups or self._is_long:
            return True
        if stretch.new_ts <= stretch.old_ts:
            # nothing is read, so no pane would come to be of the tuples that are no longer kept
            return False
        return one.waiting_rows(self._from_ts(stretch), stretch.old_ts) >= LEAST_READ_AGAIN

    def _from_ts(self, stretch: Stretch) -> int:
        """Since when tuples are inside a window that is due."""
        return max(BEGINNING_US, stretch.old_ts - self._window.reach_us)

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Groups at the boundaries that are due, and the panes to keep."""
        [one] = inputs
        if not self._keeps_panes(one, stretch):
            return super().results(inputs, stretch)
        old, new, kept = stretch.old_ts, stretch.new_ts, stretch.state.groups
        retained = [one.retain(new)]
        if new <= old:
            return Results(None, retained)
        content = one.content(old if kept else self._from_ts(stretch), new)
        fresh = content and self.fresh(content)
        first, last = due_boundaries(self._window, old, new)
        if not kept:
            # no run of panes was complete before this tick
            old = BEGINNING_US
        near = [block for block in kept if self._is_near(block, first, last, old)]
        parts = sql.union([self._stored("near", near) if near and first <= last else None, fresh])
        query = None
        if parts is not None and first <= last:
            query = self.at_boundaries(parts, sql.Bound(first), sql.Bound(last), sql.Bound(old))
        stores, replaced = self._stores(fresh, kept, old, new, one.rows.count)
        oldest = new - self._window.reach_us
        groups = [block for block in kept if block not in replaced and block.max_ts >= oldest]
        return Results(query, retained, stores, groups)

    def fresh(self, tuples: str) -> str:
        """New tuples as panes of level 0; a pane that is not complete is continued by a later tick."""
        source = aggregate.keyed(self.settings, tuples, [TS])
        panes = aggregate.panes(self.settings, source, self._window)
        items = [f"`$pane` AS {_END}", f"0 AS {_LEVEL}", _EDGE, *self._groups, *sql.names(self._parts)]
        return sql.select(items, panes)

    @property
    def _groups(self) -> list[str]:
        return [sql.name(key.name) for key in self.settings.keys]

    @property
    def _parts(self) -> list[str]:
        return [name for name, _ in aggregate.partials(self.settings)]

    def _stored(self, what: str, blocks: Sequence[BlockRef]) -> str:
        view = self._store.view(f"panes of {self.name} {what}", blocks, self.panes)
        return sql.select(sql.names(self.panes.names), view)

    def at_boundaries(self, panes: str, first: sql.Bound, last: sql.Bound, old: sql.Bound) -> str:
        """Groups at boundaries, each from the largest panes that were complete before this tick."""
        reach, slide = self._window.range_us, self._window.slide_us
        width = self._by_level(0)
        low = f"greatest({_END} + pmod(-{_END}, {slide}L), {first.at(_END)})"
        until = f"({_END} - {width} + {reach}L)"
        high = f"least({until} - pmod({until}, {slide}L), {last.at(_END)})"
        above = self._by_level(1)
        # a pane stands for itself where the run that it is part of is not inside, or not complete yet
        run_end = f"({_END} + pmod(-{_END}, {above}))"
        alone = (
            f"b < {run_end}\n    OR b > {run_end} - {above} + {reach}L\n"
            f"    OR {run_end} >= {old.at(_END)}\n    OR {_LEVEL} = {self._levels - 1}"
        )
        due = f"sequence({low},\n    {high}, {slide}L)"
        own = f"IF({low}\n    <= {high},\n    filter({due}, b ->\n    {alone}), array())"
        # a window takes in the microsecond that it reaches back to: the edge of the pane before it
        edge = f"{_END} + {reach}L"
        is_due = f"pmod({edge}, {slide}L) = 0\n    AND {edge} BETWEEN {first.at(_END)} AND {last.at(_END)}"
        on_edge = f"IF({_LEVEL} = 0 AND {_EDGE} AND {is_due}, array({edge}), array())"
        boundaries = f"explode(concat(\n    {own},\n    CAST({on_edge} AS ARRAY<BIGINT>)))"
        exploded = sql.select([*self._groups, *sql.names(self._parts), f"{boundaries} AS `$boundary`"], panes)
        values = [f"{text} AS {sql.name(name)}" for name, text in aggregate.merged(self.settings, self.types)]
        items = [f"`$boundary` AS {sql.name(TS)}", *self._groups, *values]
        return f"{sql.select(items, exploded)}\nGROUP BY {', '.join(['`$boundary`', *self._groups])}"

    def _by_level(self, above: int) -> str:
        """The width of a pane of a level; level 0 are the smallest."""
        widths = ", ".join(f"{self._level_us(level + above)}L" for level in range(self._levels))
        return f"array({widths})[{_LEVEL}]"

    def _is_near(self, block: BlockRef, first: int, last: int, old: int) -> bool:
        """Whether a block may hold panes that cover an end of a window that is due."""
        level = block.step or 0
        if level == self._levels - 1:
            return True
        run_us, reach = self._level_us(level + 1), self._window.range_us
        at_the_right = block.max_ts > min(first, old) - run_us
        at_the_left = block.max_ts >= first - reach and block.min_ts <= last - reach + run_us
        return at_the_right or at_the_left

    def _stores(
        self, fresh: str | None, kept: Sequence[BlockRef], old: int, new: int, rows: float
    ) -> tuple[list[StoreTask], list[BlockRef]]:
        """Panes to store, and the blocks that they replace."""
        open_blocks = [block for block in kept if block.step == _OPEN]
        has_runs = self._levels > 1
        everything = sql.union([self._stored("open", open_blocks) if open_blocks else None, fresh])
        complete = self._last_end(1, new)
        stores: list[StoreTask] = []
        replaced: list[BlockRef] = []
        if (
            has_runs
            and everything is not None
            and complete >= min([old, *(block.min_ts for block in open_blocks)])
        ):
            bound, replaced = sql.Bound(complete).at(_END), open_blocks
            runs = self._runs(sql.select(["*"], everything, [f"{_END} <= {bound}"]))
            still_open = sql.select(["*"], everything, [f"{_END} > {bound}"])
            stores.append(StoreTask(self.name, None, runs, self.panes, rows, level=_RUNS))
            stores.append(StoreTask(self.name, None, still_open, self.panes, rows, level=_OPEN))
        elif everything is not None and len(open_blocks) >= _MOST_OPEN:
            oldest = sql.Bound(max(BEGINNING_US, new - self._window.reach_us)).at(_END)
            inside = sql.select(["*"], everything, [f"{_END} >= {oldest}"])
            merged, replaced = self._merged(inside, [_END, "0", _EDGE]), open_blocks
            stores.append(StoreTask(self.name, None, merged, self.panes, rows, level=_OPEN))
        elif fresh is not None:
            stores.append(StoreTask(self.name, None, fresh, self.panes, rows, level=_OPEN))
        stores += self._higher(everything if replaced or fresh else None, kept, old, new, rows)
        return stores, replaced

    def _runs(self, panes: str) -> str:
        """Panes of level 0, each merged into one row a group, and the runs that they make up."""
        plain = self._merged(panes, [_END, "0", _EDGE])
        return f"{plain}\nUNION ALL\n{self._merged(panes, [self._run_end(1), '1', 'FALSE'])}"

    def _run_end(self, level: int) -> str:
        return f"{_END} + pmod(-{_END}, {self._level_us(level)}L)"

    def _merged(self, panes: str, place: Sequence[str]) -> str:
        end, level, edge = place
        parts = [f"{aggregate.merge(name)} AS {sql.name(name)}" for name in self._parts]
        items = [f"{end} AS {_END}", f"{level} AS {_LEVEL}", f"{edge} AS {_EDGE}", *self._groups, *parts]
        by = [end, *([edge] if edge == _EDGE else []), *self._groups]
        return f"{sql.select(items, panes)}\nGROUP BY {', '.join(by)}"

    def _higher(
        self, open_panes: str | None, kept: Sequence[BlockRef], old: int, new: int, rows: float
    ) -> Iterator[StoreTask]:
        """Runs of runs that are complete now, whether or not the last of them came in this tick."""
        complete = sql.Bound(self._last_end(1, new)).at(_END)
        for level in range(2, self._levels):
            end = self._last_end(level, new)
            before = self._last_end(level, old) if old > BEGINNING_US else None
            if before is not None and end <= before:
                return
            since = BEGINNING_US if before is None else before
            below = [b for b in kept if b.step == _RUNS and b.max_ts > since and b.min_ts <= end]
            runs = fresh_runs = None
            if below:
                runs = sql.select(["*"], self._stored(f"level {level}", below), [f"{_LEVEL} = 1"])
            if open_panes is not None:
                finished = sql.select(["*"], open_panes, [f"{_END} <= {complete}"])
                fresh_runs = self._merged(finished, [self._run_end(1), "1", "FALSE"])
            parts = sql.union([runs, fresh_runs])
            if parts is None:
                continue
            low = [] if before is None else [f"{_END} > {sql.Bound(since).at(_END)}"]
            inside = sql.select(["*"], parts, [*low, f"{_END} <= {sql.Bound(end).at(_END)}"])
            merged = self._merged(inside, [self._run_end(level), str(level), "FALSE"])
            yield StoreTask(self.name, None, merged, self.panes, rows, level=level)

    def _last_end(self, level: int, new: int) -> int:
        """The end of the last pane of a level that is complete once all tuples below ``new`` are there."""
        width = self._level_us(level)
        return (new - 1) // width * width


@spark_operator.register
def _aggregate(settings: Aggregate, context: OperatorContext) -> SparkOperator:
    window = settings.window
    if isinstance(window, LandmarkWindow):
        return LandmarkAggregateOperator(settings, context.store)
    if isinstance(window, SlidingRowWindow):
        return SlidingRowAggregateOperator(settings, context.store)
    if isinstance(window, UntilWindow) and window.slide_us:
        return UntilAggregateOperator(settings)
    if isinstance(window, UnboundedWindow):
        return RunningAggregateOperator(settings, context.store)
    if isinstance(window, SessionWindow):
        return SessionAggregateOperator(settings, context.store)
    if has_panes(settings):
        return PaneAggregateOperator(settings, context.store)
    if isinstance(window, TimeWindow) and window.slide_us:
        return SlidingAggregateOperator(settings)
    return TupleAggregateOperator(settings)
