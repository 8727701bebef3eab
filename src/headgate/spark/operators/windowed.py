"""Operators that keep windows: joins, window updates below placed probes, and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

from pyspark.sql.types import StructType

from headgate.model.joins import WindowJoin, WindowUpdate
from headgate.model.operator import Aggregate
from headgate.model.window import LandmarkWindow, RowWindow, TimeWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import BlockRef
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, Results, SparkOperator, Stretch, spark_operator
from headgate.spark.operators.inputs import Retained, StoreTask, TickInput
from headgate.spark.operators.window_join import SideQuery, Tasks, window_join
from headgate.spark.operators.window_tuples import retain_window, window_content
from headgate.spark.rows import Spread, cut_at
from headgate.spark.sql import SIDE, TS, is_system

# sliding boundaries are counted from here when nothing has been emitted yet
_EARLIEST = -(2**60)
LEAST_ROWS_PER_SLICE = 100_000
"""Of a join: fewer rows do not repay the cost of another task."""
MOST_ROWS_PER_SLICE = 600_000
"""Of a join: a larger hash table would be slow, and might not fit into memory."""
SLICE_PER_OVERLAP = 1.0
"""Least number of rows in a slice, as a multiple of the rows in the windows before it."""
_MOST_SLICES = 24


class WindowUpdateOperator(SparkOperator):
    """Keeps the windows of a join, and passes every tuple on, with the columns of all sides."""

    settings: WindowUpdate

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """The windows of the sides."""
        return tuple(side.window for side in self.settings.sides)

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """New tuples of any side, with NULL in the columns of the others."""
        query = None
        if stretch.new_ts > stretch.old_ts:
            query = self.arrivals([one.content(stretch.old_ts, stretch.new_ts) for one in inputs])
        return Results(query, self._retained(inputs, stretch))

    def arrivals(self, sides: Sequence[str | None]) -> str | None:
        """The union of all sides."""
        types = {
            field.name: field.dataType.simpleString()
            for schema in self.inputs
            for field in schema.fields
            if not is_system(field.name)
        }
        return sql.union([tuples and self._arrivals(types, n, tuples) for n, tuples in enumerate(sides)])

    def _arrivals(self, types: dict[str, str], number: int, tuples: str) -> str:
        own = set(self.inputs[number].names)
        items = [sql.name(TS), f"{number} AS {sql.name(SIDE)}"]
        for name, kind in types.items():
            value = sql.name(name) if name in own else f"CAST(NULL AS {kind})"
            items.append(f"{value} AS {sql.name(name)}")
        return sql.select(items, tuples)

    def _retained(self, inputs: Sequence[TickInput], stretch: Stretch) -> list[Retained]:
        return [retain_window(*pair, stretch) for pair in zip(inputs, self.windows, strict=True)]


class WindowJoinOperator(WindowUpdateOperator):
    """Joins every arriving tuple with the tuples inside the other windows at that instant."""

    settings: WindowJoin

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Combinations whose last tuple lies between the old and the new progress."""
        query = None
        if stretch.new_ts > stretch.old_ts:
            cuts = self._cuts(inputs, stretch)
            ends = zip([stretch.old_ts, *cuts], [*cuts, stretch.new_ts], strict=True)
            slices = [replace(stretch, old_ts=old, new_ts=new) for old, new in ends]
            joined = [self._joined(inputs, one, len(slices) > 1) for one in slices]
            parts = [part for part in joined if part is not None]
            query = sql.Slices(parts) if len(parts) > 1 else sql.union(parts)
        return Results(query, self._retained(inputs, stretch))

    def _cuts(self, inputs: Sequence[TickInput], stretch: Stretch) -> list[int]:
        """Where to divide a stretch of time among tasks, each of which joins its own slice.

        Tuples of different slices need not meet, apart from a window before each slice. So slices are joined
        without a shuffle, as long as that window is small beside the slice.
        """
        old, new = stretch.old_ts, stretch.new_ts
        spreads = [spread for one in inputs for spread in one.spreads(old, old, new)]
        rows = sum(spread.rows for spread in spreads)
        if rows < 1.5 * LEAST_ROWS_PER_SLICE:
            return []
        overlap = SLICE_PER_OVERLAP * self._overlap_rows(spreads, old, new)
        worthwhile = min(round(rows / LEAST_ROWS_PER_SLICE), int(rows / max(overlap, 1.0)), _MOST_SLICES)
        # each is a join of its own for Spark to plan: as few as give every processor the same work
        rounds = ceil(rows / (stretch.tasks * MOST_ROWS_PER_SLICE))
        slices = min(rounds * stretch.tasks, worthwhile)
        wanted = {cut_at(spreads, number / slices, new) for number in range(1, slices)}
        return sorted(cut for cut in wanted if old < cut < new)

    def _overlap_rows(self, spreads: Sequence[Spread], old: int, new: int) -> float:
        """Estimated number of tuples in the windows before a slice."""
        if all(isinstance(window, RowWindow) and not window.keys for window in self.windows):
            return float(sum(window.rows for window in self.windows if isinstance(window, RowWindow)))
        if not all(isinstance(window, TimeWindow) for window in self.windows):
            return inf
        first = min(spread.times[0] for spread in spreads if spread.times)
        span_us = max(1, new - max(old, first))
        reach_us = max(window.reach_us for window in self.windows if isinstance(window, TimeWindow))
        return sum(spread.rows for spread in spreads) * reach_us / span_us

    def _joined(self, inputs: Sequence[TickInput], stretch: Stretch, is_slice: bool) -> str | None:
        """All results of a stretch of time."""
        return self._pairs(inputs, stretch, is_slice)

    def _pairs(self, inputs: Sequence[TickInput], stretch: Stretch, is_slice: bool) -> str | None:
        """Combinations of tuples that match."""
        old, new = stretch.old_ts, stretch.new_ts
        pairs = zip(inputs, self.windows, strict=True)
        contents = [window_content(one, window, old, new, is_slice) for one, window in pairs]
        if any(content is None for content in contents):
            return None
        sides = []
        for one, content, schema in zip(inputs, contents, self.inputs, strict=True):
            waiting = one.waiting_rows(old, new)
            new_rows = one.rows.count * one.rows.share_below(new) + waiting
            old_rows = sum(block.rows for block in one.blocks) - one.waiting_rows(old)
            user = tuple(name for name in schema.names if not is_system(name))
            sides.append(SideQuery(str(content), user, old_rows, new_rows))
        order = stretch.orders.get(self.name)
        if is_slice:
            tasks = Tasks.ONE_BY_HINT
        else:
            tasks = Tasks.ONE if all(one.is_small for one in inputs) else Tasks.MANY
        return window_join(self.settings, sides, sql.Bound(old), order, tasks)


