"""Appending: the good rows of a stream in a tick become blocks of its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from headgate.model.shedding import KEEP, Course
from headgate.spark import sql
from headgate.spark.arrivals import Chunk, Source, arrival_order
from headgate.spark.blocks import width_bytes
from headgate.spark.columns import POSITION, SEQ, TS
from headgate.spark.dropbox import keep_ratio
from headgate.spark.held_rows import HeldRows
from headgate.spark.manifest import BlockRef, StreamState
from headgate.spark.rows import in_range
from headgate.spark.sources import TEXT_FORMATS, Sources
from headgate.spark.spread import QUANTILES, merged_quantiles
from headgate.spark.stream_log import LogSchema, StreamLogs

SMALL_FILES_BYTES = 8 * 2**20
"""Columnar files up to this size are held in memory when they arrive."""


@dataclass(frozen=True)
class GoodRows:
    """The rows of a stream that are neither bad nor late."""

    source: Source
    view: str
    """A view of them and perhaps of others."""
    where: tuple[str, ...]
    rows: int
    late: int
    bad: int
    shed: int
    min_ts: int
    max_ts: int
    chunks: tuple[Chunk, ...]
    ranks: Mapping[str, int]
    dead_letters: str | None
    held: HeldRows | None
    """All rows of ``view``, if they are in memory."""
    holds_tuples: bool = False
    """Whether what is held are tuples of the log, rather than rows of the source."""

    @property
    def is_untouched(self) -> bool:
        """Whether its files hold nothing but tuples."""
        return not self.late and not self.bad and self.source.box is None


@dataclass(frozen=True)
class Appended:
    """A log after a tick: the state of its stream, and its new blocks."""

    state: StreamState
    blocks: tuple[BlockRef, ...] = ()
    unwritten: Mapping[str, DataFrame] = field(default_factory=dict)


class LogAppender:
    """Appends to the logs of all streams. ``utilities`` say by what streams are shed, if not at random."""

    def __init__(
        self, spark: SparkSession, sources: Sources, logs: StreamLogs, utilities: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._logs = logs
        self._utilities = utilities

    def gathers(self, schema: LogSchema, files: Sequence[str]) -> bool:
        """Whether several small files of numbered tuples become one block, as each is a read of its own."""
        return schema.is_numbered and (
            schema.is_sequenced or (len(files) > 1 and self._sources.total_bytes(files) <= SMALL_FILES_BYTES)
        )

    def append(
        self,
        schema: LogSchema,
        good: GoodRows,
        course: Course,
        state: StreamState,
        batch_id: int,
        now_us: int,
    ) -> Appended:
        """New blocks of a log whose tuples need not wait."""
        first_seq = state.next_seq if schema.is_numbered else None
        after = replace(state, next_seq=state.next_seq + good.rows) if schema.is_numbered else state
        path = f"blocks/{batch_id:09d}/{schema.definition.name}"
        whole = _block(path, schema, good, now_us, first_seq)
        if self._stays_in_place(schema, good):
            files = tuple(sorted(good.ranks, key=lambda file: good.ranks[file]))
            if good.held is not None and (good.holds_tuples or (schema.is_plain and not good.where)):
                self._logs.memory.put(path, good.held, good.rows)
                return Appended(after, (replace(whole, files=files),))
            if len(files) == 1 or (first_seq is None and not any(c.file for c in good.chunks)):
                return Appended(after, (replace(whole, files=files),))
            return Appended(after, _block_per_file(path, schema, good, now_us, first_seq))
        tuples = self._hold_block(path, schema, good, course, first_seq)
        return Appended(after, (whole,), {path: tuples})

    def _hold_block(
        self, path: str, schema: LogSchema, good: GoodRows, course: Course, first_seq: int | None
    ) -> DataFrame:
        """Hold a block in memory; its tuples."""
        held, tuples = good.held, self._tuples(schema, good, course, first_seq)
        if held is None or good.where or not schema.is_plain:
            held = self._logs.memory.hold(tuples)
            tuples = held.frame
        self._logs.memory.put(path, held, good.rows)
        return tuples

    def _stays_in_place(self, schema: LogSchema, good: GoodRows) -> bool:
        """Whether the source files themselves are blocks of the log."""
        definition = schema.definition
        if not good.source.is_file or definition.format in TEXT_FORMATS or not good.is_untouched:
            return False
        if not schema.is_numbered:
            return True
        if self.gathers(schema, list(good.ranks)):
            return False
        # the number of a row is its place in its file
        return definition.timestamp is not None and definition.format == "parquet"

    def _tuples(self, schema: LogSchema, good: GoodRows, course: Course, first_seq: int | None) -> DataFrame:
        """The good rows as tuples of the log."""
        return self._spark.sql(self._tuples_query(schema, good, course, first_seq))

    def _tuples_query(
        self, schema: LogSchema, good: GoodRows, course: Course, first_seq: int | None, place_as: str = SEQ
    ) -> str:
        definition, anchor = schema.definition, schema.anchor
        items = [sql.name(f.name) for f in schema.columns.fields if f.name != KEEP]
        if schema.tells_keep_ratio:
            # of tuples kept for their utility, how many others each one stands for is unknown
            keep = 1.0 if definition.name in self._utilities else course.share(definition.name)
            items.append(f"{keep_ratio(keep, anchor)} AS {sql.name(KEEP)}")
        order = ", ".join([sql.name(TS), *arrival_order(good.ranks)])
        place = f"(row_number() OVER (ORDER BY {order}) - 1)"
        if definition.timestamp is not None:
            items.append(sql.name(TS))
        elif schema.is_numbered:
            # one microsecond apart, so that tuples stamped on arrival keep their order
            items.append(f"{sql.Bound(good.min_ts).at(anchor)} + {place} AS {sql.name(TS)}")
        else:
            items.append(f"{sql.Bound(good.min_ts).at(anchor)} AS {sql.name(TS)}")
        if first_seq is not None:
            items.append(f"{sql.Bound(first_seq).at(anchor)} + {place} AS {sql.name(place_as)}")
        return sql.select(items, good.view, good.where)

    def sequence(
        self,
        schema: LogSchema,
        good: GoodRows | None,
        course: Course,
        before: StreamState,
        state: StreamState,
        batch_id: int,
        now_us: int,
    ) -> Appended:
        """Number the tuples that the watermark has passed; the others wait in the tail."""
        name, tail, unwritten = schema.definition.name, list(state.tail), {}
        tail_columns = _tail_columns(schema)
        if good is not None:
            path = f"blocks/{batch_id:09d}/{name}-tail"
            arrived = self._spark.sql(self._tuples_query(schema, good, course, state.next_position, POSITION))
            held = self._logs.memory.hold(arrived)
            self._logs.memory.put(path, held, good.rows)
            tail.append(_block(path, schema, good, now_us, None))
            unwritten[path] = held.frame
            state = replace(state, next_position=state.next_position + good.rows)
        due = [b for b in tail if b.min_ts < state.watermark_ts and b.max_ts >= before.watermark_ts]
        waiting = tuple(block for block in tail if block.max_ts >= state.watermark_ts)
        unwritten = {path: frame for path, frame in unwritten.items() if any(b.path == path for b in waiting)}
        state = replace(state, tail=waiting)
        if not due or state.watermark_ts <= before.watermark_ts:
            return Appended(state, (), unwritten)
        view = self._logs.views.define(f"due {name}", self._logs.frame(name, due, tail_columns))
        order = f"ORDER BY {sql.name(TS)}, {sql.name(POSITION)}"
        number = f"{sql.Bound(state.next_seq).at(sql.name(TS))} + row_number() OVER ({order}) - 1"
        items = [*sql.names(schema.columns.names), sql.name(TS), f"{number} AS {sql.name(SEQ)}"]
        numbered = self._spark.sql(sql.select(items, view, in_range(before.watermark_ts, state.watermark_ts)))
        held = self._logs.memory.hold(numbered)
        view = self._logs.views.define(f"numbered {name}", held.frame)
        shares = ", ".join(repr(i / QUANTILES) for i in range(QUANTILES + 1))
        own = sql.name(TS)
        measures = [
            "count(1)",
            f"min({own})",
            f"max({own})",
            f"percentile_approx({own}, array({shares}), 500)",
        ]
        [(rows, min_ts, max_ts, quantiles)] = self._spark.sql(sql.select(measures, view)).collect()
        if not rows:
            return Appended(state, (), unwritten)
        path = f"blocks/{batch_id:09d}/{name}"
        held.settle()
        self._logs.memory.put(path, held, rows)
        block = BlockRef(
            path=path,
            rows=rows,
            bytes=round(rows * width_bytes(schema.struct)),
            min_ts=min_ts,
            max_ts=max_ts,
            arrived_us=min([now_us, *(b.arrived_us for b in due)]),
            quantiles=tuple(sorted(quantiles)),
            first_seq=state.next_seq,
        )
        state = replace(state, next_seq=state.next_seq + rows)
        return Appended(state, (block,), {**unwritten, path: held.frame})


def _tail_columns(schema: LogSchema) -> StructType:
    """The columns of a tuple in the tail: a position in place of a number."""
    own = [field for field in schema.struct.fields if field.name != SEQ]
    return StructType([*own, StructField(POSITION, LongType())])


def _block(path: str, schema: LogSchema, good: GoodRows, now_us: int, first_seq: int | None) -> BlockRef:
    """All good rows of a stream in a tick, as one block."""
    stamped = schema.definition.timestamp is None
    min_ts = max_ts = good.min_ts
    if stamped:
        max_ts += good.rows - 1 if schema.is_numbered else 0
    else:
        max_ts = good.max_ts
    return BlockRef(
        path=path,
        rows=good.rows,
        bytes=round(good.rows * width_bytes(schema.struct)),
        min_ts=min_ts,
        max_ts=max_ts,
        arrived_us=now_us,
        quantiles=() if stamped else _quantiles(good.chunks, min_ts, max_ts),
        first_seq=first_seq,
        is_in_order=_is_in_order(good.chunks),
    )


def _block_per_file(
    path: str, schema: LogSchema, good: GoodRows, now_us: int, first_seq: int | None
) -> tuple[BlockRef, ...]:
    """A block for every source file, so that a window reads no file that it does not reach."""
    blocks = []
    for place, file in enumerate(sorted(good.ranks, key=lambda file: good.ranks[file])):
        own = [chunk for chunk in good.chunks if chunk.file == file]
        rows = sum(chunk.rows - chunk.bad for chunk in own)
        if not rows:
            continue
        stamped = schema.definition.timestamp is None
        min_ts = good.min_ts if stamped else min(chunk.min_ts for chunk in own)
        max_ts = good.min_ts if stamped else max(chunk.max_ts for chunk in own)
        blocks.append(
            BlockRef(
                path=f"{path}-{place}",
                rows=rows,
                bytes=round(rows * width_bytes(schema.struct)),
                min_ts=min_ts,
                max_ts=max_ts,
                arrived_us=now_us,
                quantiles=() if stamped else _quantiles(own, min_ts, max_ts),
                first_seq=first_seq,
                files=(file,),
                is_in_order=_is_in_order(own),
            )
        )
        if first_seq is not None:
            first_seq += rows
    return tuple(blocks)


def _is_in_order(chunks: Sequence[Chunk]) -> bool:
    """Whether quantiles are timestamps at evenly spaced places."""
    return len(chunks) == 1 and chunks[0].in_order and not chunks[0].bad and not chunks[0].shed


def _quantiles(chunks: Sequence[Chunk], min_ts: int, max_ts: int) -> tuple[int, ...]:
    """Evenly spaced quantiles of timestamps over several chunks."""
    known = [chunk for chunk in chunks if chunk.quantiles]
    if len(known) == 1:
        inner = [ts for ts in known[0].quantiles if min_ts <= ts <= max_ts]
        return tuple(sorted([min_ts, *inner[1:-1], max_ts]))
    return merged_quantiles([chunk.spread for chunk in known], min_ts, max_ts)
