"""Timestamps at the ends of their types end no run, and make no other row late."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.files import stamp
from tests.oracle.runs import PATIENT

from headgate import Session

pytestmark = pytest.mark.spark

TIMEOUT_S = 300
FIRST_S = 1_600_000_000
GOOD_S = range(FIRST_S, FIRST_S + 20)
INF, NAN = float("inf"), float("nan")
DAY_S = 86_400
YEAR_1_S, YEAR_9999_S = (
    round(datetime(*day, tzinfo=timezone.utc).timestamp()) for day in ((1, 1, 1), (9999, 12, 31))
)

# low ones come first, so that they are not late
EXTREMES: dict[str, list[float]] = {
    "BIGINT": [-(2**63), -(2**63) // 10**6, -(2**62), YEAR_1_S, 0, YEAR_9999_S, 2**63 // 10**6, 2**63 - 1],
    "DOUBLE": [-INF, -1e300, -9.3e12, YEAR_1_S, NAN, 1e-300, YEAR_9999_S, 9.3e12, 1e300, INF],
    "TIMESTAMP": [YEAR_1_S, YEAR_1_S + DAY_S, 0, YEAR_9999_S - DAY_S, YEAR_9999_S],
}
ARROW = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TIMESTAMP": pa.timestamp("us", tz="UTC")}


def write(path: Path, kind: str, times_s: list[Any], first: int) -> None:
    if kind == "TIMESTAMP":
        times_s = [time_s * 10**6 for time_s in times_s]
    values = [first + place for place in range(len(times_s))]
    table = pa.table({"ts": pa.array(times_s, ARROW[kind]), "v": pa.array(values, pa.int32())})
    pq.write_table(table, path)
    stamp(path)


def write_all(folder: Path, kind: str) -> None:
    """Values below zero are those of extreme rows."""
    folder.mkdir()
    extremes, good = EXTREMES[kind], list(GOOD_S)
    write(folder / "0.parquet", kind, extremes, -len(extremes))
    write(folder / "1.parquet", kind, good[:10], 0)
    write(folder / "2.parquet", kind, extremes[-2:], -2)
    write(folder / "3.parquet", kind, good[10:], 10)


def good_rows(run: Any, query: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """Results that no extreme row takes part in."""
    found = run.results(query).where(f"{columns[0]} >= 0").select(*columns).collect()
    return Counter(map(tuple, found))


@pytest.mark.parametrize("held_bytes", [2**20, -1], ids=["held", "in place"])
def test_extreme_timestamps_are_bad_or_processed_and_make_no_row_late(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr("headgate.spark.arrival.log_appender.SMALL_FILES_BYTES", held_bytes)
    session = Session(spark)
    for kind in EXTREMES:
        write_all(tmp_path / kind, kind)
        session.execute(
            f"CREATE STREAM s_{kind} (ts {kind}, v INT) FROM parquet OPTIONS (path '{tmp_path / kind}', "
            f"timestamp 'ts', maxFilesPerTrigger '1', idle_after '{PATIENT}');"
            f"CREATE QUERY all_{kind} AS SELECT v FROM s_{kind};"
            f"CREATE QUERY pairs_{kind} AS SELECT a.v AS v, b.v AS w FROM s_{kind} [RANGE 2 SECONDS] AS a, "
            f"s_{kind} [RANGE 2 SECONDS] AS b WHERE a.v < b.v;"
            f"CREATE QUERY sums_{kind} AS SELECT SUM(v) AS v, COUNT(*) AS n "
            f"FROM s_{kind} [RANGE 4 SECONDS SLIDE 2 SECONDS];"
        )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    values = range(len(GOOD_S))
    for kind, extremes in EXTREMES.items():
        counts = run.status().streams[f"s_{kind}"]
        processed = run.results(f"all_{kind}").where("v < 0").count()
        assert counts.late == 0 and counts.bad + processed == len(extremes) + 2
        assert good_rows(run, f"all_{kind}", "v") == Counter((v,) for v in values)
        pairs = [(v, w) for v in values for w in values if 0 < w - v <= 2]
        assert good_rows(run, f"pairs_{kind}", "v", "w") == Counter(pairs)
        # windows hold both of their ends
        ends = range(0, len(values) + 4, 2)
        windows = [[v for v in values if end - 4 <= v <= end] for end in ends]
        expected = Counter((sum(window), len(window)) for window in windows if window)
        assert good_rows(run, f"sums_{kind}", "v", "n") == expected
