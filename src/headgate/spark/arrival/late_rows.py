"""Which arriving rows are late or bad.

A row is late if its timestamp is more than the watermark delay below the highest timestamp that arrived
before it, in order of arrival: file by file, row by row; of a source with partitions, among the rows of its
own partition, in the order of their offsets. Lateness therefore does not depend on where ticks begin. Other
sources deliver the rows of a micro-batch side by side; those are compared with rows of earlier micro-batches
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from headgate.model.network import StreamDefinition
from headgate.model.shedding import DropBox
from headgate.spark import sql
from headgate.spark.arrival.drop_box import is_kept
from headgate.spark.file_system import normal_path
from headgate.spark.records import BAD_ROW, PARTITION, PLACE_IN_STREAM
from headgate.spark.sql import BEGINNING_US, TS

if TYPE_CHECKING:
    from headgate.spark.arrival.split_statistics import SplitStatistics

FILE, BLOCK, PLACE, LATE, LATENESS = "$file", "$block", "$place", "$late", "$lateness"
FARTHEST_US = 2**61
"""Beyond this, arithmetic with windows could overflow."""


@dataclass(frozen=True)
class RawRows:
    """The rows that a stream brings into a tick, as a view, with the position of each in its input."""

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
    partitions: Mapping[str, int] | None = None
    """The highest timestamp of each partition so far, if rows are compared within theirs; its name is the
    file of a row then."""

    @property
    def is_bad(self) -> str:
        """Condition for rows that do not parse, or have no valid timestamp."""
        conditions = []
        if BAD_ROW in self.columns.names:
            conditions.append(f"{BAD_ROW} IS NOT NULL")
        if self.definition.timestamp is not None:
            own = sql.name(TS)
            ahead = sql.Bound(self.ahead_us).at(own)
            conditions += [f"{own} IS NULL", f"{own} < {-FARTHEST_US}L", f"{own} > {ahead}"]
        return f"({' OR '.join(conditions) or 'FALSE'})"

    @property
    def is_kept(self) -> str:
        """Condition for rows that the drop box keeps."""
        anchor = sql.name(self.columns.fields[0].name)
        return "TRUE" if self.box is None else is_kept(self.columns, self.box, anchor)


def placed_items(
    columns: StructType, timestamp: str | None, is_file: bool, is_partitioned: bool
) -> list[str]:
    """The select list that adds timestamp and position to a row."""
    file = "input_file_name()" if is_file else sql.name(PARTITION) if is_partitioned else "''"
    block = "input_file_block_start()" if is_file else "0L"
    return [
        *(sql.names(columns.names)),
        f"{timestamp or 'CAST(NULL AS BIGINT)'} AS {sql.name(TS)}",
        f"{file} AS {sql.name(FILE)}",
        f"{block} AS {sql.name(BLOCK)}",
        f"{PLACE_IN_STREAM if is_partitioned else 'monotonically_increasing_id()'} AS {sql.name(PLACE)}",
    ]


def file_ranks(splits: Sequence[SplitStatistics], arrival_order: Sequence[str]) -> dict[str, int]:
    """Position of every file in order of arrival, by the name that rows carry."""
    rank = {normal_path(path): position for position, path in enumerate(arrival_order)}
    return {split.file: rank.get(normal_path(split.file), len(rank)) for split in splits}


def in_arrival_order(splits: Sequence[SplitStatistics], ranks: Mapping[str, int]) -> list[SplitStatistics]:
    """Splits sorted by arrival."""
    return sorted(splits, key=lambda s: (ranks.get(s.file, 0), s.block, s.partition))


def arrival_order(ranks: Mapping[str, int]) -> list[str]:
    """Sort key of rows within a tick: file, then place in the file."""
    if len(ranks) < 2:
        return [sql.name(BLOCK), sql.name(PLACE)]
    pairs = ", ".join(f"{sql.text(file)}, {rank}" for file, rank in ranks.items())
    return [f"element_at(map({pairs}), {sql.name(FILE)})", sql.name(BLOCK), sql.name(PLACE)]


def may_hold_late_rows(
    splits: Sequence[SplitStatistics],
    definition: StreamDefinition,
    max_ts: int,
    floor_ts: int,
    partitions: Mapping[str, int] | None = None,
) -> bool:
    """Whether any row can be late, judged by the bounds of the splits."""
    for split in splits:
        if split.rows == split.bad:
            continue
        if partitions is not None:
            max_ts = partitions.get(split.file, BEGINNING_US)
        if split.min_ts < max(max_ts - definition.watermark_delay_us, floor_ts):
            return True
        if not split.file:
            continue
        if not split.in_order and split.max_ts - split.min_ts > definition.watermark_delay_us:
            return True
        max_ts = max(max_ts, split.max_ts)
    return False


def late_flagged(rows: RawRows, ranks: Mapping[str, int], max_ts: int, floor_ts: int) -> str:
    """The good rows, each flagged late or not by comparison with all rows before it.

    The lateness of a row is how far it lags behind the highest timestamp before it.
    """
    own, known = sql.name(TS), f"{max_ts}L"
    seen, order, within = known, ", ".join(arrival_order(ranks)), ""
    if rows.partitions is not None:
        order, within = sql.name(PLACE), f"PARTITION BY {sql.name(FILE)} "
        pairs = ", ".join(f"{sql.text(name)}, {ts}L" for name, ts in rows.partitions.items())
        found = f"try_element_at(map({pairs}), {sql.name(FILE)})" if pairs else "CAST(NULL AS BIGINT)"
        known = f"coalesce({found}, {BEGINNING_US}L)"
    if rows.is_file or rows.partitions is not None:
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        seen = f"greatest(coalesce(max({own}) OVER ({within}ORDER BY {order} {frame}), {known}), {known})"
    lateness = ["*", f"{seen} - {own} AS {sql.name(LATENESS)}"]
    late = f"{sql.name(LATENESS)} > {rows.definition.watermark_delay_us}L OR {own} < {floor_ts}L"
    items = ["*", f"coalesce({late}, FALSE) AS {sql.name(LATE)}"]
    return sql.select(items, sql.select(lateness, rows.view, [f"NOT {rows.is_bad}"]))
