"""A long window with a short slide: [RANGE 1 HOUR SLIDE 1 SECOND], 10,000 rows per second, 1,000 groups.

    python benchmarks/sliding.py [--span 600] [--file-s 10] [--pace max|live] [--markdown] [--json FILE]

COUNT, SUM, AVG and MAX of every group at every second. Does it keep up, do ticks stay as long as they are,
and how much state is held? The window is filled first, at a tenth of the rate (``--no-fill`` starts with an
empty one); then come SPAN seconds at the full rate, which count. With ``--pace max`` all files are there from
the beginning and a tick takes one; with ``--pace live`` a file comes every FILE_S seconds of the wall clock,
and the window starts empty.

A few boundaries are computed again by DuckDB from the files, and must be the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import duckdb
import numpy as np
import pyarrow as pa

from common import (
    EPOCH_US,
    Dropper,
    Tick,
    TickLog,
    delivering,
    markdown,
    mean_phases,
    phases_text,
    spark_session,
    verdict,
    write_files,
)
from headgate import Session

PARTS = 8


def event_tables(given: argparse.Namespace) -> Iterator[pa.Table]:
    """The rows of each file, in order of time: those that fill the window, then those that count."""
    rng = np.random.default_rng(1)
    rows = round(given.rate * given.file_s)
    start_us = EPOCH_US
    fill_files = 0 if given.no_fill else round(given.range_s / given.file_s / 10)
    for number in range(fill_files + round(given.span / given.file_s)):
        span_us = round(given.file_s * 1e6) * (10 if number < fill_files else 1)
        ts = start_us + np.sort(rng.integers(0, span_us, rows))
        yield pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
                "k": rng.integers(0, given.groups, rows, dtype=np.int32),
                "w": rng.integers(0, 1_000_000, rows),
            }
        )
        start_us += span_us


def declare(session: Session, data: Path, out: Path, given: argparse.Namespace) -> None:
    """The stream and its query."""
    limit = ", maxFilesPerTrigger 1" if given.pace == "max" else ""
    session.execute(
        f"CREATE STREAM s (ts TIMESTAMP, k INT, w BIGINT) FROM parquet "
        f"OPTIONS (path '{data / 's'}', timestamp 'ts'{limit})"
    )
    session.execute(
        "CREATE QUERY sliding AS SELECT k, COUNT(*) AS n, SUM(w) AS total, AVG(w) AS mean, MAX(w) AS top "
        f"FROM s [RANGE {given.range_s} SECONDS SLIDE {given.slide_s} SECONDS] GROUP BY k "
        f"INTO parquet OPTIONS (path '{out}')"
    )


def run(folder: Path, given: argparse.Namespace) -> list[Tick]:
    """All ticks with rows."""
    spark = spark_session()
    data, out, log = folder / "data", folder / "out", TickLog()
    session = Session(spark)
    checkpoint = folder / "checkpoint"
    if given.pace == "max":
        write_files(event_tables(given), data / "s")
        declare(session, data, out, given)
        session.start(until_done=True, checkpoint=checkpoint, observers=[log]).wait()
    else:
        with delivering(Dropper(data, "s", given.rate, given.file_s, given.groups)) as dropper:
            declare(session, data, out, given)
            running = session.start(checkpoint=checkpoint, observers=[log])
            dropper.start()
            running.run_for(given.span)
    spark.stop()
    return [tick for tick in log.ticks if tick.rows_in]


def differences(folder: Path, given: argparse.Namespace, boundaries: int = 5) -> list[str]:
    """Boundaries that DuckDB computes otherwise; the first, the last and some between."""
    database = duckdb.connect()
    database.execute(f"CREATE VIEW rows AS SELECT epoch_us(ts) AS us, k, w FROM '{folder}/data/s/*.parquet'")
    database.execute(f"CREATE VIEW found AS SELECT epoch_us(ts) AS us, * FROM '{folder}/out/*.parquet'")
    slide_us, range_us = round(given.slide_s * 1e6), round(given.range_s * 1e6)
    results = database.execute("SELECT DISTINCT us FROM found ORDER BY us").fetchnumpy()["us"]
    first, last = database.execute("SELECT min(us), max(us) FROM rows").fetchone() or (0, 0)
    if given.pace == "max":
        expected = np.arange(-(-first // slide_us), last // slide_us + 1) * slide_us
        if not np.array_equal(results[results <= last], expected):
            return [f"{len(results)} boundaries instead of {len(expected)}"]
    # after the last row there may be results only where the end of the input is known
    checked = results[results <= last]
    chosen = checked[np.unique(np.linspace(0, len(checked) - 1, boundaries).astype(int))]
    wrong = []
    for at_us in map(int, chosen):
        oracle = database.execute(
            "SELECT k, count(*), sum(w), avg(w), max(w) FROM rows WHERE us BETWEEN ? AND ? "
            "GROUP BY k ORDER BY k",
            [at_us - range_us, at_us],
        ).fetchall()
        mine = database.execute(
            "SELECT k, n, total, mean, top FROM found WHERE us = ? ORDER BY k", [at_us]
        ).fetchall()
        if not np.allclose(np.array(oracle, float), np.array(mine, float), rtol=1e-12, atol=0) or not oracle:
            wrong.append(f"boundary {at_us}: {len(mine)} groups, DuckDB {len(oracle)}")
    return wrong


def measured_part(ticks: list[Tick], given: argparse.Namespace) -> list[Tick]:
    """Ticks at the full rate; without those of a warm-up where there are enough.

    The tick that ends the input does not count: every boundary of the hour to come is due in it at once.
    """
    if given.pace == "live":
        return ticks[min(len(ticks) // 4, 10) :]
    if given.no_fill:
        return ticks[min(len(ticks) // 4, 10) : -1]
    return ticks[round(given.range_s / given.file_s / 10) : -1]


def table(ticks: list[Tick]) -> str:
    """How ticks and state develop."""
    rows = []
    for part in np.array_split(np.arange(len(ticks)), min(PARTS, len(ticks))):
        chosen = [ticks[number] for number in part]
        taken, seconds = sum(t.rows_in for t in chosen), sum(t.seconds for t in chosen)
        # the last tick of all knows that nothing more comes, and keeps nothing
        size_mb = max(tick.window_bytes for tick in chosen) / 1e6
        cells = [f"{taken / len(chosen):,.0f}", len(chosen), f"{seconds / len(chosen):.3f}"]
        rows.append([*cells, f"{taken / seconds:,.0f}", f"{size_mb:,.1f}", phases_text(mean_phases(chosen))])
    header = ["rows per tick", "ticks", "tick, s", "rows/s", "state, MB", "phases of a mean tick, s"]
    return markdown(header, rows)


def main() -> None:
    """Run it and print how it went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=10_000, help="rows per second of event time")
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--range-s", type=int, default=3600, help="length of the window")
    parser.add_argument("--slide-s", type=int, default=1)
    parser.add_argument("--span", type=float, default=600, help="seconds of event time at the full rate")
    parser.add_argument("--file-s", type=float, default=10, help="seconds of event time of a file")
    parser.add_argument("--pace", choices=["max", "live"], default="max")
    parser.add_argument("--no-fill", action="store_true", help="start with an empty window")
    parser.add_argument("--markdown", action="store_true", help="print the table of README.md only")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        every_tick = run(Path(name), given)
        wrong = differences(Path(name), given)
    ticks = measured_part(every_tick, given)
    print(table(ticks))
    taken = sum(tick.rows_in for tick in ticks[1:])
    rate = taken / (ticks[-1].end_s - ticks[0].end_s) if len(ticks) > 1 else 0.0
    half = len(ticks) // 2
    growth = mean(t.seconds for t in ticks[half:]) / mean(t.seconds for t in ticks[:half]) if half else None
    state = {"first": ticks[0].window_bytes, "largest": max(tick.window_bytes for tick in ticks)}
    if not given.markdown:
        # a live source delivers no more than its rate
        wanted = given.rate * (0.97 if given.pace == "live" else 1.0)
        print(f"\nrows/s: {verdict(rate, wanted, at_most=False)}")
        print(f"later ticks of earlier ones: {verdict(growth, 1.2)}")
        print(f"state: {state['first'] / 1e6:,.1f} MB at first, {state['largest'] / 1e6:,.1f} MB at most")
        if given.pace == "max":
            print(
                f"the tick that ends the input, with all boundaries to come: {every_tick[-1].seconds:.1f} s"
            )
        print(f"same results as DuckDB: {not wrong}")
    if given.json:
        document = {"rows_per_s": rate, "growth": growth, "state_bytes": state, "same": not wrong}
        given.json.write_text(
            json.dumps({**document, "ticks": [vars(tick) for tick in every_tick]}, indent=1)
        )
    if wrong:
        raise SystemExit("results differ: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
