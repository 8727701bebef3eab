"""What a micro-batch brings: rows by stream, counted, and freed of bad and late ones.

A row is late when its timestamp lies more than the watermark delay below the highest one that came before
it, in order of arrival: file by file, row by row. So lateness does not depend on where ticks begin. Sources
other than files bring the rows of a micro-batch side by side: those are compared with earlier ones only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from headgate.model.network import StreamDefinition
from headgate.model.shedding import DropBox
from headgate.spark import sql
from headgate.spark.columns import BEGINNING_US, END_US, TS
from headgate.spark.dropbox import is_kept, utility_of
from headgate.spark.files import normal_path
from headgate.spark.sources import BAD_ROW
from headgate.spark.spread import QUANTILES, Spread

FILE, BLOCK, PLACE, LATE = "$file", "$block", "$place", "$late"
# beyond these, arithmetic with windows could overflow
_FARTHEST_US = 2**61


@dataclass(frozen=True)
class Source:
    """The rows that a stream brings, as a view, with where each of them stood; nothing is set aside yet."""

    definition: StreamDefinition
    number: int
    view: str
    columns: StructType
    """Of the source itself."""
    is_file: bool
    ahead_us: int
    """Timestamps beyond this are bad."""
    box: DropBox | None = None
    utility: str | None = None

    @property
    def is_bad(self) -> str:
        """Condition for rows that do not parse, or have no timestamp that can be right."""
        conditions = []
        if BAD_ROW in self.columns.names:
            conditions.append(f"{BAD_ROW} IS NOT NULL")
        if self.definition.timestamp is not None:
            own = sql.name(TS)
            ahead = sql.Bound(self.ahead_us).at(own)
            conditions += [f"{own} IS NULL", f"{own} < {-_FARTHEST_US}L", f"{own} > {ahead}"]
        return f"({' OR '.join(conditions) or 'FALSE'})"

    @property
    def is_kept(self) -> str:
        """Condition for rows that the drop box keeps."""
        return "TRUE" if self.box is None else is_kept(self.columns, self.box, self._anchor)

    @property
    def _anchor(self) -> str:
        return sql.name(self.columns.fields[0].name)


@dataclass(frozen=True)
class Chunk:
    """Statistics of consecutive rows of one file (or of one partition, for other sources)."""

    stream: int
    file: str
    block: int
    partition: int
    rows: int
    bad: int
    min_ts: int
    max_ts: int
    in_order: bool
    shed: int = 0
    quantiles: tuple[int, ...] = ()
    utilities: tuple[float, ...] = ()

    @property
    def spread(self) -> Spread:
        """Timestamp distribution of its good rows."""
        return Spread.over(self.rows - self.bad, self.quantiles or (self.min_ts, self.max_ts))


def placed_items(timestamp: str | None, is_file: bool) -> list[str]:
    """The select list that adds the timestamp and where a row stands."""
    file = "input_file_name()" if is_file else "''"
    block = "input_file_block_start()" if is_file else "0L"
    return [
        "*",
        f"{timestamp or 'CAST(NULL AS BIGINT)'} AS {sql.name(TS)}",
        f"{file} AS {sql.name(FILE)}",
        f"{block} AS {sql.name(BLOCK)}",
        f"monotonically_increasing_id() AS {sql.name(PLACE)}",
    ]


def chunk_statistics(spark: SparkSession, sources: Sequence[Source]) -> list[Chunk]:
    """Count and bound the rows of all streams, in one job that reads timestamps alone.

    Of streams with a drop box it reads all columns, and counts what is shed.
    """
    query = sql.union([_chunks(source) for source in sources])
    return [] if query is None else [_chunk(row) for row in spark.sql(query).collect()]


def _chunks(source: Source) -> str:
    bad, own = source.is_bad, sql.name(TS)
    measures = ["count(1) AS rows", f"count_if({bad}) AS bad"]
    measures.append(f"count_if(NOT {bad} AND NOT {source.is_kept}) AS shed" if source.box else "0L AS shed")
    measures.append(_utility_quantiles(source.utility))
    if source.definition.timestamp is None:
        bounds = ["CAST(NULL AS BIGINT) AS min_ts", "CAST(NULL AS BIGINT) AS max_ts", "TRUE AS in_order"]
        bounds.append("CAST(array() AS ARRAY<BIGINT>) AS quantiles")
    else:
        good = f"CASE WHEN NOT {bad} THEN {own} END"
        times = f"collect_list({good})"
        place = f"CAST(1 + i * greatest(size({times}) - 1, 0) div {QUANTILES} AS INT)"
        bounds = [
            f"min({good}) AS min_ts",
            f"max({good}) AS max_ts",
            f"sort_array({times}) = {times} AS in_order",
            # evenly spaced places stand for quantiles: exact if the rows are in order, a fair sample if not
            f"transform(sequence(0, {QUANTILES}), i -> try_element_at({times}, {place})) AS quantiles",
        ]
    keys = [f"{sql.name(FILE)} AS file", f"CAST({sql.name(BLOCK)} AS BIGINT) AS block", "partition"]
    items = [f"{source.number} AS stream", *keys, *measures, *bounds]
    # a row's place begins with the number of its partition
    rows = sql.select(["*", f"CAST(shiftright({sql.name(PLACE)}, 33) AS INT) AS partition"], source.view)
    return f"{sql.select(items, rows)}\nGROUP BY {sql.name(FILE)}, {sql.name(BLOCK)}, partition"


def _utility_quantiles(utility: str | None) -> str:
    if utility is None:
        return "CAST(NULL AS ARRAY<DOUBLE>) AS utilities"
    shares = ", ".join(repr(i / QUANTILES) for i in range(QUANTILES + 1))
    return f"percentile_approx({utility_of(utility)}, array({shares})) AS utilities"


def _chunk(row: Row) -> Chunk:
    known = row.asDict()
    if known["min_ts"] is None:
        known |= {"min_ts": END_US, "max_ts": BEGINNING_US}
    known["utilities"] = tuple(known["utilities"] or ())
    known["quantiles"] = tuple(sorted(q for q in known["quantiles"] if q is not None))
    return Chunk(**known)


def file_ranks(chunks: Sequence[Chunk], arrival_order: Sequence[str]) -> dict[str, int]:
    """Position of every file in order of arrival, by the name that rows carry."""
    rank = {normal_path(path): position for position, path in enumerate(arrival_order)}
    return {chunk.file: rank.get(normal_path(chunk.file), len(rank)) for chunk in chunks}


def in_arrival_order(chunks: Sequence[Chunk], ranks: Mapping[str, int]) -> list[Chunk]:
    """Chunks as they came."""
    return sorted(chunks, key=lambda c: (ranks.get(c.file, 0), c.block, c.partition))


def may_hold_late_rows(
    chunks: Sequence[Chunk], definition: StreamDefinition, max_ts: int, floor_ts: int
) -> bool:
    """Whether any row can be late, judged by the bounds of the chunks."""
    for chunk in chunks:
        if chunk.rows == chunk.bad:
            continue
        if chunk.min_ts < max(max_ts - definition.slack_us, floor_ts):
            return True
        if not chunk.file:
            continue
        if not chunk.in_order and chunk.max_ts - chunk.min_ts > definition.slack_us:
            return True
        max_ts = max(max_ts, chunk.max_ts)
    return False


def late_flagged(source: Source, ranks: Mapping[str, int], max_ts: int, floor_ts: int) -> str:
    """The good rows, with the exact answer to which are late: each is compared with all before it."""
    own, known = sql.name(TS), f"{max_ts}L"
    seen = known
    if source.is_file:
        order = ", ".join(arrival_order(ranks))
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        seen = f"greatest(coalesce(max({own}) OVER (ORDER BY {order} {frame}), {known}), {known})"
    late = f"{own} < {seen} - {source.definition.slack_us}L OR {own} < {floor_ts}L"
    items = ["*", f"coalesce({late}, FALSE) AS {sql.name(LATE)}"]
    return sql.select(items, source.view, [f"NOT {source.is_bad}"])


def arrival_order(ranks: Mapping[str, int]) -> list[str]:
    """Sort key of rows within a tick: file, then place in the file."""
    if len(ranks) < 2:
        return [sql.name(BLOCK), sql.name(PLACE)]
    pairs = ", ".join(f"{sql.text(file)}, {rank}" for file, rank in ranks.items())
    return [f"element_at(map({pairs}), {sql.name(FILE)})", sql.name(BLOCK), sql.name(PLACE)]


def set_aside(source: Source, query: str, batch_id: int, is_late: bool) -> str:
    """Bad or late rows as they go to the dead-letter table."""
    own = [sql.name(field.name) for field in source.columns.fields if field.name != BAD_ROW]
    row = f"to_json(struct({', '.join(own)}))"
    timestamp, ts = source.definition.timestamp, sql.name(TS)
    if is_late:
        reason = "'late: older than the watermark allows'"
    else:
        reason = (
            f"CASE WHEN {ts} IS NULL THEN {sql.text(f'no timestamp in column {timestamp}')} "
            f"ELSE {sql.text(f'timestamp in column {timestamp} is further ahead than max_ahead allows')} END"
        )
        if BAD_ROW in source.columns.names:
            reason = f"CASE WHEN {BAD_ROW} IS NOT NULL THEN 'the row does not parse' ELSE {reason} END"
            row = f"coalesce({BAD_ROW}, {row})"
    items = [
        f"{sql.text(source.definition.name)} AS stream",
        f"{batch_id}L AS batch",
        f"{reason} AS reason",
        # what no timestamp can hold has no place in a timestamp column
        f"CASE WHEN abs({ts}) < {_FARTHEST_US}L THEN timestamp_micros({ts}) END AS ts",
        f"{row} AS row",
    ]
    return sql.select(items, query)


def utility_quantiles(chunks: Sequence[Chunk]) -> tuple[float, ...]:
    """Quantiles of utilities over all chunks, each weighed by its rows."""
    points = sorted((value, c.rows / len(c.utilities)) for c in chunks for value in c.utilities)
    if not points:
        return ()
    values, weights = np.array(points).T
    reached = (np.cumsum(weights) - weights / 2) / weights.sum()
    return tuple(np.interp(np.linspace(0, 1, QUANTILES + 1), reached, values).tolist())
