"""Two-stream window join at three tick sizes: Headgate against Spark's own stream-stream join, in one run.

    python benchmarks/window_join.py [--sizes 200k,1M,4M] [--repeat 2] [--cold] [--rocksdb] [--batches]

Both read the same Parquet files in ticks of the same size (rows of both streams together), write Parquet
with durable commits, and must give the same rows. Headgate also joins ROWS windows of as many rows as the
RANGE windows hold; their result must not depend on the tick size.

Warm: one JVM; every system runs a few times to warm up, then all take turns, and the best run of each
counts. Cold (``--cold``): every run is the first one of a process of its own. A run lasts from its start
until the last result is committed; starting the JVM is not part of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import (
    Tick,
    TickLog,
    end_with_parent,
    hand_settings,
    markdown,
    mean_phases,
    phases_text,
    run_child,
    spark_session,
    tell_result,
    triggers_of,
    verdict,
    write_files,
)
from headgate import Session

KEYS = 50_000
WINDOW_S = 10
ROWS_PER_S = 2_000  # of each stream, in event time
WINDOW_ROWS = WINDOW_S * ROWS_PER_S
FILE_ROWS = 100_000
FILES = 20
"""Of each stream: every run takes in the same 4 M rows, whatever the size of its ticks."""
ROWS = 2 * FILES * FILE_ROWS
SCHEMA = "ts TIMESTAMP, k INT, v DOUBLE, w BIGINT"
STORES = {
    "spark": "HDFSBackedStateStoreProvider",
    "spark-rocksdb": "RocksDBStateStoreProvider",
}
NAMES = {
    "headgate": "Headgate, RANGE",
    "headgate-rows": "Headgate, ROWS",
    "spark": "Spark's own, HDFS-backed store",
    "spark-rocksdb": "Spark's own, RocksDB store",
    "batches": "a loop of batch joins, RANGE",
}
JOINED = ("greatest(a.ts, b.ts) AS ts", "a.k AS k", "a.v AS v", "a.w AS w", "b.v AS bv", "b.w AS bw")
_REACH = f"INTERVAL {WINDOW_S} SECONDS"
NEAR = f"a.k = b.k AND a.ts >= b.ts - {_REACH} AND a.ts <= b.ts + {_REACH}"


@dataclass(frozen=True)
class Size:
    """A tick size: files of each stream that a tick takes."""

    label: str
    files: int

    @property
    def rows_per_tick(self) -> int:
        """Of both streams."""
        return 2 * self.files * FILE_ROWS


SIZES = {size.label: size for size in (Size("200k", 1), Size("1M", 5), Size("4M", 20))}


def make_stream(folder: Path, files: int, seed: int) -> None:
    """Rows in order of time, in equal files, at a constant mean rate."""
    rng = np.random.default_rng(seed)
    rows = files * FILE_ROWS
    span_us = rows // ROWS_PER_S * 1_000_000
    ts = 1_700_000_000_000_000 + np.sort(rng.choice(span_us, rows, replace=False))
    columns = {
        "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
        "k": rng.integers(0, KEYS, rows, dtype=np.int32),
        "v": rng.random(rows),
        "w": rng.integers(0, 1000, rows),
    }
    whole = pa.table(columns)
    write_files((whole.slice(number * FILE_ROWS, FILE_ROWS) for number in range(files)), folder)


def make_data(folder: Path) -> None:
    """The files of both streams."""
    for seed, name in enumerate("ab"):
        make_stream(folder / name, FILES, seed)


# ---- one run of a system


def run_headgate(spark: SparkSession, data: Path, work: Path, files_per_tick: int, window: str) -> list[Tick]:
    """The ticks of a join over two such windows."""
    session = Session(spark)
    options = f"timestamp 'ts', maxFilesPerTrigger {files_per_tick}"
    for name in "ab":
        session.execute(
            f"CREATE STREAM {name} ({SCHEMA}) FROM parquet OPTIONS (path '{data / name}', {options})"
        )
    session.execute(
        f"CREATE QUERY joined AS SELECT a.k, a.v, a.w, b.v AS bv, b.w AS bw "
        f"FROM a [{window}], b [{window}] WHERE a.k = b.k INTO parquet OPTIONS (path '{work / 'out'}')"
    )
    log = TickLog()
    session.start(until_done=True, checkpoint=work / "checkpoint", observers=[log]).wait()
    # the last tick waits for the clock to tell that nothing more comes: it is no work
    return [tick for tick in log.ticks if tick.rows_in or tick.rows_out]


def run_spark(spark: SparkSession, data: Path, work: Path, files_per_tick: int, store: str) -> list[Tick]:
    """The triggers of the same join as Structured Streaming has it."""
    hand_settings(spark)
    provider = f"org.apache.spark.sql.execution.streaming.state.{store}"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)

    def side(name: str) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_tick)
        return reader.parquet(str(data / name)).withWatermark("ts", "0 seconds").alias(name)

    query = (
        side("a")
        .join(side("b"), F.expr(NEAR))
        .selectExpr(*JOINED)
        .writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [tick for tick in triggers_of(query) if tick.rows_in]


def run_batches(spark: SparkSession, data: Path, work: Path, files_per_tick: int) -> list[Tick]:
    """The same results by a loop over the files that knows them all, without state, offsets or a checkpoint.

    What any engine on Spark has to do for such a tick: read, join, write.
    """
    hand_settings(spark)

    def side(name: str, first: int) -> DataFrame:
        paths = [str(path) for path in sorted((data / name).glob("*.parquet"))]
        new, old = paths[first : first + files_per_tick], paths[max(0, first - 1) : first]
        rows = spark.read.schema(SCHEMA).parquet(*new).withColumn("is_new", F.lit(True))
        if old:
            before = spark.read.schema(SCHEMA).parquet(*old).withColumn("is_new", F.lit(False))
            rows = rows.unionAll(before)
        return rows.alias(name)

    ticks = []
    for first in range(0, FILES, files_per_tick):
        started = time.time()
        joined = side("a", first).join(side("b", first), F.expr(f"({NEAR}) AND (a.is_new OR b.is_new)"))
        joined.selectExpr(*JOINED).write.mode("append").parquet(str(work / "out"))
        ended = time.time()
        ticks.append(Tick(ended, ended - started, 2 * files_per_tick * FILE_ROWS))
    return ticks


def fingerprint(spark: SparkSession, folder: Path) -> tuple[int, int]:
    """Number of rows and an order-free sum of their hashes."""
    frame = spark.read.parquet(str(folder))
    row = frame.agg(F.count(F.lit(1)), F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)


def run_once(spark: SparkSession, system: str, size: Size, data: Path) -> dict[str, Any]:
    """Seconds until all results are committed, where the time of a tick went, and what came out."""
    runs: dict[str, Callable[[Path], list[Tick]]] = {
        "headgate": lambda work: run_headgate(spark, data, work, size.files, f"RANGE {WINDOW_S} SECONDS"),
        "headgate-rows": lambda work: run_headgate(spark, data, work, size.files, f"ROWS {WINDOW_ROWS}"),
        **{
            name: lambda work, store=store: run_spark(spark, data, work, size.files, store)
            for name, store in STORES.items()
        },
        "batches": lambda work: run_batches(spark, data, work, size.files),
    }
    work = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        started = time.time()
        ticks = runs[system](work)
        seconds = ticks[-1].end_s - started
        taken = sum(tick.rows_in for tick in ticks)
        assert taken == ROWS, f"{system} has taken {taken:,} of {ROWS:,} rows"
        return {
            "system": system,
            "size": size.label,
            "seconds": seconds,
            "rows_per_s": ROWS / seconds,
            "ticks": len(ticks),
            "tick_s": mean(tick.seconds for tick in ticks),
            "phases_s": mean_phases(ticks),
            "print": fingerprint(spark, work / "out"),
        }
    finally:
        # threads of Spark that look after its state may still write
        shutil.rmtree(work, ignore_errors=True)


# ---- warm and cold


def report(result: dict[str, Any], label: str) -> dict[str, Any]:
    """Print a run as it ends."""
    print(
        f"{result['size']:5s} {NAMES[result['system']]:32s} {label:8s} "
        f"{result['rows_per_s'] / 1e3:6.0f} k rows/s, {result['ticks']} ticks of {result['tick_s']:.3f} s; "
        f"{phases_text(result['phases_s'])}",
        flush=True,
    )
    return result


def warm_runs(systems: list[str], sizes: list[Size], data: Path, given: argparse.Namespace) -> list[Any]:
    """All systems and sizes in one JVM, in turn, after a warm-up."""
    spark = spark_session()
    smallest = sizes[0]
    for system in systems:
        for _ in range(given.warm_ups if system.startswith("headgate") else 1):
            report(run_once(spark, system, smallest, data), "warm-up")
    measured = [
        report(run_once(spark, system, size, data), f"run {attempt}")
        for attempt in range(1, given.repeat + 1)
        for size in sizes
        for system in systems
    ]
    spark.stop()
    return measured


def cold_runs(systems: list[str], sizes: list[Size], data: Path, given: argparse.Namespace) -> list[Any]:
    """Every run in a process of its own."""
    return [
        report(run_child(__file__, ["--child", system, "--sizes", size.label, "--data", data]), "cold")
        for _ in range(given.repeat)
        for size in sizes
        for system in systems
    ]


def best_of(measured: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The fastest run by size and system."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for result in sorted(measured, key=lambda result: result["seconds"], reverse=True):
        best[result["size"], result["system"]] = result
    return best


def differences(measured: list[dict[str, Any]]) -> list[str]:
    """Results that should be the same and are not."""
    groups: dict[str, set[tuple[int, int]]] = {}
    for result in measured:
        kind = "ROWS" if result["system"] == "headgate-rows" else "RANGE"
        groups.setdefault(kind, set()).add(tuple(result["print"]))
    return [f"{kind}: {sorted(prints)}" for kind, prints in groups.items() if len(prints) > 1]


def table(measured: list[dict[str, Any]], sizes: list[Size], systems: list[str]) -> str:
    """Rates and phases, with the tick size in every row."""
    best = best_of(measured)
    rows = []
    for size in sizes:
        base = best.get((size.label, "headgate"))
        for system in systems:
            result = best[size.label, system]
            ratio = "" if base in (None, result) else f"{base['rows_per_s'] / result['rows_per_s']:.1f}"
            rate, phases = f"{result['rows_per_s'] / 1e3:,.0f} k", phases_text(result["phases_s"])
            cells = [NAMES[system], rate, result["ticks"], f"{result['tick_s']:.3f}", phases, ratio]
            rows.append([f"{size.rows_per_tick:,}", *cells])
    header = ["rows per tick", "system", "rows/s", "ticks", "tick, s", "phases of a mean tick, s"]
    return markdown([*header, "Headgate, RANGE is times as fast"], rows)


def conclusions(measured: list[dict[str, Any]], cold: bool) -> list[str]:
    """Ratios beside what is wanted of them."""
    rate = {case: result["rows_per_s"] for case, result in best_of(measured).items()}
    lines = []
    at_least = {"200k": 5.0} if cold else {"200k": 5.0, "1M": 9.0}
    for label, wanted in at_least.items():
        ours, theirs = rate.get((label, "headgate")), rate.get((label, "spark"))
        if ours and theirs:
            lines.append(f"{label} rows per tick, of Spark's own: {verdict(ours / theirs, wanted, False)}")
    for label in SIZES:
        ours, rows = rate.get((label, "headgate")), rate.get((label, "headgate-rows"))
        if ours and rows:
            lines.append(f"{label} rows per tick, ROWS of RANGE: {verdict(rows / ours, 0.7, False)}")
    return lines


def main() -> None:
    """Run the comparison and print a table of ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="200k,1M,4M", help="rows per tick, of both streams together")
    parser.add_argument("--repeat", type=int, default=2, help="runs that count, of each system and size")
    parser.add_argument("--warm-ups", type=int, default=3, help="Headgate's runs before those that count")
    parser.add_argument("--cold", action="store_true", help="each run in a process of its own")
    parser.add_argument("--rocksdb", action="store_true", help="Spark with its RocksDB state store too")
    parser.add_argument("--batches", action="store_true", help="a hand-written loop of batch joins too")
    parser.add_argument("--only", choices=["headgate"], help="leave the comparison out")
    parser.add_argument("--no-rows", action="store_true", help="leave ROWS windows out")
    parser.add_argument("--markdown", action="store_true", help="print the table of README.md only")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [SIZES[label] for label in given.sizes.split(",")]
    if given.child:
        end_with_parent()
        spark = spark_session()
        tell_result(run_once(spark, given.child, sizes[0], given.data))
        spark.stop()
        return
    systems = ["headgate"]
    systems += [] if given.only else ["spark", *(["spark-rocksdb"] if given.rocksdb else [])]
    systems += [] if given.no_rows else ["headgate-rows"]
    systems += ["batches"] if given.batches else []
    with tempfile.TemporaryDirectory(prefix="headgate-data-") as folder:
        make_data(Path(folder))
        measured = (cold_runs if given.cold else warm_runs)(systems, sizes, Path(folder), given)
    print("\n" + table(measured, sizes, systems))
    wrong = differences(measured)
    if not given.markdown:
        print("\n" + "\n".join([*conclusions(measured, given.cold), f"same rows: {not wrong}"]))
    if given.json:
        given.json.write_text(json.dumps(measured, indent=1))
    if wrong:
        raise SystemExit("results differ: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
