"""One input of an operator in a tick: tuples retained by earlier ticks, and new tuples.

An input either reads ranges of a stream's log, which all queries share, or a queue of its own: blocks that
were stored where a plan was cut, and what flows out of the operator below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headgate.model.expression import column_of
from headgate.model.operator import Select
from headgate.model.operator_inputs import DerivedInput, StreamInput
from headgate.model.window import RowWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.manifest import BlockRef
from headgate.spark.rows import Rows, Spread, between, in_range
from headgate.spark.sql import BEGINNING_US, END_US, SEQ, TS, UNTIL, window_key
from headgate.spark.stream_log import StreamLogs
from headgate.statistics.store import PredicateOrder

Decorate = Callable[[str], str]
_NO_COLUMNS = StructType([])


@dataclass(frozen=True)
class StoreTask:
    """Tuples to be stored in a block: of an operator's input, or its groups."""

    operator: str
    side: int | None
    tuples: str | DataFrame
    columns: StructType
    expected_rows: float
    level: int | None = None
    """The level of panes; None for everything else."""
    is_pushing: bool = False
    """Whether they belong to the log that decides expiry for a row window over a queue."""


@dataclass(frozen=True)
class Retained:
    """What an input retains: blocks, and possibly tuples that are still to be stored."""

    blocks: tuple[BlockRef, ...]
    query: str | None = None
    columns: StructType = _NO_COLUMNS
    """Of the tuples to be stored."""
    expected_rows: float = 0.0
    pushing: Retained | None = None
    """The same for the log that decides expiry, for a row window over a queue."""


