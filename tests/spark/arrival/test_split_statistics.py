"""Timestamps of Parquet files, read without a job, are those that Spark would read."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, TimestampType

from headgate.spark.arrival.split_statistics import SplitStatistics, read_timestamps

UTC_US = pa.timestamp("us", tz="UTC")


def read(folder: Path, values: list[object], kind: pa.DataType, declared: DataType) -> SplitStatistics | None:
    path = folder / "file.parquet"
    pq.write_table(pa.table({"Ts": pa.array(values, kind)}), path)
    return read_timestamps(str(path), "ts", declared)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=100))
def test_bounds_and_order_are_exact(tmp_path: Path, times_us: list[int]) -> None:
    found = read(tmp_path, list(times_us), UTC_US, TimestampType())
    assert found is not None
    assert (found.rows, found.min_ts, found.max_ts) == (len(times_us), min(times_us), max(times_us))
    assert found.in_order == (times_us == sorted(times_us))
    assert set(found.quantiles) <= set(times_us)
    assert list(found.quantiles) == sorted(found.quantiles)


def test_milliseconds_and_seconds_become_microseconds(tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    in_ms = read(tmp_path, [at], pa.timestamp("ms", tz="UTC"), TimestampType())
    assert in_ms is not None and in_ms.min_ts == at.timestamp() * 10**6
    for kind, declared in ((pa.int64(), LongType()), (pa.int32(), IntegerType())):
        in_s = read(tmp_path, [7], kind, declared)
        assert in_s is not None and in_s.max_ts == 7_000_000


@pytest.mark.parametrize(
    ("values", "kind", "declared"),
    [
        ([1, None], pa.int64(), LongType()),
        ([2**62], pa.int64(), LongType()),
        ([1], pa.int64(), TimestampType()),
        (["1"], pa.string(), LongType()),
        ([1.0], pa.float64(), DoubleType()),
        ([1], pa.int64(), IntegerType()),
        (["1"], pa.string(), StringType()),
        ([0], pa.timestamp("us"), TimestampType()),
        ([0], pa.timestamp("ns", tz="UTC"), TimestampType()),
        ([datetime(1800, 1, 1, tzinfo=timezone.utc)], UTC_US, TimestampType()),
    ],
)
def test_what_only_spark_can_judge_is_left_to_it(
    tmp_path: Path, values: list[object], kind: pa.DataType, declared: DataType
) -> None:
    assert read(tmp_path, values, kind, declared) is None


def test_a_file_that_cannot_be_read_or_has_no_such_column_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert read_timestamps(str(tmp_path / "bad.parquet"), "ts", LongType()) is None
    assert read_timestamps(str(tmp_path / "missing.parquet"), "ts", LongType()) is None
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    assert read_timestamps(str(tmp_path / "other.parquet"), "ts", LongType()) is None
