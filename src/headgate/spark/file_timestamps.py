"""The timestamps of a Parquet file on this machine: how many, from when to when, and whether in order.

A footer has the first and the last timestamp of a row group, but not whether rows are in order, which is
what decides if one of them is late. Reading that one column takes a millisecond or two for 100,000 rows,
where a Spark job takes at least fifty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import DataType, IntegerType, LongType, TimestampType

from headgate.spark.localfiles import local_path
from headgate.spark.spread import QUANTILES

_US_PER_S = 1_000_000
# the calendars of file writers agree from 1900 on; numbers of seconds beyond the last one would overflow
_FIRST_US, _LAST_US = -2_208_988_800 * _US_PER_S, 2**60


@dataclass(frozen=True)
class FileTimestamps:
    """Timestamps of all rows of a file, in microseconds; each row has one."""

    rows: int
    min_ts: int
    max_ts: int
    in_order: bool
    quantiles: tuple[int, ...]
    """At evenly spaced places of the file."""


def read_timestamps(path: str, column: str, declared: DataType) -> FileTimestamps | None:
    """The timestamps of a file; None where only Spark can tell what its rows mean.

    That is the case where a row has no timestamp, or where the file has another type than declared.
    """
    try:
        with pq.ParquetFile(local_path(path)) as file:
            found = [name for name in file.schema_arrow.names if name.lower() == column.lower()]
            table = file.read(columns=found) if len(found) == 1 else None
    except (pa.ArrowException, OSError):
        return None
    values = None if table is None else _microseconds(table.column(0), declared)
    return None if values is None else _statistics(values)


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


def _statistics(times_us: np.ndarray) -> FileTimestamps:
    rows = len(times_us)
    if not rows:
        return FileTimestamps(0, 0, 0, True, ())
    places = [place * (rows - 1) // QUANTILES for place in range(QUANTILES + 1)]
    return FileTimestamps(
        rows=rows,
        min_ts=int(times_us.min()),
        max_ts=int(times_us.max()),
        in_order=bool((times_us[1:] >= times_us[:-1]).all()),
        quantiles=tuple(sorted(times_us[places].tolist())),
    )
