"""Intake: from a micro-batch to new blocks in the log of each stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.model.event import StreamCounts
from headgate.model.network import Network, StreamDefinition
from headgate.model.shedding import Course, DropBox, Floor
from headgate.spark import appending, sql
from headgate.spark.appending import Appended, GoodRows, LogAppender
from headgate.spark.arrivals import (
    LATE,
    Chunk,
    Source,
    chunk_statistics,
    file_ranks,
    in_arrival_order,
    late_flagged,
    may_hold_late_rows,
    placed_items,
    set_aside,
    utility_quantiles,
)
from headgate.spark.columns import BEGINNING_US, END_US, TS
from headgate.spark.file_timestamps import read_timestamps
from headgate.spark.filelog import FileSourceLog
from headgate.spark.files import normal_path
from headgate.spark.held_rows import HeldRows
from headgate.spark.manifest import BlockRef, Manifest, StreamState
from headgate.spark.quarantine import Quarantine
from headgate.spark.rows import Rows
from headgate.spark.sources import STREAM, TEXT_FORMATS, Sources
from headgate.spark.stream_log import StreamLogs, in_place_items

# reading more footers one by one would take longer than a Spark job
_MOST_FOOTERS = 16
# files up to this size together are read by one task
_ONE_TASK_BYTES = 2**20
# larger ones are held where so many queries read them
_READERS_TO_HOLD = 3
# more than this is looked at by a job, which has all processors
_MOST_FILES_LOOKED_AT = 256
_MOST_BYTES_LOOKED_AT = 256 * 2**20


@dataclass(frozen=True)
class Arrival:
    """A stream in a tick: its new state, and the blocks that arrived.

    ``unwritten`` are the blocks that are in memory only, until the tick writes those that it keeps.
    """

    state: StreamState
    blocks: tuple[BlockRef, ...]
    rows: Rows
    counts: StreamCounts
    dead_letters: str | None = None
    unwritten: Mapping[str, DataFrame] = field(default_factory=dict)


class Intake:
    """Reads micro-batches."""

    def __init__(
        self,
        spark: SparkSession,
        network: Network,
        sources: Sources,
        source_log: FileSourceLog,
        logs: StreamLogs,
        raw: Mapping[str, StructType],
    ) -> None:
        self._spark = spark
        self._network = network
        self._sources = sources
        self._source_log = source_log
        self._logs = logs
        self._raw = raw
        self._utilities = network.utilities()
        self._appender = LogAppender(spark, sources, logs, self._utilities)
        self._readers = Counter(s for query in network.queries for s in network.streams_of(query))
        self.quarantine = Quarantine(spark, sources)

    def is_exhausted(self, batch_id: int) -> bool:
        """Whether every stream comes to its end with this micro-batch, or has before."""
        offsets, earlier = self._source_log.offsets(batch_id), self._source_log.offsets(batch_id - 1)
        return all(
            self._sources.is_at_end(definition, offsets.get(name), earlier.get(name))
            or self._has_no_file_left(definition, batch_id)
            for name, definition in self._network.streams.items()
        )

    def _has_no_file_left(self, definition: StreamDefinition, batch_id: int) -> bool:
        # seen in the tick that brings the last file, the end costs no tick of its own
        if not self._sources.is_file_stream(definition):
            return False
        seen = self._source_log.files_until(definition.name, batch_id)
        if self._sources.has_more_files(definition, len(seen)):
            return False
        return seen.issuperset(map(normal_path, self._sources.present_files(definition)))

    def take(
        self, batch: DataFrame, batch_id: int, before: Manifest, now_us: int, end_of_input: bool = False
    ) -> dict[str, Arrival]:
        """What every stream brings into this tick; drop boxes are those of the manifest before it."""
        boxes = {name: self._with_floor(box, before) for name, box in before.course.boxes().items()}
        files = {
            name: self.quarantine.readable(definition, self._source_log.files(name, batch_id), batch_id)
            for name, definition in self._network.streams.items()
            if self._sources.is_file_stream(definition)
        }
        counted = {name for name in files if name not in boxes and self._tells_rows(name, files[name])}
        looked_at = {
            name: found
            for name in files.keys() - counted - boxes.keys()
            if (found := self._look_at(name, files[name], before, now_us)) is not None
        }
        held, sources = self._sources_of(batch, files, counted | looked_at.keys(), boxes, now_us)
        chunks = chunk_statistics(self._spark, list(sources.values()))
        for rows in held.values():
            rows.settle()
        arrivals = {}
        for name, definition in self._network.streams.items():
            state = before.streams.get(name, StreamState())
            good = None
            if name in counted and files[name]:
                good = self._counted(definition, files[name], state, now_us)
            elif name in looked_at:
                good = self._as_it_is(definition, files[name], looked_at[name])
            elif own := [
                c for c in chunks if name in sources and c.stream == sources[name].number and c.rows
            ]:
                good = self._good(
                    sources[name], own, files.get(name, []), state, batch_id, now_us, held.get(name)
                )
            arrivals[name] = self._arrival(
                definition, state, good, before.course, batch_id, now_us, end_of_input
            )
        return self.quarantine.noted(arrivals, batch_id)

    def _with_floor(self, box: DropBox, before: Manifest) -> DropBox:
        """By utility, once the distribution of utilities is known; until then by hash."""
        text = self._utilities.get(box.stream)
        known = before.streams.get(box.stream, StreamState()).utilities
        return box if text is None or not known else replace(box, floor=Floor.of(text, box.keep, known))

    def _tells_rows(self, name: str, files: Sequence[str]) -> bool:
        """Whether the number of rows is all there is to know of new files, and their footers tell it."""
        definition = self._network.streams[name]
        return (
            definition.timestamp is None
            and not self._logs.schemas[name].is_numbered
            and name not in self._utilities
            and definition.format == "parquet"
            and len(files) <= _MOST_FOOTERS
        )

    def _sources_of(
        self,
        batch: DataFrame,
        files: Mapping[str, list[str]],
        counted: set[str],
        boxes: Mapping[str, DropBox],
        now_us: int,
    ) -> tuple[dict[str, HeldRows], dict[str, Source]]:
        """The rows of file streams, read from their files, and of all others."""
        held: dict[str, HeldRows] = {}
        sources: dict[str, Source] = {}
        shared: HeldRows | None = None
        for number, (name, definition) in enumerate(self._network.streams.items()):
            is_file = name in files
            if is_file and (not files[name] or name in counted):
                continue
            if is_file:
                raw = self._sources.read_files(definition, files[name])
            else:
                shared = shared or self._logs.memory.hold(self._own(batch))
                raw = shared.frame.where(f"`{STREAM}` = {number}").selectExpr(f"row{number}.*")
            placed = raw.selectExpr(*placed_items(self._logs.schemas[name].timestamp, is_file))
            if is_file and self._sources.total_bytes(files[name]) <= _ONE_TASK_BYTES:
                placed = placed.coalesce(1)
            if not is_file or self._fits_memory(definition, files[name]):
                # text is parsed once; of large columnar files, only the columns in need are read
                held[name] = self._logs.memory.hold(placed)
                placed = held[name].frame
            view = self._logs.views.define(f"arriving {name}", placed)
            sources[name] = Source(
                definition,
                number,
                view,
                raw.schema,
                is_file,
                now_us + definition.max_ahead_us,
                boxes.get(name),
                self._utilities.get(name),
            )
        return held, sources

    def _own(self, batch: DataFrame) -> DataFrame:
        """A micro-batch in our session: the one that Spark hands it over in knows none of our views."""
        java, session = cast(Any, batch._jdf), cast(Any, self._spark._jsparkSession)
        rows = java.queryExecution().toRdd()
        return DataFrame(session.internalCreateDataFrame(rows, java.schema(), False), self._spark)

    def _fits_memory(self, definition: StreamDefinition, files: Sequence[str]) -> bool:
        if definition.format in TEXT_FORMATS:
            return True
        return self._sources.total_bytes(files) <= appending.SMALL_FILES_BYTES

    def _look_at(self, name: str, files: Sequence[str], before: Manifest, now_us: int) -> list[Chunk] | None:
        """Statistics of new files without a job; None if these do not tell that all rows are good."""
        definition, schema = self._network.streams[name], self._logs.schemas[name]
        if (
            definition.format != "parquet"
            or definition.timestamp is None
            or name in self._utilities
            or not 0 < len(files) <= _MOST_FILES_LOOKED_AT
            or self._sources.local_bytes(files) > _MOST_BYTES_LOOKED_AT
            or self._appender.gathers(schema, files)
        ):
            return None
        declared = next(f for f in self._raw[name].fields if f.name.lower() == definition.timestamp.lower())
        chunks = []
        for file in files:
            found = read_timestamps(file, declared.name, declared.dataType)
            if found is None:
                return None
            if found.rows:
                ends, in_order, quantiles = (found.min_ts, found.max_ts), found.in_order, found.quantiles
                chunks.append(Chunk(-1, file, 0, 0, found.rows, 0, *ends, in_order, quantiles=quantiles))
        state = before.streams.get(name, StreamState())
        has_bad = any(chunk.max_ts > now_us + definition.max_ahead_us for chunk in chunks)
        if has_bad or may_hold_late_rows(chunks, definition, state.max_ts, state.floor_ts):
            return None
        return chunks

    def _as_it_is(
        self, definition: StreamDefinition, files: Sequence[str], chunks: Sequence[Chunk]
    ) -> GoodRows | None:
        """Files without a bad or late row."""
        if not chunks:
            return None
        name = definition.name
        source = Source(definition, -1, "", self._raw[name], True, END_US)
        schema, size_bytes = self._logs.schemas[name], self._sources.total_bytes(files)
        held = None
        is_read_often = self._readers[name] >= _READERS_TO_HOLD and size_bytes <= appending.SMALL_FILES_BYTES
        if not schema.is_numbered and (is_read_often or size_bytes <= _ONE_TASK_BYTES):
            rows = self._sources.read_files(definition, list(files))
            tuples = rows.selectExpr(*in_place_items(schema, None, {}))
            held = self._logs.memory.hold(tuples.coalesce(1) if size_bytes <= _ONE_TASK_BYTES else tuples)
        ranks = {file: place for place, file in enumerate(files)}
        min_ts, max_ts = min(c.min_ts for c in chunks), max(c.max_ts for c in chunks)
        rows_in = sum(chunk.rows for chunk in chunks)
        ends = min_ts, max_ts
        return GoodRows(source, "", (), rows_in, 0, 0, 0, *ends, tuple(chunks), ranks, None, held, True)

    def _counted(
        self, definition: StreamDefinition, files: list[str], state: StreamState, now_us: int
    ) -> GoodRows | None:
        rows = sum(self._sources.rows_of(definition, file) for file in files)
        if not rows:
            return None
        at_us = _stamp_us(state, now_us)
        source = Source(definition, -1, "", self._raw[definition.name], True, END_US)
        chunk = Chunk(-1, "", 0, 0, rows, 0, at_us, at_us, True)
        ranks = {file: place for place, file in enumerate(files)}
        return GoodRows(source, "", (), rows, 0, 0, 0, at_us, at_us, (chunk,), ranks, None, None)

    def _good(
        self,
        source: Source,
        chunks: Sequence[Chunk],
        files: Sequence[str],
        state: StreamState,
        batch_id: int,
        now_us: int,
        held: HeldRows | None,
    ) -> GoodRows:
        definition = source.definition
        ranks = file_ranks(chunks, files)
        ordered = in_arrival_order(chunks, ranks)
        rows, bad, shed = (sum(getattr(c, kind) for c in chunks) for kind in ("rows", "bad", "shed"))
        min_ts, max_ts = min(c.min_ts for c in chunks), max(c.max_ts for c in chunks)
        view, where, late = source.view, [f"NOT {source.is_bad}"] if bad else [], 0
        letters = (
            [set_aside(source, sql.select(["*"], view, [source.is_bad]), batch_id, False)] if bad else []
        )
        if definition.timestamp is None:
            min_ts = max_ts = _stamp_us(state, now_us)
        elif may_hold_late_rows(ordered, definition, state.max_ts, state.floor_ts):
            held = self._logs.memory.hold(
                self._spark.sql(late_flagged(source, ranks, state.max_ts, state.floor_ts))
            )
            view = self._logs.views.define(f"flagged {definition.name}", held.frame)
            is_late = sql.name(LATE)
            found = self._spark.sql(
                sql.select(
                    [
                        f"count_if({is_late}) AS late",
                        f"min(CASE WHEN NOT {is_late} THEN {sql.name(TS)} END) AS first",
                        f"count_if(NOT {is_late} AND NOT {source.is_kept}) AS shed",
                    ],
                    view,
                )
            )
            [(late, first, shed)] = found.collect()
            min_ts = max_ts if first is None else first
            letters.append(set_aside(source, sql.select(["*"], view, [is_late]), batch_id, is_late=True))
            where = [f"NOT {is_late}"]
        if source.box is not None:
            where.append(source.is_kept)
        return GoodRows(
            source=source,
            view=view,
            where=tuple(where),
            rows=rows - bad - late - shed,
            late=late,
            bad=bad,
            shed=shed,
            min_ts=min_ts,
            max_ts=max_ts,
            chunks=tuple(ordered),
            ranks=ranks,
            dead_letters=sql.union(letters),
            held=held,
        )

    def _arrival(
        self,
        definition: StreamDefinition,
        state: StreamState,
        good: GoodRows | None,
        course: Course,
        batch_id: int,
        now_us: int,
        end_of_input: bool,
    ) -> Arrival:
        schema = self._logs.schemas[definition.name]
        rows = good.rows if good else 0
        max_ts = max(state.max_ts, good.max_ts) if good else state.max_ts
        if definition.timestamp is None:
            # the clock moves on even when nothing arrives; numbered tuples are a microsecond apart
            max_ts = max(max_ts, now_us - 1) + (rows - 1 if schema.is_numbered and rows else 0)
        silent_since = None if good else state.silent_since_us or now_us
        idle = silent_since is not None and now_us - silent_since >= definition.idle_after_us
        watermark = max(state.watermark_ts, _watermark(definition, max_ts, end_of_input or idle))
        counts = StreamCounts()
        if good is not None:
            counts = StreamCounts(rows + good.late + good.bad + good.shed, good.late, good.bad, good.shed)
        after = replace(
            state,
            max_ts=max_ts,
            watermark_ts=watermark,
            silent_since_us=silent_since,
            totals=state.totals + counts,
            utilities=_blended(state.utilities, utility_quantiles(good.chunks) if good else ()),
        )
        appended = Appended(after)
        if schema.is_sequenced:
            waits = good if rows else None
            appended = self._appender.sequence(schema, waits, course, state, after, batch_id, now_us)
        elif good is not None and rows:
            appended = self._appender.append(schema, good, course, after, batch_id, now_us)
        lowest = min((b.min_ts for b in appended.blocks), default=END_US)
        highest = max((b.max_ts for b in appended.blocks), default=BEGINNING_US)
        brought = sum(b.rows for b in appended.blocks)
        return Arrival(
            state=appended.state,
            blocks=appended.blocks,
            rows=Rows(
                query=None,
                count=brought,
                upstream_rows=brought,
                min_ts=lowest,
                max_ts=highest,
                progress_ts=watermark,
                idle=end_of_input or idle,
                spreads=tuple(block.spread for block in appended.blocks),
            ),
            counts=counts,
            dead_letters=good.dead_letters if good else None,
            unwritten=appended.unwritten,
        )


def _stamp_us(state: StreamState, now_us: int) -> int:
    """The timestamp of rows that are stamped on arrival: after all earlier ones, whatever the clock says."""
    return max(now_us, state.max_ts + 1)


def _watermark(definition: StreamDefinition, max_ts: int, holds_nothing_back: bool) -> int:
    if definition.timestamp is None or holds_nothing_back:
        return max_ts + 1
    return max_ts - definition.slack_us


def _blended(old: tuple[float, ...], new: tuple[float, ...]) -> tuple[float, ...]:
    """Quantiles of utilities, halfway from what they were to what they are."""
    if not new or not old:
        return new or old
    return tuple((a + b) / 2 for a, b in zip(old, new, strict=True))
