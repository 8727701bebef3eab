"""The tuples of windows: what an operator reads of them in a tick, and what it retains for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.manifest import BlockRef
from headgate.spark.operators.base import Stretch
from headgate.spark.operators.inputs import LogInput, QueueInput, Retained, TickInput, until_us
from headgate.spark.operators.row_window import (
    EXPIRY,
    expiry_columns,
    with_expiry,
    with_expiry_in_one_task,
    with_expiry_in_order,
)
from headgate.spark.operators.window_join import BROADCAST_ROWS
from headgate.spark.sql import BEGINNING_US, END_US, SEQ, TS, UNTIL

# fewer tuples of a row window by key are not worth a copy
_LEAST_TO_COPY = 10_000
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