class AggregateOperator(SparkOperator):
    """Aggregates groups over a window of one stream."""

    settings: Aggregate

    def __init__(self, settings: Aggregate) -> None:
        super().__init__(settings)
        self.types: dict[str, str] = {}
        """Types of the aggregates as Spark infers them; set when the network is prepared."""

    @property
    def windows(self) -> tuple[Window | None, ...]:
        """The one window."""
        return (self.settings.window,)

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Groups whose boundaries or tuples lie between the old and the new progress."""
        [one] = inputs
        query = None
        if stretch.new_ts > stretch.old_ts:
            content = window_content(one, self.settings.window, stretch.old_ts, stretch.new_ts)
            query = content and self.aggregated(content, stretch.old_ts, stretch.new_ts)
        return Results(query, [retain_window(one, self.settings.window, stretch)])

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """The SQL over all tuples that may be inside a window."""
        raise NotImplementedError


class SlidingAggregateOperator(AggregateOperator):
    """Emits every group at each boundary of a window that slides."""

    @property
    def reach_us(self) -> int:  # type: ignore[override]
        """At the end of input, every boundary whose window holds tuples is due."""
        assert isinstance(self.settings.window, TimeWindow)
        return self.settings.window.reach_us

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """Groups at the boundaries that are due; without any, no tuple is read."""
        window = self.settings.window
        assert isinstance(window, TimeWindow)
        if window.slide_us:
            first, last = due_boundaries(window, stretch.old_ts, stretch.new_ts)
            if first > last:
                return Results(None, [retain_window(inputs[0], window, stretch)])
        return super().results(inputs, stretch)

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Computed from panes."""
        window = self.settings.window
        assert isinstance(window, TimeWindow)
        first, last = due_boundaries(window, old_ts, new_ts)
        return aggregate.sliding(self.settings, tuples, sql.Bound(first), sql.Bound(last), self.types)


def due_boundaries(
    window: TimeWindow | LandmarkWindow | UntilWindow, old_ts: int, new_ts: int
) -> tuple[int, int]:
    """The first and the last boundary in ``[old_ts, new_ts)``; there is none if they are not in order."""
    assert window.slide_us is not None
    slide = window.slide_us
    return _ceil_to(max(old_ts, _EARLIEST), slide), _ceil_to(new_ts, slide) - slide


def _ceil_to(ts: int, slide_us: int) -> int:
    return ts + -ts % slide_us


class TupleAggregateOperator(AggregateOperator):
    """Emits the new value of its group for every tuple, over the window at that instant."""

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Computed by window frames in stream order."""
        del new_ts
        return aggregate.per_tuple(self.settings, tuples, sql.Bound(old_ts))


class RunningAggregateOperator(AggregateOperator):
    """Aggregates all tuples so far; the state of each group is carried from tick to tick."""

    def __init__(self, settings: Aggregate, store: BlockStore) -> None:
        super().__init__(settings)
        self._store = store
        self.groups = StructType([])
        """Columns of the carried state; set when the network is prepared."""

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """New values, and groups to carry."""
        [one] = inputs
        retained = [one.retain(stretch.new_ts)]
        tuples = stretch.content(one)
        if tuples is None:
            return Results(None, retained)
        kept = stretch.state.groups
        carried = self._carried(kept)
        query = aggregate.running(self.settings, tuples, carried)
        return Results(query, retained, [self._carry(tuples, carried, kept)], groups=())

    def _carried(self, kept: Sequence[BlockRef]) -> str | None:
        return self._store.view(f"groups of {self.name}", kept, self.groups) if kept else None

    def _carry(self, tuples: str, carried: str | None, kept: Sequence[BlockRef]) -> StoreTask:
        """Stores the groups as they are after the tick."""
        groups = aggregate.carry(self.settings, tuples, carried)
        return StoreTask(self.name, None, groups, self.groups, 1 + sum(block.rows for block in kept))

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Without carried state."""
        del old_ts, new_ts
        return aggregate.running(self.settings, tuples, None)


@spark_operator.register
def _window_update(settings: WindowUpdate, context: OperatorContext) -> SparkOperator:
    del context
    return WindowUpdateOperator(settings)


@spark_operator.register
def _window_join(settings: WindowJoin, context: OperatorContext) -> SparkOperator:
    del context
    return WindowJoinOperator(settings)
