"""Intake: from a micro-batch to new blocks in the log of each stream."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headgate.model.event import StreamCounts
from headgate.model.kafka import KAFKA
from headgate.model.network import Network, StreamDefinition
from headgate.model.shedding import DropBox, TickSettings
from headgate.spark import sql
from headgate.spark.application.cluster import in_session
from headgate.spark.arrival import log_appender
from headgate.spark.arrival.dead_letters import Quarantine, row_letters
from headgate.spark.arrival.drop_box import Utilities, blend_quantiles, with_floor
from headgate.spark.arrival.files_in_place import ONE_TASK_BYTES, FilesInPlace
from headgate.spark.arrival.late_rows import (
    LATE,
    LATENESS,
    RawRows,
    file_ranks,
    in_arrival_order,
    late_flagged,
    may_hold_late_rows,
    placed_items,
)
from headgate.spark.arrival.log_appender import Appended, GoodRows, LogAppender, TickContext, stamps
from headgate.spark.arrival.partitions import after_tick, are_idle, gap_letters, highest, slowest_ts
from headgate.spark.arrival.split_statistics import SplitStatistics, split_statistics, utility_quantiles
from headgate.spark.file_system import normal_path
from headgate.spark.held_rows import HeldRows
from headgate.spark.manifest import BlockRef, Manifest, StreamState
from headgate.spark.records import Outage, partitions_of
from headgate.spark.rows import Rows
from headgate.spark.source_files import FileSourceLog
from headgate.spark.sources import STREAM, TEXT_FORMATS, Sources
from headgate.spark.sql import BEGINNING_US, END_US, TS
from headgate.spark.stream_log import StreamLogs


@dataclass(frozen=True)
class Arrival:
    """A stream in a tick: its new state, and the blocks that arrived.

    ``unwritten`` are the blocks that are in memory only, until the tick writes those that it keeps.
    """

    state: StreamState
    blocks: tuple[BlockRef, ...]
    rows: Rows
    counts: StreamCounts
    lateness_us: int = 0
    """The watermark delay with which no row would have been late; 0 if none was."""
    dead_letters: str | None = None
    unwritten: Mapping[str, DataFrame] = field(default_factory=dict)
    files: int = 0
    """How many files the stream has brought, if it consists of files."""


@dataclass(eq=False, repr=False)
class Intake:
    """Reads micro-batches. ``raw`` are the columns that the sources bring."""

    _spark: SparkSession
    _network: Network
    _sources: Sources
    _source_log: FileSourceLog
    _logs: StreamLogs
    _raw: Mapping[str, StructType]

    def __post_init__(self) -> None:
        self._utilities = Utilities(self._network)
        self._sheddable = self._network.sheddable()
        self._appender = LogAppender(self._spark, self._sources, self._logs, self._utilities.texts)
        self._in_place = FilesInPlace(self._network, self._sources, self._logs, self._appender, self._raw)
        self.quarantine = Quarantine(self._spark, self._sources)
        self.outage = Outage(self._spark, self._network.streams.values())

    def is_exhausted(self, batch_id: int) -> bool:
        """Whether every stream has come to its end with this micro-batch."""
        offsets, earlier = self._source_log.offsets(batch_id), self._source_log.offsets(batch_id - 1)
        # what a run before this one has planned does not cover what has arrived since
        is_planned_now = batch_id > self._source_log.last_planned
        return all(
            self._sources.is_at_end(
                definition, offsets.get(name), is_planned_now and offsets.get(name) == earlier.get(name)
            )
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
        """Append what every stream brings into this tick; drop boxes are those of the previous manifest."""
        tick = TickContext(batch_id, now_us, before.settings, end_of_input)
        states = {name: before.streams.get(name, StreamState()) for name in self._network.streams}
        utilities = self._utilities.of_tick(tick.settings)
        boxes = _boxes(tick.settings, states, utilities)
        files = {
            name: self.quarantine.readable(definition, self._source_log.files(name, batch_id), batch_id)
            for name, definition in self._network.streams.items()
            if self._sources.is_file_stream(definition)
        }
        without_box = {name: files[name] for name in files.keys() - boxes.keys()}
        good = self._examined(without_box, states, tick)
        progress = {name: highest(states[name]) for name in states}
        held, arriving = self._raw_rows(batch, files, good.keys(), boxes, utilities, progress, now_us)
        splits = split_statistics(self._spark, list(arriving.values()))
        for rows in held.values():
            rows.settle()
        settings = self._closed(tick.settings, arriving, splits, good)
        if settings is not tick.settings:
            tick, boxes = replace(tick, settings=settings), _boxes(settings, states, utilities)
            arriving = {name: replace(raw, box=boxes.get(name)) for name, raw in arriving.items()}
            splits = split_statistics(self._spark, list(arriving.values()))
        for name, raw in arriving.items():
            if own := [split for split in splits if split.stream == raw.number and split.rows]:
                own_files = files.get(name, [])
                good[name] = self._good(raw, own, own_files, states[name], tick, held.get(name))
        arrivals = {
            name: replace(
                self._arrival(definition, states[name], good.get(name), tick), files=len(files.get(name, ()))
            )
            for name, definition in self._network.streams.items()
        }
        return self.quarantine.record(self._with_gaps(arrivals, batch_id), batch_id)

    def _with_gaps(self, arrivals: Mapping[str, Arrival], batch_id: int) -> dict[str, Arrival]:
        """Arrivals with a notice of partitions whose records were skipped."""
        found = dict(arrivals)
        for name, arrival in arrivals.items():
            if self._network.streams[name].format != KAFKA:
                continue
            before, after = (
                partitions_of(self._source_log.offsets(batch).get(name)) for batch in (batch_id - 1, batch_id)
            )
            letters = gap_letters(name, batch_id, before, after)
            found[name] = replace(arrival, dead_letters=sql.union([arrival.dead_letters, *letters]))
        return found

    def _examined(
        self, files: Mapping[str, list[str]], states: Mapping[str, StreamState], tick: TickContext
    ) -> dict[str, GoodRows]:
        """The rows of files that can be read in place, without a job."""
        good: dict[str, GoodRows] = {}
        for name, own in files.items():
            stamp_us = _stamp_us(states[name], tick.now_us)
            found = self._in_place.examine(name, own, states[name], stamp_us, tick.now_us)
            if found is not None:
                good[name] = found
        if tick.settings.closed_to(self._sheddable_rows(good)) is tick.settings:
            return good
        # of more rows than fit, some must pass a drop box, which takes a job
        return {name: found for name, found in good.items() if name not in self._sheddable}

    def _sheddable_rows(self, good: Mapping[str, GoodRows]) -> dict[str, int]:
        return {name: found.rows for name, found in good.items() if name in self._sheddable}

    def _closed(
        self,
        settings: TickSettings,
        arriving: Mapping[str, RawRows],
        splits: Sequence[SplitStatistics],
        good: Mapping[str, GoodRows],
    ) -> TickSettings:
        """The settings with drop boxes closed as far as it takes to let no more rows through than allowed."""
        arrived = {
            name: sum(split.rows for split in splits if split.stream == raw.number)
            for name, raw in arriving.items()
            if name in self._sheddable
        }
        return settings.closed_to(arrived, others=sum(self._sheddable_rows(good).values()))

    def _raw_rows(
        self,
        batch: DataFrame,
        files: Mapping[str, list[str]],
        examined: Collection[str],
        boxes: Mapping[str, DropBox],
        utilities: Mapping[str, str],
        progress: Mapping[str, Mapping[str, int]],
        now_us: int,
    ) -> tuple[dict[str, HeldRows], dict[str, RawRows]]:
        """The rows of streams that take a job: of file streams from their files, of others from the batch."""
        held: dict[str, HeldRows] = {}
        arriving: dict[str, RawRows] = {}
        shared: DataFrame | None = None
        for number, (name, definition) in enumerate(self._network.streams.items()):
            is_file = name in files
            if name in examined or (is_file and not files[name]):
                continue
            if is_file:
                raw = self._sources.read_files(definition, files[name])
            else:
                shared = self._shared(batch) if shared is None else shared
                raw = shared.where(f"`{STREAM}` = {number}").selectExpr(f"row{number}.*")
            schema = self._logs.schemas[name]
            columns = StructType([f for f in raw.schema.fields if not sql.is_system(f.name)])
            placed = raw.selectExpr(*placed_items(columns, schema.timestamp, is_file, schema.is_partitioned))
            if is_file and self._sources.total_bytes(files[name]) <= ONE_TASK_BYTES:
                placed = placed.coalesce(1)
            if not is_file or self._fits_memory(definition, files[name]):
                # text is parsed once; of large columnar files, only the columns in need are read
                held[name] = self._logs.memory.hold(placed)
                placed = held[name].frame
            arriving[name] = RawRows(
                definition,
                number,
                self._logs.views.define(f"arriving {name}", placed),
                columns,
                is_file,
                now_us + definition.max_ahead_us,
                boxes.get(name),
                utilities.get(name),
                progress.get(name) if schema.is_partitioned else None,
            )
        return held, arriving

    def _shared(self, batch: DataFrame) -> DataFrame:
        """The rows of a micro-batch; where several streams take theirs from it, it is read once for all."""
        # Spark hands micro-batches over in a session that knows none of our views
        rows = in_session(self._spark, batch)
        others = [s for s in self._network.streams.values() if not self._sources.is_file_stream(s)]
        return rows if len(others) == 1 else self._logs.memory.hold(rows).frame

    def _fits_memory(self, definition: StreamDefinition, files: Sequence[str]) -> bool:
        if definition.format in TEXT_FORMATS:
            return True
        return self._sources.total_bytes(files) <= log_appender.SMALL_FILES_BYTES

    def _good(
        self,
        raw: RawRows,
        splits: Sequence[SplitStatistics],
        files: Sequence[str],
        state: StreamState,
        tick: TickContext,
        held: HeldRows | None,
    ) -> GoodRows:
        """The rows without bad, late and shed ones, which are counted."""
        definition, view, late, lateness_us = raw.definition, raw.view, 0, 0
        ranks = file_ranks(splits, files)
        ordered = in_arrival_order(splits, ranks)
        rows, bad, shed = (sum(getattr(s, kind) for s in splits) for kind in ("rows", "bad", "shed"))
        min_ts, max_ts = min(s.min_ts for s in splits), max(s.max_ts for s in splits)
        where = [f"NOT {raw.is_bad}"] if bad else []
        letters = [row_letters(raw, sql.select(["*"], view, [raw.is_bad]), tick.batch_id)] if bad else []
        if definition.timestamp is None:
            min_ts = max_ts = _stamp_us(state, tick.now_us)
            stays_in_place = raw.is_file and definition.format not in TEXT_FORMATS
            if not stays_in_place and not self._logs.schemas[definition.name].is_numbered:
                max_ts += stamps(rows - bad - shed) - 1
        elif may_hold_late_rows(ordered, definition, state.max_ts, state.floor_ts, raw.partitions):
            flagged = self._spark.sql(late_flagged(raw, ranks, state.max_ts, state.floor_ts))
            held = self._logs.memory.hold(flagged)
            view, is_late = self._logs.views.define(f"flagged {definition.name}", held.frame), sql.name(LATE)
            late, lateness_us, first, shed = self._count_late(raw, view)
            min_ts = max_ts if first is None else first
            late_rows = sql.select(["*"], view, [is_late])
            letters.append(row_letters(raw, late_rows, tick.batch_id, is_late=True))
            where = [f"NOT {is_late}"]
        if raw.box is not None:
            where.append(raw.is_kept)
        return GoodRows(
            rows=rows - bad - late - shed,
            min_ts=min_ts,
            max_ts=max_ts,
            splits=tuple(ordered),
            ranks=ranks,
            view=view,
            where=tuple(where),
            late=late,
            lateness_us=lateness_us,
            bad=bad,
            shed=shed,
            dead_letters=sql.union(letters),
            held=held,
            fill_files=raw.is_file and not late and not bad and raw.box is None,
        )

    def _count_late(self, raw: RawRows, view: str) -> tuple[int, int, int | None, int]:
        """How many rows are late, by how much, the first timestamp of the others, and how many are shed."""
        is_late, lateness = sql.name(LATE), sql.name(LATENESS)
        # rows that a silent stream was not waited for are late whatever the watermark
        behind = f"{lateness} > {raw.definition.watermark_delay_us}L"
        measures = [
            f"count_if({is_late})",
            f"coalesce(max(CASE WHEN {behind} THEN {lateness} END), 0L)",
            f"min(CASE WHEN NOT {is_late} THEN {sql.name(TS)} END)",
            f"count_if(NOT {is_late} AND NOT {raw.is_kept})",
        ]
        [(late, lateness_us, first, shed)] = self._spark.sql(sql.select(measures, view)).collect()
        return late, lateness_us, first, shed

    def _arrival(
        self, definition: StreamDefinition, state: StreamState, good: GoodRows | None, tick: TickContext
    ) -> Arrival:
        schema, now_us = self._logs.schemas[definition.name], tick.now_us
        counts = good.counts if good else StreamCounts()
        if not counts.rows_in:
            good = None
        rows = good.rows if good else 0
        max_ts = max(state.max_ts, good.max_ts) if good else state.max_ts
        if definition.timestamp is None:
            # the clock moves on even when nothing arrives; numbered tuples are a microsecond apart
            max_ts = max(max_ts, now_us - 1) + (rows - 1 if schema.is_numbered and rows else 0)
        silent_since = None if good else state.silent_since_us or now_us
        is_silent = silent_since is not None and now_us - silent_since >= definition.idle_after_us
        partitions = state.partitions
        if schema.is_partitioned:
            offsets = partitions_of(self._source_log.offsets(tick.batch_id).get(definition.name))
            partitions = after_tick(definition, state, offsets, good.splits if good else (), now_us)
            is_silent = are_idle(definition, partitions)
            max_ts = max([state.max_ts, *(one.max_ts for one in partitions.values())])
        idle = tick.end_of_input or is_silent
        watermark = max(state.watermark_ts, _watermark(definition, max_ts, idle))
        if schema.is_partitioned and not idle:
            slowest = slowest_ts(definition, partitions)
            watermark = max(state.watermark_ts, slowest - definition.watermark_delay_us)
        after = replace(
            state,
            max_ts=max_ts,
            watermark_ts=watermark,
            silent_since_us=silent_since,
            totals=state.totals + counts,
            utilities=blend_quantiles(state.utilities, utility_quantiles(good.splits) if good else ()),
            partitions=partitions,
            seen_us=now_us if schema.is_partitioned else 0,
        )
        appended = Appended(after)
        if schema.is_sequenced:
            waits = good if rows else None
            appended = self._appender.sequence(schema, waits, state, after, tick)
        elif good is not None and rows:
            appended = self._appender.append(schema, good, after, tick)
        return Arrival(
            state=appended.state,
            blocks=appended.blocks,
            rows=_new_rows(appended.blocks, watermark, idle),
            counts=counts,
            lateness_us=good.lateness_us if good else 0,
            dead_letters=good.dead_letters if good else None,
            unwritten=appended.unwritten,
        )


def _boxes(
    settings: TickSettings, states: Mapping[str, StreamState], utilities: Mapping[str, str]
) -> dict[str, DropBox]:
    return {
        name: with_floor(box, utilities.get(name), states[name].utilities)
        for name, box in settings.boxes().items()
    }


def _new_rows(blocks: Sequence[BlockRef], watermark_ts: int, idle: bool) -> Rows:
    """The tuples of a stream's new blocks, which each reader reads in its own way."""
    count = sum(block.rows for block in blocks)
    return Rows(
        query=None,
        count=count,
        upstream_rows=count,
        min_ts=min((block.min_ts for block in blocks), default=END_US),
        max_ts=max((block.max_ts for block in blocks), default=BEGINNING_US),
        progress_ts=watermark_ts,
        idle=idle,
        spreads=tuple(block.spread for block in blocks),
    )


def _stamp_us(state: StreamState, now_us: int) -> int:
    """The timestamp of rows that are stamped on arrival: after all earlier ones, even if the clock is not."""
    return max(now_us, state.max_ts + 1)


def _watermark(definition: StreamDefinition, max_ts: int, idle: bool) -> int:
    if definition.timestamp is None or idle:
        return max_ts + 1
    return max_ts - definition.watermark_delay_us
