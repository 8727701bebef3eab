"""Appending: the good rows of a stream in a tick become blocks of its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from headgate.model.event import StreamCounts
from headgate.model.shedding import KEEP, TickSettings
from headgate.spark import sql
from headgate.spark.arrival.drop_box import keep_ratio
from headgate.spark.arrival.late_rows import PLACE, arrival_order
from headgate.spark.arrival.split_statistics import SplitStatistics, timestamp_quantiles
from headgate.spark.blocks import block_measures, measured_block, width_bytes
from headgate.spark.held_rows import HeldRows
from headgate.spark.manifest import BlockRef, StreamState
from headgate.spark.rows import QUANTILES, in_range
from headgate.spark.sources import TEXT_FORMATS, Sources
from headgate.spark.sql import POSITION, SEQ, TS
from headgate.spark.stream_log import LogSchema, StreamLogs

_ROWS_PER_STAMP = 10_000
_MOST_STAMPS = 64

SMALL_FILES_BYTES = 8 * 2**20
"""Columnar files up to this size are held in memory when they arrive."""


@dataclass(frozen=True)
class TickContext:
    """The tick in which rows arrive."""

    batch_id: int
    now_us: int
    settings: TickSettings
    end_of_input: bool

    def block_path(self, name: str) -> str:
        """Path of a new block, relative to the checkpoint."""
        return f"blocks/{self.batch_id:09d}/{name}"


@dataclass(frozen=True)
class GoodRows:
    """The rows of a stream in a tick that are neither bad, late nor shed, and counts of those that are."""

    rows: int
    min_ts: int
    max_ts: int
    splits: tuple[SplitStatistics, ...]
    ranks: Mapping[str, int]
    """Files in order of arrival."""
    view: str = ""
    """A view that holds them, and perhaps others."""
    where: tuple[str, ...] = ()
    late: int = 0
    lateness_us: int = 0
    """The watermark delay with which no row would have been late."""
    bad: int = 0
    shed: int = 0
    dead_letters: str | None = None
    held: HeldRows | None = None
    """All rows of ``view``, if they are in memory."""
    holds_tuples: bool = False
    """Whether ``held`` are tuples of the log rather than rows of the source."""
    fill_files: bool = False
    """Whether they are all rows of the files that they come from."""

    @property
    def counts(self) -> StreamCounts:
        """All rows that have arrived, by what became of them."""
        rows_in = self.rows + self.late + self.bad + self.shed
        return StreamCounts(rows_in, self.late, self.bad, self.shed)

    @property
    def files(self) -> tuple[str, ...]:
        """In order of arrival."""
        return tuple(sorted(self.ranks, key=lambda file: self.ranks[file]))


@dataclass(frozen=True)
class Appended:
    """A log after a tick: the state of its stream, and its new blocks.

    ``unwritten`` are blocks that are in memory only, until the tick writes those that it keeps.
    """

    state: StreamState
    blocks: tuple[BlockRef, ...] = ()
    unwritten: Mapping[str, DataFrame] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class LogAppender:
    """Appends to the logs of all streams. ``utilities`` are the expressions by which streams are shed."""

    _spark: SparkSession
    _sources: Sources
    _logs: StreamLogs
    _utilities: Mapping[str, str]

    def gathers(self, schema: LogSchema, files: Sequence[str]) -> bool:
        """Whether several small files of numbered tuples become one block, as each is a read of its own."""
        return schema.is_numbered and (
            schema.is_sequenced or (len(files) > 1 and self._sources.total_bytes(files) <= SMALL_FILES_BYTES)
        )

    def append(self, schema: LogSchema, good: GoodRows, state: StreamState, tick: TickContext) -> Appended:
        """Append to a log whose tuples need not wait for the watermark."""
        first_seq = state.next_seq if schema.is_numbered else None
        after = replace(state, next_seq=state.next_seq + good.rows) if schema.is_numbered else state
        path = tick.block_path(schema.definition.name)
        whole = _block(path, schema, good, tick.now_us, first_seq)
        if not self._stays_in_place(schema, good):
            query = self._tuples_query(schema, good, tick.settings, first_seq)
            return Appended(after, (whole,), {path: self._hold_block(path, schema, good, query)})
        whole = replace(whole, files=good.files)
        if good.held is not None and (good.holds_tuples or (schema.is_plain and not good.where)):
            self._logs.memory.put(path, good.held, good.rows)
            return Appended(after, (whole,))
        if len(good.ranks) == 1 or (first_seq is None and not any(s.file for s in good.splits)):
            return Appended(after, (whole,))
        return Appended(after, _block_per_file(path, schema, good, tick.now_us, first_seq))

    def _hold_block(self, path: str, schema: LogSchema, good: GoodRows, query: str) -> DataFrame:
        """Hold a block in memory, and return its tuples."""
        held, tuples = good.held, self._spark.sql(query)
        if held is None or good.where or not schema.is_plain:
            held = self._logs.memory.hold(tuples)
            tuples = held.frame
        self._logs.memory.put(path, held, good.rows)
        return tuples

    def _stays_in_place(self, schema: LogSchema, good: GoodRows) -> bool:
        """Whether the source files themselves are blocks of the log."""
        definition = schema.definition
        if not good.fill_files or definition.format in TEXT_FORMATS:
            return False
        if not schema.is_numbered:
            return True
        if self.gathers(schema, list(good.ranks)):
            return False
        # the number of a row is its place in its file
        return definition.timestamp is not None and definition.format == "parquet"

    def _tuples_query(
        self,
        schema: LogSchema,
        good: GoodRows,
        settings: TickSettings,
        first_seq: int | None,
        place_as: str = SEQ,
    ) -> str:
        """The good rows as tuples of the log."""
        definition, anchor = schema.definition, schema.anchor
        items = [sql.name(f.name) for f in schema.columns.fields if f.name != KEEP]
        if schema.tells_keep_ratio:
            # of tuples kept for their utility, how many others each one stands for is unknown
            keep = 1.0 if definition.name in self._utilities else settings.keep_ratio(definition.name)
            items.append(f"{keep_ratio(keep, anchor)} AS {sql.name(KEEP)}")
        order = ", ".join([sql.name(TS), *arrival_order(good.ranks)])
        place = f"(row_number() OVER (ORDER BY {order}) - 1)"
        if definition.timestamp is not None:
            items.append(sql.name(TS))
        else:
            # one microsecond apart, so that numbered tuples stamped on arrival keep their order
            step = f" + {place}" if schema.is_numbered else _step(good, anchor)
            items.append(f"{sql.Bound(good.min_ts).at(anchor)}{step} AS {sql.name(TS)}")
        if place_as == POSITION and schema.is_partitioned:
            # tuples of equal timestamps are numbered by partition and offset, whatever tick brings them
            items.append(f"{sql.name(PLACE)} AS {sql.name(POSITION)}")
        elif first_seq is not None:
            items.append(f"{sql.Bound(first_seq).at(anchor)} + {place} AS {sql.name(place_as)}")
        return sql.select(items, good.view, good.where)

    def sequence(
        self,
        schema: LogSchema,
        good: GoodRows | None,
        before: StreamState,
        state: StreamState,
        tick: TickContext,
    ) -> Appended:
        """Number the tuples that the watermark has passed; the others wait in the tail."""
        name, unwritten = schema.definition.name, {}
        if good is not None:
            path = tick.block_path(f"{name}-tail")
            query = self._tuples_query(schema, good, tick.settings, state.next_position, POSITION)
            held = self._logs.memory.hold(self._spark.sql(query))
            self._logs.memory.put(path, held, good.rows)
            tail = (*state.tail, _block(path, schema, good, tick.now_us, None))
            state = replace(state, next_position=state.next_position + good.rows, tail=tail)
            unwritten[path] = held.frame
        due = [b for b in state.tail if b.min_ts < state.watermark_ts and b.max_ts >= before.watermark_ts]
        waiting = tuple(block for block in state.tail if block.max_ts >= state.watermark_ts)
        unwritten = {path: frame for path, frame in unwritten.items() if any(b.path == path for b in waiting)}
        state = replace(state, tail=waiting)
        if not due or state.watermark_ts <= before.watermark_ts:
            return Appended(state, (), unwritten)
        held = self._logs.memory.hold(self._numbered(schema, due, before.watermark_ts, state))
        view = self._logs.views.define(f"numbered {name}", held.frame)
        measures = block_measures(schema.struct)
        [found] = self._spark.sql(sql.select(measures, view)).collect()
        if not found["rows"]:
            return Appended(state, (), unwritten)
        path = tick.block_path(name)
        held.settle()
        self._logs.memory.put(path, held, found["rows"])
        arrived_us = min([tick.now_us, *(b.arrived_us for b in due)])
        block = measured_block(path, schema.struct, found.asDict(), arrived_us)
        after = replace(state, next_seq=state.next_seq + block.rows)
        return Appended(after, (replace(block, first_seq=state.next_seq),), {**unwritten, path: held.frame})

    def _numbered(
        self, schema: LogSchema, due: Sequence[BlockRef], from_ts: int, state: StreamState
    ) -> DataFrame:
        """Tuples of the tail below the watermark, in timestamp order, with their numbers."""
        name = schema.definition.name
        view = self._logs.text(f"due {name}", name, due, _tail_columns(schema))
        order = f"ORDER BY {sql.name(TS)}, {sql.name(POSITION)}"
        number = f"{sql.Bound(state.next_seq).at(sql.name(TS))} + row_number() OVER ({order}) - 1"
        items = [*sql.names(schema.columns.names), sql.name(TS), f"{number} AS {sql.name(SEQ)}"]
        return self._spark.sql(sql.select(items, view, in_range(from_ts, state.watermark_ts)))


def stamps(rows: int) -> int:
    """Timestamps of so many tuples that are stamped on arrival: a tick can be cut between two of them."""
    return min(_MOST_STAMPS, 1 + rows // _ROWS_PER_STAMP)


def _step(good: GoodRows, anchor: str) -> str:
    """How much later than the first of the tick a tuple is stamped, as a term; nothing for few tuples."""
    count = good.max_ts - good.min_ts + 1
    if count == 1:
        return ""
    partitions: Counter[int] = Counter()
    for split in good.splits:
        partitions[split.partition] += split.rows
    longest = max(partitions.values())
    # a row's place ends with its number in the partition
    number = f"({sql.name(PLACE)} & {2**33 - 1}L) div {sql.Bound(-(-longest // count)).at(anchor)}"
    return f" + least({number}, {sql.Bound(count - 1).at(anchor)})"


def _tail_columns(schema: LogSchema) -> StructType:
    """The columns of a tuple in the tail: a position in place of a number."""
    own = [field for field in schema.struct.fields if field.name != SEQ]
    return StructType([*own, StructField(POSITION, LongType())])


def _block(path: str, schema: LogSchema, good: GoodRows, now_us: int, first_seq: int | None) -> BlockRef:
    """A block of good rows."""
    is_stamped = schema.definition.timestamp is None
    min_ts = max_ts = good.min_ts
    quantiles: tuple[int, ...] = ()
    if not is_stamped:
        max_ts = good.max_ts
        quantiles = timestamp_quantiles(good.splits, min_ts, max_ts)
    elif schema.is_numbered:
        max_ts += good.rows - 1
    elif good.max_ts > min_ts:
        max_ts = good.max_ts
        quantiles = tuple(min_ts + (max_ts - min_ts) * i // QUANTILES for i in range(QUANTILES + 1))
    [first, *others] = good.splits
    return BlockRef(
        path=path,
        rows=good.rows,
        bytes=round(good.rows * width_bytes(schema.struct)),
        min_ts=min_ts,
        max_ts=max_ts,
        arrived_us=now_us,
        quantiles=quantiles,
        first_seq=first_seq,
        # if so, quantiles are timestamps at evenly spaced places
        is_in_order=not others and first.in_order and not first.bad and not first.shed,
    )


def _block_per_file(
    path: str, schema: LogSchema, good: GoodRows, now_us: int, first_seq: int | None
) -> tuple[BlockRef, ...]:
    """A block for every source file, so that a window reads no file that it does not reach."""
    blocks = []
    for place, file in enumerate(good.files):
        own = tuple(split for split in good.splits if split.file == file)
        rows = sum(split.rows for split in own)
        if rows:
            min_ts, max_ts = good.min_ts, good.min_ts
            if schema.definition.timestamp is not None:
                min_ts, max_ts = min(s.min_ts for s in own), max(s.max_ts for s in own)
            of_file = replace(good, rows=rows, min_ts=min_ts, max_ts=max_ts, splits=own)
            block = _block(f"{path}-{place}", schema, of_file, now_us, first_seq)
            blocks.append(replace(block, files=(file,)))
            first_seq = None if first_seq is None else first_seq + rows
    return tuple(blocks)