class TickInput(Protocol):
    """An input as operators see it."""

    @property
    def rows(self) -> Rows:
        """The new tuples."""

    @property
    def blocks(self) -> tuple[BlockRef, ...]:
        """The retained blocks."""

    def where(self, condition: Select) -> TickInput:
        """The input without the tuples for which a condition does not hold."""

    def content(self, from_ts: int, to_ts: int) -> str | None:
        """Retained and new tuples between two timestamps."""

    def taken(self, old_ts: int, new_ts: int, from_ts: int, to_ts: int) -> str | None:
        """Tuples waiting since ``old_ts`` and new ones, below ``new_ts`` and within the given range.

        Tuples that arrive below ``old_ts`` are stragglers, and welcome.
        """

    def waiting_rows(self, from_ts: int, to_ts: int = END_US) -> float:
        """Estimated number of retained tuples between two timestamps."""

    def spreads(self, old_ts: int, new_from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """Timestamp distribution of the tuples waiting since ``old_ts`` and of new ones."""

    def retain(self, from_ts: int) -> Retained:
        """What must be retained to read everything from a timestamp on."""

    @property
    def content_rows(self) -> float:
        """Estimated number of tuples, retained and new."""

    @property
    def is_small(self) -> bool:
        """Whether one task can process all tuples."""


def log_columns(source: StreamInput | DerivedInput, window: Window | None, is_numbered: bool) -> list[str]:
    """The select list that gives columns of a log, or of results, the names used in a plan."""
    items = [sql.name(TS)]
    if is_numbered and window is not None:
        items.append(sql.name(SEQ))
        keys = window.keys if isinstance(window, RowWindow) else ()
        items += [f"{sql.name(key)} AS {sql.name(window_key(i))}" for i, key in enumerate(keys)]
    if isinstance(window, UntilWindow):
        items.append(f"{until_us(window)} AS {sql.name(UNTIL)}")
    return items + [f"{sql.name(c)} AS {sql.name(column_of(source.alias, c))}" for c in source.columns]


def until_us(window: UntilWindow) -> str:
    """When a tuple leaves the window, in microseconds; a number is one of seconds."""
    return f"unix_micros(CAST({window.end.text} AS TIMESTAMP))"


@dataclass(frozen=True)
class LogInput:
    """Ranges of a stream's log, filtered by selections that are cheap enough to be evaluated more than once.

    ``blocks`` are those that the operator still needs, ``fresh`` those that arrived in this tick. Of the
    kept tuples, the selections have passed on those below ``passed_ts``, a ``selectivity`` of them.
    """

    logs: StreamLogs
    source: StreamInput
    window: Window | None
    selects: tuple[Select, ...]
    predicate_order: PredicateOrder
    blocks: tuple[BlockRef, ...]
    fresh: tuple[BlockRef, ...]
    rows: Rows
    passed_ts: int = END_US
    selectivity: float = 1.0
    decorate: Decorate | None = None
    """Adds columns computed from the unfiltered stream, below the selections."""
    from_seq: int | None = None
    """Sequence number of the first tuple to be read; None for all tuples."""

    def where(self, condition: Select) -> LogInput:
        """The input without the tuples for which a condition does not hold."""
        return replace(self, selects=(*self.selects, condition))

    def content(self, from_ts: int, to_ts: int) -> str | None:
        """Retained and new tuples between two timestamps."""
        return self._read((*self.blocks, *self.fresh), from_ts, to_ts)

    def taken(self, old_ts: int, new_ts: int, from_ts: int, to_ts: int) -> str | None:
        """Tuples waiting since ``old_ts`` and new ones, below ``new_ts``."""
        upto = min(new_ts, to_ts)
        stored = self._read(self.blocks, max(old_ts, from_ts), upto)
        return sql.union([stored, self._read(self.fresh, from_ts, upto)])

    def _read(self, blocks: Sequence[BlockRef], from_ts: int, to_ts: int) -> str | None:
        first = -1 if self.from_seq is None else self.from_seq
        from_ts = max(from_ts, self._since_ts)
        reached = [b for b in blocks if b.max_ts >= from_ts and b.min_ts < to_ts and b.end_seq > first]
        if not reached:
            return None
        stream = self.source.stream
        view = self.logs.view(stream, reached)
        # a bound that no tuple is beyond need not be evaluated
        low = BEGINNING_US if all(block.min_ts >= from_ts for block in reached) else from_ts
        high = END_US if all(block.max_ts < to_ts for block in reached) else to_ts
        conditions = in_range(low, high)
        if any((block.first_seq or 0) < first for block in reached):
            seq = sql.name(SEQ)
            conditions.append(f"{seq} >= {sql.Bound(first).at(seq)}")
        items = log_columns(self.source, self.window, self.logs.schemas[stream].is_numbered)
        query = sql.select(items, view, conditions)
        if self.decorate is not None:
            query = self.decorate(query)
        for one in self.selects:
            query = sql.select(["*"], query, [sql.conjunction(self.predicate_order.order(one))])
        return query

    @property
    def _since_ts(self) -> int:
        """From where on the query of the operator sees the stream."""
        return BEGINNING_US if self.source.since is None else self.source.since.us

    def waiting_rows(self, from_ts: int, to_ts: int = END_US) -> float:
        """Estimated number of retained tuples between two timestamps, of those that selections passed on."""
        from_ts = max(from_ts, self._since_ts)
        upto = min(to_ts, self.passed_ts)
        if upto <= from_ts:
            return 0.0
        return self.selectivity * sum(b.rows_from(from_ts) - b.rows_from(upto) for b in self.blocks)

    def spreads(self, old_ts: int, new_from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """Timestamp distribution of the tuples waiting since ``old_ts`` and of new ones."""
        upto = min(to_ts, self.passed_ts)
        stored = [
            b.spread.between(old_ts, upto).scaled(self.selectivity) for b in self.blocks if upto > old_ts
        ]
        return (*stored, *self.rows.scaled_spreads(new_from_ts, to_ts))

    def retain(self, from_ts: int) -> Retained:
        """Blocks of the log: retaining them costs nothing but a reference."""
        from_ts = max(from_ts, self._since_ts)
        return Retained(tuple(b for b in (*self.blocks, *self.fresh) if b.max_ts >= from_ts))

    @property
    def content_rows(self) -> float:
        """Estimated number of tuples, retained and new."""
        return float(sum(block.rows for block in (*self.blocks, *self.fresh)))

    @property
    def is_small(self) -> bool:
        """Whether one task can process all tuples."""
        return self.content_rows <= self.logs.one_task_rows


@dataclass(frozen=True)
class QueueInput:
    """The operator's own queue, and the output of the operator below in this tick."""

    store: BlockStore
    name: str
    """Name of the queue's view."""
    schema: StructType
    blocks: tuple[BlockRef, ...]
    rows: Rows
    log: LogInput | None = None
    """The log of the stream below a row window, which decides when tuples expire."""
    selects: tuple[Select, ...] = ()
    """Leave out tuples when the queue is read: those that a window holds, but its operator does not take."""

    def where(self, condition: Select) -> QueueInput:
        """The input without the tuples for which a condition does not hold."""
        return replace(self, selects=(*self.selects, condition))

    @property
    def unfiltered(self) -> QueueInput:
        """The same input with all its tuples."""
        return replace(self, selects=())

    def content(self, from_ts: int, to_ts: int) -> str | None:
        """Retained and new tuples between two timestamps."""
        return self.filtered(sql.union([self._stored(from_ts, to_ts), self.rows.read_range(from_ts, to_ts)]))

    def taken(self, old_ts: int, new_ts: int, from_ts: int, to_ts: int) -> str | None:
        """Tuples waiting since ``old_ts`` and new ones, below ``new_ts``."""
        upto = min(new_ts, to_ts)
        stored = self._stored(max(old_ts, from_ts), upto)
        return self.filtered(sql.union([stored, self.rows.read_range(from_ts, upto)]))

    def filtered(self, tuples: str | None) -> str | None:
        """The tuples for which the selections hold."""
        if tuples is not None:
            for one in self.selects:
                tuples = sql.select(["*"], tuples, [sql.conjunction(one.predicates)])
        return tuples

    def _stored(self, from_ts: int, to_ts: int) -> str | None:
        reached = [block for block in self.blocks if block.max_ts >= from_ts and block.min_ts < to_ts]
        if not reached:
            return None
        view = self.store.view(self.name, reached, self.schema)
        return sql.select(sql.names(self.schema.names), between(view, from_ts, to_ts))

    def waiting_rows(self, from_ts: int, to_ts: int = END_US) -> float:
        """Estimated number of retained tuples between two timestamps."""
        return sum(block.rows_from(from_ts) - block.rows_from(to_ts) for block in self.blocks)

    def spreads(self, old_ts: int, new_from_ts: int, to_ts: int) -> tuple[Spread, ...]:
        """Timestamp distribution of the tuples waiting since ``old_ts`` and of new ones."""
        stored = [block.spread.between(old_ts, to_ts) for block in self.blocks]
        return (*stored, *self.rows.scaled_spreads(new_from_ts, to_ts))

    def retain(self, from_ts: int) -> Retained:
        """The queue's blocks; new tuples must be stored."""
        kept = tuple(block for block in self.blocks if block.max_ts >= from_ts)
        left = self.rows.read_range(from_ts, END_US)
        if left is None:
            return Retained(kept)
        expected = max(self.rows.count, self.rows.upstream_rows) * (1 - self.rows.share_below(from_ts))
        return Retained(kept, sql.select(sql.names(self.schema.names), left), self.schema, expected)

    @property
    def content_rows(self) -> float:
        """Estimated number of tuples, retained and new."""
        return sum(block.rows for block in self.blocks) + max(self.rows.count, self.rows.upstream_rows)

    @property
    def is_small(self) -> bool:
        """Whether one task can process all tuples."""
        return self.content_rows <= self.store.one_task_rows
