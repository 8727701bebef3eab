"""Queries that have something in common: computed once, against each query for itself.

    python benchmarks/sharing.py [--rows 40000] [--ticks 14]

Queries share operators over the same streams under the same aliases. With aliases of its own, each
computes everything for itself. Both give as many rows, and run by turns on one warm JVM.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headgate import Session
from headgate.spark.application.cluster import own_session

WINDOW_S = 10
COLD_TICKS = 4
# {x} and {y} are aliases
SETS = {
    "a window join": [
        f"SELECT {items} FROM a [RANGE {WINDOW_S} SECONDS] AS {{x}}, b [RANGE {WINDOW_S} SECONDS] AS {{y}} "
        "WHERE {x}.k = {y}.k"
        for items in ("{x}.k, {x}.v", "{x}.k, {y}.w", "{x}.w + {y}.w AS s", "{x}.v, {y}.v AS other")
    ],
    "a cheap selection": [
        f"SELECT {items} FROM a AS {{x}} WHERE {{x}}.v > 500" for items in ("k", "v", "w", "k, v, w")
    ],
    "an aggregate": [
        f"SELECT k % 10 AS g, {items} FROM a [RANGE {WINDOW_S} SECONDS SLIDE 5 SECONDS] AS {{x}} "
        "WHERE {x}.v > 100 GROUP BY k % 10"
        for items in (
            "COUNT(*) AS n, SUM(v) AS t",
            "COUNT(*) AS n, SUM(v) * 2 AS t",
            "COUNT(*) AS n, SUM(v) AS u",
        )
    ],
}


def make_files(folder: Path, rows: int, ticks: int) -> None:
    """A file for every tick and stream."""
    rng = np.random.default_rng(1)
    for stream in "ab":
        (folder / stream).mkdir()
        for number in range(ticks):
            table = pa.table(
                {
                    "ts": 1000 + (number + np.sort(rng.random(rows))) * WINDOW_S,
                    "k": rng.integers(0, rows, rows),
                    "v": rng.integers(0, 1000, rows),
                    "w": rng.random(rows),
                }
            )
            pq.write_table(table, folder / stream / f"{number:03d}.parquet")


def run(spark: SparkSession, folder: Path, queries: list[str], share: bool) -> tuple[float, list[int]]:
    """Seconds of a tick, and results of each query."""
    session = Session(spark)
    for stream in "ab":
        session.execute(
            f"CREATE STREAM {stream} (ts DOUBLE, k BIGINT, v BIGINT, w DOUBLE) FROM parquet "
            f"OPTIONS (path '{folder / stream}', timestamp 'ts', maxFilesPerTrigger 1)"
        )
    for number, query in enumerate(queries):
        own = "" if share else str(number)
        session.execute(f"CREATE QUERY q{number} AS {query.format(x=f'x{own}', y=f'y{own}')} INTO noop")
    running = session.start(until_done=True)
    running.wait()
    status = running.status()
    ticks = [tick.seconds for tick in status.history if tick.rows_in][COLD_TICKS:]
    return median(ticks), [counts.rows_out for counts in status.queries.values()]


def main() -> None:
    """Print seconds of a tick with and without sharing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000, help="of a stream, a tick")
    parser.add_argument("--ticks", type=int, default=14)
    given = parser.parse_args()
    spark = own_session("local[*]")
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), given.rows, given.ticks)
        for name, queries in SETS.items():
            for warm in (False, True):
                alone_s, apart = run(spark, Path(folder), queries, share=False)
                shared_s, together = run(spark, Path(folder), queries, share=True)
                assert apart == together, "results differ"
                if warm:
                    print(
                        f"{len(queries)} queries over {name}: {alone_s:.2f} s a tick each for itself, "
                        f"{shared_s:.2f} s shared, a ratio of {alone_s / shared_s:.2f}",
                        flush=True,
                    )
    spark.stop()


if __name__ == "__main__":
    main()
