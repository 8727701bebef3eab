"""Intake: from a micro-batch to the tuples that each stream lets into the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headgate.model.event import StreamCounts
from headgate.model.network import Network, StreamDefinition
from headgate.model.shedding import Course, DropBox, Floor
from headgate.spark.arrive import (
    LATE,
    PLACE,
    Arrival,
    Chunk,
    Suffix,
    chunk_statistics,
    file_ranks,
    flag_late,
    in_arrival_order,
    is_bad,
    may_hold_late_rows,
    set_aside_rows,
    stamped,
    with_timestamp,
)
from headgate.spark.columns import END_US, TS, tick_constant
from headgate.spark.dropbox import is_kept, streams_that_tell_chances, with_chance
from headgate.spark.filelog import FileSourceLog
from headgate.spark.files import normal_path
from headgate.spark.landing import Landing
from headgate.spark.manifest import Manifest, StreamState
from headgate.spark.sources import BAD_ROW, STREAM, TEXT_FORMATS, Sources
from headgate.spark.spread import QUANTILES, Spread, share_below

# asking more files one by one would take longer than a Spark job
_FILES_TO_ASK = 16


@dataclass(frozen=True)
class Inflow:
    """A stream in a tick: its new state, and the tuples that go on (None if there are none)."""

    state: StreamState
    frame: DataFrame | None
    rows: int
    min_ts: int
    max_ts: int
    counts: StreamCounts
    set_aside: DataFrame | None
    suffix: Suffix | None
    released: bool
    """Silent for too long, or at its end: it holds no other stream back."""
    spreads: tuple[Spread, ...]
    """How its tuples lie over time, roughly."""

    def share_below(self, ts: int) -> float:
        """About which share of its tuples has a smaller timestamp."""
        if ts > self.max_ts:
            return 1.0
        return 0.0 if ts <= self.min_ts else share_below(self.spreads, ts)


class Intake:
    """Reads micro-batches. ``release`` gives back what a tick has cached."""

    def __init__(
        self, network: Network, sources: Sources, log: FileSourceLog, landings: Mapping[str, Landing]
    ) -> None:
        self._network = network
        self._sources = sources
        self._log = log
        self._landings = landings
        self._utilities = network.utilities()
        self._telling = streams_that_tell_chances(network)
        self._cached: list[DataFrame] = []

    def take(
        self, batch: DataFrame, batch_id: int, before: Manifest, now_us: int, flush: bool = False
    ) -> dict[str, Inflow]:
        """What every stream brings into this tick; drop boxes are those of the manifest before it."""
        boxes = {name: self._with_floor(box, before) for name, box in before.course.boxes().items()}
        numbered = {name: i for i, name in enumerate(self._network.streams)}
        orders = {
            name: self._log.files(name, batch_id)
            for name, definition in self._network.streams.items()
            if self._sources.is_file_stream(definition)
        }
        told = {
            n
            for n, files in orders.items()
            if n not in boxes and n not in self._utilities and self._tells_rows(n, files)
        }
        raw = self._raw_frames(batch, {n: files for n, files in orders.items() if n not in told})
        frames = [(numbered[n], self._network.streams[n], frame) for n, frame in raw.items()]
        chunks = chunk_statistics(frames, boxes, self._utilities)
        inflows = {}
        for name, definition in self._network.streams.items():
            state = before.streams.get(name, StreamState())
            own = [chunk for chunk in chunks if chunk.stream == numbered[name] and chunk.rows]
            arrival = None
            if name in told and orders[name]:
                arrival = self._told_arrival(definition, orders[name], state, now_us)
            elif own:
                ranks = file_ranks(own, orders.get(name, []))
                box = boxes.get(name)
                arrival = self._arrival(definition, raw[name], own, ranks, state, box, batch_id, now_us)
            arrival = arrival and self._with_chances(arrival, before.course)
            inflows[name] = self._inflow(definition, state, arrival, batch_id, now_us, flush)
        return inflows

    def _with_floor(self, box: DropBox, before: Manifest) -> DropBox:
        """By utility, once it is known how utilities lie; until then by hash."""
        text = self._utilities.get(box.stream)
        known = before.streams.get(box.stream, StreamState()).utilities
        return box if text is None or not known else replace(box, floor=Floor.of(text, box.keep, known))

    def _tells_rows(self, name: str, files: list[str]) -> bool:
        """Whether all there is to know of a stream's new rows is how many there are, and files tell that."""
        definition = self._network.streams[name]
        return (
            definition.timestamp is None
            and name not in self._landings
            and definition.format == "parquet"
            and len(files) <= _FILES_TO_ASK
        )

    def _told_arrival(
        self, definition: StreamDefinition, files: list[str], state: StreamState, now_us: int
    ) -> Arrival | None:
        rows = sum(self._sources.rows_of(definition, file) for file in files)
        if not rows:
            return None
        at_us = _stamp_us(state, now_us)
        frame = self._plain(definition, files, None, at_us, now_us)
        return Arrival(definition, frame, None, rows, 0, 0, 0, at_us, at_us, {}, at_us)

    def _plain(
        self, definition: StreamDefinition, files: list[str], box: DropBox | None, at_us: int, now_us: int
    ) -> DataFrame:
        """The rows of files, none to set aside; ``at_us`` is their timestamp if they bring none."""
        rows = self._sources.read_files(definition, files)
        rows = rows if box is None else rows.where(is_kept(rows, box))
        return _stamped(with_timestamp(rows, definition), definition, at_us, now_us)

    def is_exhausted(self, batch_id: int) -> bool:
        """Whether every stream comes to its end with this micro-batch, or has before."""
        offsets, earlier = self._log.offsets(batch_id), self._log.offsets(batch_id - 1)
        return all(
            self._sources.is_at_end(definition, offsets.get(name), earlier.get(name))
            or self._has_no_file_left(definition, batch_id)
            for name, definition in self._network.streams.items()
        )

    def _has_no_file_left(self, definition: StreamDefinition, batch_id: int) -> bool:
        # seen in the tick that brings the last file, the end costs no tick of its own
        if not self._sources.is_file_stream(definition):
            return False
        seen = self._log.files_until(definition.name, batch_id)
        return seen.issuperset(map(normal_path, self._sources.present_files(definition)))

    def release(self) -> None:
        """Give back memory."""
        for frame in self._cached:
            frame.unpersist()
        self._cached.clear()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._cached.append(frame.persist())
        return frame

    def _raw_frames(self, batch: DataFrame, orders: Mapping[str, list[str]]) -> dict[str, DataFrame]:
        """The rows of file streams, whose files come in ``orders``, and of all others."""
        raw: dict[str, DataFrame] = {}
        shared: DataFrame | None = None
        for number, (name, definition) in enumerate(self._network.streams.items()):
            if self._sources.is_file_stream(definition):
                if orders.get(name):
                    raw[name] = self._placed(self._sources.read_placed(definition, orders[name]), definition)
            else:
                shared = self._keep(batch) if shared is None else shared
                rows = shared.where(F.col(STREAM) == number).select(f"row{number}.*")
                raw[name] = self._placed(rows, definition)
        return raw

    def _placed(self, frame: DataFrame, definition: StreamDefinition) -> DataFrame:
        placed = with_timestamp(frame, definition).withColumn(PLACE, F.monotonically_increasing_id())
        # text is parsed once; columnar files are cheap to read again, and only the columns in need
        return self._keep(placed) if definition.format in TEXT_FORMATS else placed

    def _arrival(
        self,
        definition: StreamDefinition,
        raw: DataFrame,
        chunks: list[Chunk],
        ranks: dict[str, int],
        state: StreamState,
        box: DropBox | None,
        batch_id: int,
        now_us: int,
    ) -> Arrival:
        rows, bad = sum(c.rows for c in chunks), sum(c.bad for c in chunks)
        shed = sum(c.shed for c in chunks)
        late, good, set_aside = 0, raw, None
        if bad:
            wrong = is_bad(raw, definition)
            good, set_aside = raw.where(~wrong), set_aside_rows(raw.where(wrong), definition, batch_id)
        ordered = in_arrival_order(chunks, ranks)
        min_ts, max_ts = min(c.min_ts for c in chunks), max(c.max_ts for c in chunks)
        if definition.timestamp is None:
            min_ts = max_ts = _stamp_us(state, now_us)
        elif may_hold_late_rows(ordered, definition, state.max_ts, state.floor_ts):
            marked = flag_late(good, ranks, definition.slack_us, state.max_ts, state.floor_ts)
            marked = self._keep(marked)
            dropped = F.lit(False) if box is None else ~is_kept(marked, box)
            found = marked.agg(
                F.count_if(LATE).alias("late"),
                F.min(F.when(~F.col(LATE), F.col(TS))).alias("first"),
                F.count_if(~F.col(LATE) & dropped).alias("shed"),
            )
            [(late, first, shed)] = found.collect()
            min_ts = max_ts if first is None else first
            apart = set_aside_rows(marked.where(F.col(LATE)), definition, batch_id)
            set_aside = apart if set_aside is None else set_aside.unionByName(apart)
            good = marked.where(~F.col(LATE)).drop(LATE)
        suffix = None
        if not bad and not late:
            suffix = self._suffix(definition, ordered, box, min_ts, now_us)
        if suffix is not None and definition.name not in self._landings:
            # nobody will ask where a row stood
            good = suffix(min_ts)
        else:
            good = good.drop(BAD_ROW)
            good = good if box is None else good.where(is_kept(good, box))
            good = _stamped(good, definition, min_ts, now_us)
        return Arrival(
            definition=definition,
            frame=good,
            set_aside=set_aside,
            rows=rows - bad - late - shed,
            late=late,
            bad=bad,
            shed=shed,
            min_ts=min_ts,
            max_ts=max_ts,
            file_ranks=ranks,
            seen_max_ts=max(state.max_ts, max_ts),
            # one timestamp for all, or those that the rows came with
            spreads=() if definition.timestamp is None else tuple(chunk.spread for chunk in chunks),
            suffix=suffix,
            utilities=_utilities(chunks),
        )

    def _with_chances(self, arrival: Arrival, course: Course) -> Arrival:
        """Tuples with the chance that they had, of the streams where that is asked for."""
        if arrival.definition.name not in self._telling:
            return arrival
        name, suffix = arrival.definition.name, arrival.suffix
        # of tuples kept for their utility, nobody knows how many others each one stands for
        keep = 1.0 if name in self._utilities else course.share(name)
        told = None if suffix is None else lambda ts: with_chance(suffix(ts), keep)
        return replace(arrival, frame=with_chance(arrival.frame, keep), suffix=told)

    def _suffix(
        self,
        definition: StreamDefinition,
        chunks: list[Chunk],
        box: DropBox | None,
        min_ts: int,
        now_us: int,
    ) -> Suffix | None:
        if not self._sources.is_file_stream(definition) or definition.format in TEXT_FORMATS:
            return None

        def rows_from(ts: int) -> DataFrame:
            late_enough = [c.file for c in chunks if definition.timestamp is None or c.max_ts >= ts]
            files = sorted(set(late_enough)) or [chunks[-1].file]
            return self._plain(definition, files, box, min_ts, now_us)

        return rows_from

    def _inflow(
        self,
        definition: StreamDefinition,
        state: StreamState,
        arrival: Arrival | None,
        batch_id: int,
        now_us: int,
        flush: bool,
    ) -> Inflow:
        landing = self._landings.get(definition.name)
        rows = arrival.rows if arrival else 0
        max_ts = arrival.seen_max_ts if arrival else state.max_ts
        if definition.timestamp is None:
            # the clock moves on even when nothing arrives
            spread = rows if landing is not None and rows else 1
            max_ts = max(max_ts, now_us - 1) + (spread - 1)
        silent_since = None if arrival else state.silent_since_us or now_us
        idle = silent_since is not None and now_us - silent_since >= definition.idle_after_us
        frontier = self._frontier(definition, max_ts, flush or idle)
        frontier = max(frontier, state.frontier_ts)
        moved, frame = state, arrival.frame if arrival else None
        if landing is not None:
            some = arrival if rows else None
            moved, frame = landing.land(some, state, frontier, batch_id, now_us)
        counts = StreamCounts()
        if arrival is not None:
            aside = arrival.late + arrival.bad + arrival.shed
            counts = StreamCounts(rows + aside, arrival.late, arrival.bad, arrival.shed)
        after = replace(
            moved,
            max_ts=max_ts,
            frontier_ts=frontier,
            silent_since_us=silent_since,
            totals=_sum(state.totals, counts),
            utilities=_blended(state.utilities, arrival),
        )
        lowest = arrival.min_ts if arrival else END_US
        if landing is not None and state.waiting_rows:
            # those that waited for the frontier lie above where it was
            lowest = min(lowest, state.frontier_ts)
        return Inflow(
            state=after,
            frame=frame if rows or landing is not None else None,
            rows=rows,
            min_ts=lowest,
            max_ts=max_ts,
            counts=counts,
            set_aside=arrival.set_aside if arrival else None,
            suffix=arrival.suffix if arrival and landing is None else None,
            released=flush or idle,
            spreads=_spreads(arrival, rows, lowest, max_ts),
        )

    def _frontier(self, definition: StreamDefinition, max_ts: int, released: bool) -> int:
        if definition.timestamp is None or released:
            return max_ts + 1
        return max_ts - definition.slack_us


