"""Operators that keep windows: joins, window updates below placed probes, and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, inf

from pyspark.sql.types import StructType

from headgate.model.operator import Aggregate, WindowJoin, WindowUpdate
from headgate.model.window import (
    LandmarkWindow,
    RowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
    Window,
)
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import BlockRef
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, Results, SparkOperator, Stretch, spark_operator
from headgate.spark.operators.inputs import (
    LogInput,
    QueueInput,
    Retained,
    StoreTask,
    TickInput,
    until_us,
)
from headgate.spark.operators.row_window import (
    EXPIRY,
    expiry_columns,
    with_expiry,
    with_expiry_in_one_task,
    with_expiry_in_order,
)
from headgate.spark.operators.window_join import BROADCAST_ROWS, JoinInput, Tasks, window_join
from headgate.spark.rows import Spread, cut_at
from headgate.spark.sql import BEGINNING_US, END_US, SEQ, SIDE, TS, UNTIL, is_system

# sliding boundaries are counted from here when nothing has been emitted yet
_EARLIEST = -(2**60)
# fewer tuples of a row window by key are not worth a copy
_LEAST_TO_COPY = 10_000
LEAST_ROWS_PER_SLICE = 100_000
"""Of a join: fewer rows do not repay the cost of another task."""
MOST_ROWS_PER_SLICE = 600_000
"""Of a join: a larger hash table would be slow, and might not fit into memory."""
SLICE_PER_OVERLAP = 1.0
"""Least number of rows in a slice, as a multiple of the rows in the windows before it."""
_MOST_SLICES = 24
# tuples of a row window of which a task remembers timestamps: 8 MB
_MOST_REMEMBERED = 2**20


def window_content(
    one: TickInput, window: Window | None, old_ts: int, new_ts: int, in_one_task: bool = False
) -> str | None:
    """The tuples of an input needed for results from the old progress to the new; row windows add expiry."""
    if isinstance(window, RowWindow):
        return _row_window_content(one, window, old_ts, new_ts, in_one_task)
    if isinstance(window, UntilWindow):
        everything = one.content(BEGINNING_US, new_ts)
        return everything and _alive(everything, old_ts)
    from_ts = BEGINNING_US
    if isinstance(window, TimeWindow) and old_ts > BEGINNING_US:
        from_ts = old_ts - window.reach_us
    return one.content(from_ts, new_ts)


def _alive(tuples: str, from_ts: int) -> str:
    """The tuples of a window with lifetimes that are inside at some instant from ``from_ts`` on."""
    own, until = sql.name(TS), sql.name(UNTIL)
    return sql.select(["*"], tuples, [f"{until} >= {own}", f"{until} >= {sql.Bound(from_ts).at(own)}"])


def _row_window_content(
    one: TickInput, window: RowWindow, old_ts: int, to_ts: int, in_one_task: bool = False
) -> str | None:
    if isinstance(one, LogInput):
        return _with_expiry(one, window, old_ts, to_ts, in_one_task).content(BEGINNING_US, to_ts)
    assert isinstance(one, QueueInput)
    if one.log is None:
        # the queue holds the whole window of a derived stream
        everything = one.unfiltered.content(BEGINNING_US, to_ts)
        return everything and one.filtered(with_expiry_in_order(everything, window))
    queued = one.content(BEGINNING_US, to_ts)
    log = _with_expiry(one.log, window, BEGINNING_US, to_ts, in_one_task)
    declared = log.content(BEGINNING_US, to_ts)
    if queued is None or declared is None:
        return None
    if in_one_task:
        queued = sql.select(["*"], queued, hint=sql.IN_ONE_TASK)
    # the log knows when each tuple left; one that it no longer holds left long ago
    added = sql.names(expiry_columns(window))
    known = sql.select([f"{sql.name(SEQ)} AS `$known`", *added], declared)
    return (
        f"SELECT /*+ SHUFFLE_HASH(e) */ q.*, {', '.join(added)}\n"
        f"FROM {sql.relation(queued)} AS q\nJOIN {sql.relation(known)} AS e\n"
        f"  ON q.{sql.name(SEQ)} = e.`$known`"
    )


def _with_expiry(
    one: LogInput, window: RowWindow, old_ts: int, to_ts: int, in_one_task: bool = False
) -> LogInput:
    """The tuples that are inside the window at some instant from ``old_ts`` on, with their expiry.

    Expiry is decided by the stream as declared, below all selections.
    """
    first_seq = None
    if not window.keys:
        blocks = (*one.blocks, *one.fresh)
        first_seq = max(first_seq_from(blocks, old_ts) - window.rows, first_seq_from(blocks, BEGINNING_US))
    if first_seq is None or in_one_task or one.is_small:
        return replace(one, from_seq=first_seq, decorate=partial(_in_order, window, in_one_task))
    # an earlier tuple cannot expire one that is inside
    as_declared = replace(one, selects=(), decorate=None, from_seq=first_seq + window.rows)
    pushers = as_declared.content(BEGINNING_US, to_ts)
    new_rows = sum(block.rows for block in blocks if block.end_seq > first_seq + window.rows)
    hint = "BROADCAST" if new_rows <= BROADCAST_ROWS else "SHUFFLE_HASH"
    return replace(
        one, from_seq=first_seq, decorate=lambda tuples: with_expiry(tuples, window, pushers, hint)
    )


def _in_order(window: RowWindow, in_one_task: bool, tuples: str) -> str:
    if in_one_task and not window.keys and window.rows <= _MOST_REMEMBERED:
        return with_expiry_in_one_task(tuples, window)
    if in_one_task:
        tuples = sql.select(["*"], tuples, hint=sql.IN_ONE_TASK)
    return with_expiry_in_order(tuples, window)


def first_seq_from(blocks: Sequence[BlockRef], ts: int) -> int:
    """A lower bound of the sequence number of the first tuple with a timestamp from ``ts`` on."""
    later = [block.first_seq_from(ts) for block in blocks if block.max_ts >= ts]
    return min(later, default=max((block.end_seq for block in blocks), default=0))


def retain_window(one: TickInput, window: Window | None, stretch: Stretch) -> Retained:
    """Waiting tuples, and those inside the window of a tuple from ``stretch.since_ts`` on."""
    if isinstance(window, RowWindow):
        if isinstance(one, LogInput):
            return _retain_rows(one, window, stretch.since_ts)
        return _retain_queue(one, window, stretch.since_ts)
    if isinstance(window, UntilWindow):
        return _retain_alive(one, stretch.since_ts)
    if isinstance(window, UnboundedWindow):
        return one.retain(BEGINNING_US)
    return one.retain(
        stretch.since_ts - window.reach_us if isinstance(window, TimeWindow) else stretch.new_ts
    )


def _retain_rows(one: LogInput, window: RowWindow, since_ts: int) -> Retained:
    """The blocks that hold the last tuples before ``since_ts``, and everything from then on."""
    blocks = [*one.blocks, *one.fresh]
    if window.keys:
        return _compacted(one, window, since_ts)
    first_needed = first_seq_from(blocks, since_ts) - window.rows
    return Retained(tuple(b for b in blocks if b.end_seq > first_needed or b.max_ts >= since_ts))


def _retain_queue(one: TickInput, window: RowWindow, since_ts: int) -> Retained:
    """The log has no range for a window over a queue: the tuples still inside are stored again."""
    assert isinstance(one, QueueInput)
    pushing = None if one.log is None else _retain_rows(one.log, window, since_ts)
    content = _row_window_content(one.unfiltered, window, BEGINNING_US, END_US)
    if content is None:
        return Retained((), pushing=pushing)
    expiry = sql.name(EXPIRY)
    inside = f"({expiry} IS NULL OR {expiry} >= {sql.Bound(since_ts).at(sql.name(TS))})"
    alive = sql.select(sql.names(one.schema.names), content, [inside])
    return Retained((), alive, one.schema, one.content_rows, pushing)


def _retain_alive(one: TickInput, since_ts: int) -> Retained:
    """The tuples whose own end has not come by ``since_ts``."""
    if isinstance(one, LogInput):
        blocks, stream = (*one.blocks, *one.fresh), one.source.stream
        if not _is_copy_due(blocks):
            return Retained(blocks)
        assert isinstance(one.window, UntilWindow)
        until = f"{until_us(one.window)} AS {sql.name(UNTIL)}"
        timed = sql.select(["*", until], one.logs.view(stream, blocks))
        return _copied(one, _alive(timed, since_ts))
    everything = one.content(BEGINNING_US, END_US)
    if everything is None:
        return Retained(())
    assert isinstance(one, QueueInput)
    alive = sql.select(sql.names(one.schema.names), _alive(everything, since_ts))
    return Retained((), alive, one.schema, one.content_rows)


def _compacted(one: LogInput, window: RowWindow, since_ts: int) -> Retained:
    """Copy live tuples out of the log once in a while: those of a rare key may be arbitrarily old."""
    blocks = (*one.blocks, *one.fresh)
    if not _is_copy_due(blocks):
        return Retained(blocks)
    seq, expiry = sql.name(SEQ), "`$pushed`"
    keys = ", ".join(sql.names(window.keys))
    pushed = f"lead({sql.name(TS)}, {window.rows}) OVER (PARTITION BY {keys} ORDER BY {seq}) AS {expiry}"
    timed = sql.select(["*", pushed], one.logs.view(one.source.stream, blocks))
    live = f"({expiry} IS NULL OR {expiry} >= {sql.Bound(since_ts).at(sql.name(TS))})"
    return _copied(one, sql.select(["*"], timed, [live]))


def _is_copy_due(blocks: Sequence[BlockRef]) -> bool:
    """Whether as many tuples have arrived as the last copy holds, which bounds the cost per tuple."""
    # a copy has no numbers without gaps
    copied = sum(block.rows for block in blocks if block.first_seq is None)
    return sum(block.rows for block in blocks) - copied >= max(_LEAST_TO_COPY, copied)


def _copied(one: LogInput, live: str) -> Retained:
    """Live tuples, stored again in place of all blocks of the log."""
    schema = one.logs.schemas[one.source.stream].struct
    return Retained((), sql.select(sql.names(schema.names), live), schema, one.content_rows)


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
            sides.append(JoinInput(str(content), user, old_rows, new_rows))
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
