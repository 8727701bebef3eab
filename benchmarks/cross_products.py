"""What a pair costs that a cross product compares, of what a tuple costs that a window join handles.

    python benchmarks/cross_products.py [--repeat 3]

The join optimiser takes the ratio for granted (`CROSSED_PAIR` of `planning/join_order/problem.py`). Ticks are
fitted by least squares: fixed seconds, and seconds for each pair and each result, or for each tuple. Windows
that are shorter than a tick let most pairs be compared without becoming results.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from pyspark.sql import SparkSession
from scipy.optimize import nnls

from common import COLUMNS, EPOCH_US, TickLog, markdown, spark_session, table_of, write_files
from headgate import Session
from headgate.planning.join_order.problem import CROSSED_PAIR

TICK_S = 20
TICKS, COLD_TICKS = 16, 6
CROSSED_ROWS, CROSSED_WINDOWS_S = (1_000, 2_000, 4_000, 6_000), (1, 2, 4)
JOINED_ROWS, JOINED_WINDOW_S = (50_000, 100_000, 200_000), 10
KEYS = 10_000_000
NO_PREDICATE, EQUALITY = "", " WHERE x.k = y.k"


def make_files(folder: Path, rows: int) -> None:
    """A file for every tick and stream."""
    rng = np.random.default_rng(rows)
    for stream in "ab":
        tables = []
        for tick in range(TICKS):
            ts_us = EPOCH_US + np.sort(rng.integers(tick * TICK_S * 10**6, (tick + 1) * TICK_S * 10**6, rows))
            tables.append(table_of(rng, ts_us, tick * rows, KEYS))
        write_files(tables, folder / stream)


def run(spark: SparkSession, folder: Path, window_s: int, where: str) -> tuple[float, float]:
    """Median seconds and mean results of the ticks of a join."""
    session = Session(spark)
    for stream in "ab":
        session.execute(
            f"CREATE STREAM {stream} ({COLUMNS}) FROM parquet "
            f"OPTIONS (path '{folder / stream}', timestamp 'ts', maxFilesPerTrigger 1)"
        )
    window = f"[RANGE {window_s} SECONDS]"
    session.execute(
        f"CREATE QUERY q AS SELECT x.id, y.id AS other FROM a {window} AS x, b {window} AS y{where} INTO noop"
    )
    log = TickLog()
    running = session.start(until_done=True, observers=[log])
    running.wait()
    ticks = [tick for tick in log.ticks if tick.rows_in][COLD_TICKS:]
    return median(tick.seconds for tick in ticks), float(np.mean([tick.rows_out for tick in ticks]))


def best(repeat: int, measure: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """The quickest of several runs."""
    return min(measure() for _ in range(repeat))


def fit(columns: list[list[float]], seconds: list[float]) -> np.ndarray:
    """Coefficients that are at least 0: a tick does not get shorter by what it has to do."""
    return np.asarray(nnls(np.column_stack([np.ones(len(seconds)), *columns]), np.asarray(seconds))[0])


def main() -> None:
    """Print ticks, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    spark = spark_session()
    rows_of_table: list[list[object]] = []
    pairs, results, crossed_s, tuples, joined_s = [], [], [], [], []
    with tempfile.TemporaryDirectory() as name:
        for rows in {*CROSSED_ROWS, *JOINED_ROWS}:
            make_files(Path(name) / str(rows), rows)
        run(spark, Path(name) / str(JOINED_ROWS[0]), JOINED_WINDOW_S, EQUALITY)  # warm-up
        for rows in JOINED_ROWS:
            folder = Path(name) / str(rows)
            seconds, out = best(given.repeat, lambda f=folder: run(spark, f, JOINED_WINDOW_S, EQUALITY))
            tuples.append(2.0 * rows)
            joined_s.append(seconds)
            rows_of_table.append(["join", f"{rows:,}", JOINED_WINDOW_S, "", f"{out:,.0f}", f"{seconds:.3f}"])
        for rows in CROSSED_ROWS:
            folder = Path(name) / str(rows)
            for window_s in CROSSED_WINDOWS_S:
                seconds, out = best(given.repeat, lambda f=folder, w=window_s: run(spark, f, w, NO_PREDICATE))
                compared = rows * rows * (1 + window_s / TICK_S) ** 2
                pairs.append(compared)
                results.append(out)
                crossed_s.append(seconds)
                row = [f"{rows:,}", window_s, f"{compared:,.0f}", f"{out:,.0f}", f"{seconds:.3f}"]
                rows_of_table.append(["cross product", *row])
    spark.stop()
    header = ["", "rows of a stream in a tick", "window, s", "pairs", "results", "tick, s"]
    print(markdown(header, rows_of_table))
    fixed_s, pair_s, result_s = fit([pairs, results], crossed_s)
    print(f"cross product: {fixed_s:.3f} s + {1e9 * pair_s:.1f} ns a pair + {1e9 * result_s:.1f} ns a result")
    fixed_s, tuple_s = fit([tuples], joined_s)
    print(f"join: {fixed_s:.3f} s + {1e9 * tuple_s:.0f} ns a tuple")
    if tuple_s:
        print(f"a pair of a tuple: {pair_s / tuple_s:.4f}; the optimiser takes {CROSSED_PAIR:g}")


if __name__ == "__main__":
    main()