def _stamp_us(state: StreamState, now_us: int) -> int:
    """The timestamp of rows that are stamped on arrival: after all earlier ones, whatever the clock says."""
    return max(now_us, state.max_ts + 1)


def _stamped(rows: DataFrame, definition: StreamDefinition, at_us: int, now_us: int) -> DataFrame:
    """Rows with the time of their arrival, and with ``at_us`` for a timestamp if they bring none."""
    if definition.timestamp is not None:
        return stamped(rows, now_us)
    # a column that might be NULL as far as Spark knows, which a constant timestamp is not
    anchor = rows.columns[0]
    return stamped(rows.withColumn(TS, tick_constant(at_us, anchor)), now_us, anchor)


def _spreads(arrival: Arrival | None, rows: int, min_ts: int, max_ts: int) -> tuple[Spread, ...]:
    if arrival is not None and arrival.spreads:
        return arrival.spreads
    return (Spread.over(rows, (min_ts, max_ts)),) if rows else ()


def _utilities(chunks: list[Chunk]) -> tuple[float, ...]:
    """Quantiles over all chunks, each weighed by its rows."""
    points = sorted((value, c.rows / len(c.utilities)) for c in chunks for value in c.utilities)
    if not points:
        return ()
    values, weights = np.array(points).T
    reached = (np.cumsum(weights) - weights / 2) / weights.sum()
    return tuple(np.interp(np.linspace(0, 1, QUANTILES + 1), reached, values).tolist())


def _blended(old: tuple[float, ...], arrival: Arrival | None) -> tuple[float, ...]:
    """Quantiles of utilities, halfway from what they were to what they are."""
    new = () if arrival is None else arrival.utilities
    if not new or not old:
        return new or old
    return tuple((a + b) / 2 for a, b in zip(old, new, strict=True))


def _sum(a: StreamCounts, b: StreamCounts) -> StreamCounts:
    return StreamCounts(a.rows_in + b.rows_in, a.late + b.late, a.bad + b.bad, a.shed + b.shed)
