"""A join of three streams in ticks, against the same join by placed probes.

    python benchmarks/placed_probes.py [--rows 200000]

Results of both are counted and compared with DuckDB's. Each runs twice on one JVM; the second counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headgate import Session
from headgate.spark.application.cluster import own_session

FILES = 10
SPAN_US, WINDOW_US = 100_000_000, 10_000_000
POOLS = "".join(f"CREATE POOL of_{s} SLOTS 1; PLACE PROBE OF {s} ON of_{s}; " for s in "abc")


def make_files(folder: Path, rows: int) -> None:
    """Three streams over the same time."""
    rng = np.random.default_rng(1)
    for stream in "abc":
        (folder / stream).mkdir()
        ts = np.sort(rng.integers(0, SPAN_US, rows)) + 1_000_000_000
        x, y = rng.integers(0, rows // 10, rows), rng.integers(0, rows // 10, rows)
        for number, part in enumerate(np.array_split(np.arange(rows), FILES)):
            stamps = pa.array(ts[part], pa.timestamp("us", tz="UTC"))
            path = folder / stream / f"{number:03d}.parquet"
            pq.write_table(pa.table({"ts": stamps, "x": x[part], "y": y[part]}), path)
            # files are read in the order of their times
            os.utime(path, (1_600_000_000 + number,) * 2)


def expected(folder: Path) -> int:
    """How many results there are."""
    with duckdb.connect() as connection:
        for stream in "abc":
            files = folder / stream / "*.parquet"
            connection.execute(f"CREATE TABLE {stream} AS SELECT epoch_us(ts) AS t, x, y FROM '{files}'")
        counted = connection.execute(
            "SELECT COUNT(*) FROM a, b, c WHERE a.x = b.x AND a.y = c.y "
            f"AND greatest(a.t, b.t, c.t) - least(a.t, b.t, c.t) <= {WINDOW_US}"
        ).fetchone()
    assert counted is not None
    return int(counted[0])


def run(spark: SparkSession, folder: Path, placed: bool) -> tuple[float, int]:
    """Seconds until all results are committed, and their number."""
    session = Session(spark)
    for stream in "abc":
        session.execute(
            f"CREATE STREAM {stream} (ts TIMESTAMP, x BIGINT, y BIGINT) FROM parquet OPTIONS "
            f"(path '{folder / stream}', timestamp 'ts', maxFilesPerTrigger 1, idle_after '1 h')"
        )
    if placed:
        session.execute(POOLS)
    windows = ", ".join(f"{stream} [RANGE {WINDOW_US // 1_000_000} SECONDS]" for stream in "abc")
    session.execute(
        f"CREATE QUERY q AS SELECT a.x, b.y FROM {windows} WHERE a.x = b.x AND a.y = c.y INTO noop"
    )
    started = time.perf_counter()
    running = session.start(until_done=True)
    running.wait()
    return time.perf_counter() - started, running.status().queries["q"].rows_out


def main() -> None:
    """Print both times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of each stream")
    given = parser.parse_args()
    spark = own_session("local[*]", pool_tasks=2)
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), given.rows)
        wanted = expected(Path(folder))
        for warm in (False, True):
            in_ticks_s, found = run(spark, Path(folder), placed=False)
            by_probes_s, also_found = run(spark, Path(folder), placed=True)
            assert found == also_found == wanted, f"{found} and {also_found} results instead of {wanted}"
            if warm:
                print(
                    f"{wanted:,} results: {in_ticks_s:.1f} s in ticks, {by_probes_s:.1f} s by placed probes"
                )
    spark.stop()


if __name__ == "__main__":
    main()
