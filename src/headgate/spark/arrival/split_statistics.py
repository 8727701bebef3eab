"""Statistics of input splits: row counts, timestamp bounds and order, of what arrives in a tick.

One Spark job computes them for all streams. For a few Parquet files on this machine it is not needed: a
footer has the bounds of a row group but not whether rows are in order, which decides whether one is late;
reading that one column takes a millisecond or two for 100,000 rows, and a Spark job at least fifty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, TimestampType

from headgate.spark import sql
from headgate.spark.arrival.drop_box import utility_of
from headgate.spark.arrival.late_rows import BLOCK, FILE, PLACE, RawRows
from headgate.spark.file_system import local_path
from headgate.spark.rows import QUANTILES, Spread, merged_quantiles
from headgate.spark.sql import BEGINNING_US, END_US, TS

_US_PER_S = 1_000_000
# columns of sources may be called partition
_SPLIT = sql.name("$split")
# the calendars of file writers agree from 1900 on; numbers of seconds beyond the last one would overflow
_FIRST_US, _LAST_US = -2_208_988_800 * _US_PER_S, 2**60


@dataclass(frozen=True)
class SplitStatistics:
    """Statistics of consecutive rows of one file (or of one partition, for other sources)."""

    rows: int
    min_ts: int
    max_ts: int
    in_order: bool = True
    quantiles: tuple[int, ...] = ()
    """Timestamps at evenly spaced places."""
    bad: int = 0
    shed: int = 0
    utilities: tuple[float, ...] = ()
    stream: int = -1
    file: str = ""
    block: int = 0
    partition: int = 0

    @property
    def spread(self) -> Spread:
        """Timestamp distribution of its good rows."""
        return Spread.over(self.rows - self.bad, self.quantiles or (self.min_ts, self.max_ts))


def split_statistics(spark: SparkSession, arriving: Sequence[RawRows]) -> list[SplitStatistics]:
    """Count and bound the rows of all streams, in one job that reads timestamps alone.

    For streams with a drop box it reads all columns, and counts the rows that are shed.
    """
    query = sql.union([_query(rows) for rows in arriving])
    return [] if query is None else [_split(row) for row in spark.sql(query).collect()]


def _query(rows: RawRows) -> str:
    bad, own = rows.is_bad, sql.name(TS)
    measures = [
        "count(1) AS rows",
        f"count_if({bad}) AS bad",
        f"count_if(NOT {bad} AND NOT {rows.is_kept}) AS shed" if rows.box else "0L AS shed",
        _utility_quantiles(rows.utility),
    ]
    if rows.definition.timestamp is None:
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
    keys = [
        f"{sql.name(FILE)} AS file",
        f"CAST({sql.name(BLOCK)} AS BIGINT) AS block",
        f"{_SPLIT} AS partition",
    ]
    items = [f"{rows.number} AS stream", *keys, *measures, *bounds]
    # a row's place begins with the number of its partition
    placed = sql.select(["*", f"CAST(shiftright({sql.name(PLACE)}, 33) AS INT) AS {_SPLIT}"], rows.view)
    return f"{sql.select(items, placed)}\nGROUP BY {sql.name(FILE)}, {sql.name(BLOCK)}, {_SPLIT}"


def _utility_quantiles(utility: str | None) -> str:
    if utility is None:
        return "CAST(NULL AS ARRAY<DOUBLE>) AS utilities"
    shares = ", ".join(repr(i / QUANTILES) for i in range(QUANTILES + 1))
    return f"percentile_approx({utility_of(utility)}, array({shares})) AS utilities"


def _split(row: Row) -> SplitStatistics:
    known = row.asDict()
    if known["min_ts"] is None:
        known |= {"min_ts": END_US, "max_ts": BEGINNING_US}
    known["utilities"] = tuple(known["utilities"] or ())
    known["quantiles"] = tuple(sorted(q for q in known["quantiles"] if q is not None))
    return SplitStatistics(**known)


def read_timestamps(path: str, column: str, declared: DataType) -> SplitStatistics | None:
    """Statistics of a Parquet file on this machine; None where only Spark can tell what its rows mean.

    That is the case where a row has no timestamp, or where the file has another type than declared.
    """
    try:
        with pq.ParquetFile(local_path(path)) as file:
            found = [name for name in file.schema_arrow.names if name.lower() == column.lower()]
            table = file.read(columns=found) if len(found) == 1 else None
    except (pa.ArrowException, OSError):
        return None
    times_us = None if table is None else _microseconds(table.column(0), declared)
    if times_us is None:
        return None
    if not (rows := len(times_us)):
        return SplitStatistics(0, END_US, BEGINNING_US, file=path)
    places = [place * (rows - 1) // QUANTILES for place in range(QUANTILES + 1)]
    return SplitStatistics(
        rows=rows,
        min_ts=int(times_us.min()),
        max_ts=int(times_us.max()),
        in_order=bool((times_us[1:] >= times_us[:-1]).all()),
        quantiles=tuple(sorted(times_us[places].tolist())),
        file=path,
    )


def _microseconds(values: pa.ChunkedArray, declared: DataType) -> np.ndarray | None:
    if values.null_count:
        return None
    kind = values.type
    if isinstance(declared, TimestampType) and pa.types.is_timestamp(kind) and kind.tz is not None:
        factor = {"us": 1, "ms": 1000}.get(kind.unit)
        kind = pa.int64() if factor else None
    elif isinstance(declared, LongType) or (isinstance(declared, IntegerType) and kind == pa.int32()):
        factor = _US_PER_S
    else:
        return None
    if kind not in (pa.int64(), pa.int32()) or factor is None:
        return None
    numbers: np.ndarray = values.cast(pa.int64()).to_numpy()
    if len(numbers) and not _FIRST_US // factor <= numbers.min() <= numbers.max() <= _LAST_US // factor:
        return None
    return numbers if factor == 1 else numbers * factor


def timestamp_quantiles(splits: Sequence[SplitStatistics], min_ts: int, max_ts: int) -> tuple[int, ...]:
    """Evenly spaced quantiles of timestamps over several splits."""
    known = [split for split in splits if split.quantiles]
    if len(known) == 1:
        inner = [ts for ts in known[0].quantiles if min_ts <= ts <= max_ts]
        return tuple(sorted([min_ts, *inner[1:-1], max_ts]))
    return merged_quantiles([split.spread for split in known], min_ts, max_ts)


def utility_quantiles(splits: Sequence[SplitStatistics]) -> tuple[float, ...]:
    """Quantiles of utilities over several splits, each weighted by its rows."""
    points = sorted((value, s.rows / len(s.utilities)) for s in splits for value in s.utilities)
    if not points:
        return ()
    values, weights = np.array(points).T
    reached = (np.cumsum(weights) - weights / 2) / weights.sum()
    return tuple(np.interp(np.linspace(0, 1, QUANTILES + 1), reached, values).tolist())
