"""Two-stream window join: Headgate against Spark's own stream-stream join, in one run.

    python benchmarks/window_join.py [--rows 2000000] [--files 20] [--repeat 3] [--json FILE]

Both read the same Parquet files, write Parquet with durable commits, and must give the same rows. Every
system runs over all data to warm up, for about as long as the others; then the best of a few runs counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate import Session
from headgate.spark.cluster import own_session

KEYS = 50_000
WINDOW_S = 10
SPAN_S = 1000
SCHEMA = "ts TIMESTAMP, k INT, v DOUBLE, w BIGINT"


def make_stream(folder: Path, rows: int, files: int, seed: int) -> None:
    """Rows in order of time, in equal files, spread over SPAN_S seconds."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    start_us = 1_700_000_000_000_000
    span_us = SPAN_S * 1_000_000
    ts = start_us + np.sort(rng.choice(span_us, rows, replace=False))
    keys = rng.integers(0, KEYS, rows, dtype=np.int32)
    values, weights = rng.random(rows), rng.integers(0, 1000, rows)
    for number in range(files):
        part = slice(number * rows // files, (number + 1) * rows // files)
        table = pa.table(
            {
                "ts": pa.array(ts[part], pa.timestamp("us", tz="UTC")),
                "k": keys[part],
                "v": values[part],
                "w": weights[part],
            }
        )
        pq.write_table(table, folder / f"{number:03d}.parquet")


def run_headgate(spark: SparkSession, data: Path, work: Path, files_per_tick: int) -> dict[str, object]:
    """Seconds until all results are committed, and where the ticks' time went."""
    session = Session(spark)
    options = f"timestamp 'ts', maxFilesPerTrigger {files_per_tick}"
    for name in ("a", "b"):
        session.execute(
            f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v DOUBLE, w BIGINT) "
            f"FROM parquet OPTIONS (path '{data / name}', {options})"
        )
    session.execute(
        f"CREATE QUERY joined AS SELECT a.k, a.v, a.w, b.v AS bv, b.w AS bw "
        f"FROM a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS] WHERE a.k = b.k "
        f"INTO parquet OPTIONS (path '{work / 'out'}')"
    )
    started = time.perf_counter()
    run = session.start(until_done=True, checkpoint=work / "checkpoint")
    run.wait()
    seconds = time.perf_counter() - started
    history = run.status().history
    # the last tick waits for the clock to tell that nothing more comes: it is no work
    busy = sum(tick.seconds for tick in history)
    phases = {p: round(sum(t.phases_s.get(p, 0.0) for t in history), 3) for p in history[0].phases_s}
    return {"seconds": seconds, "busy": busy, "ticks": len(history), "phases": phases}


def run_spark(
    spark: SparkSession, data: Path, work: Path, files_per_tick: int, store: str
) -> dict[str, object]:
    """The same join as Structured Streaming has it."""
    provider = f"org.apache.spark.sql.execution.streaming.state.{store}"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    def side(name: str) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_tick)
        return reader.parquet(str(data / name)).withWatermark("ts", "0 seconds").alias(name)

    reach = f"INTERVAL {WINDOW_S} SECONDS"
    window = F.expr(f"a.k = b.k AND a.ts >= b.ts - {reach} AND a.ts <= b.ts + {reach}")
    joined = (
        side("a")
        .join(side("b"), window)
        .selectExpr(
            "greatest(a.ts, b.ts) AS ts", "a.k AS k", "a.v AS v", "a.w AS w", "b.v AS bv", "b.w AS bw"
        )
    )
    started = time.perf_counter()
    query = (
        joined.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "busy": seconds, "ticks": len(query.recentProgress), "phases": {}}


def fingerprint(spark: SparkSession, folder: Path) -> tuple[int, int]:
    """Number of rows and an order-free sum of their hashes."""
    frame = spark.read.parquet(str(folder))
    row = frame.agg(F.count(F.lit(1)), F.sum(F.xxhash64(*frame.columns).cast("decimal(38,0)"))).first()
    assert row is not None
    return int(row[0]), int(row[1] or 0)


def measure(  # type: ignore[no-untyped-def]
    name: str, run, warm_ups: int, repeat: int, spark: SparkSession, rows: int
) -> dict[str, object]:
    """Warm up, then keep the best of some runs."""
    best: dict[str, object] | None = None
    for attempt in range(1 - warm_ups, repeat + 1):
        work = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
        result = run(work)
        result["print"] = fingerprint(spark, work / "out")
        shutil.rmtree(work)
        rate = 2 * rows / float(result["seconds"])
        label = "warm-up" if attempt < 1 else f"run {attempt}"
        print(f"{name:28s} {label:8s} {rate / 1e3:6.0f} k rows/s  {result}", flush=True)
        if attempt >= 1 and (best is None or float(result["seconds"]) < float(best["seconds"])):
            best = result
    assert best is not None
    return {"system": name, "rows_per_s": round(2 * rows / float(best["seconds"])), **best}


def main() -> None:
    """Run the comparison and print a table of ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each stream")
    parser.add_argument("--files", type=int, default=20, help="files of each stream")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs after the warm-up")
    parser.add_argument("--files-per-tick", type=int, default=20, help="Headgate's tick size")
    parser.add_argument("--warm-ups", type=int, default=4, help="Headgate's runs before those that count")
    parser.add_argument("--only", choices=["headgate"], help="leave the comparison out")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    spark = own_session("local[2]")
    data = Path(tempfile.mkdtemp(prefix="headgate-data-"))
    for seed, name in enumerate(("a", "b")):
        make_stream(data / name, arguments.rows, arguments.files, seed)
    measured = [
        measure(
            f"headgate, {arguments.files_per_tick} files a tick",
            lambda work: run_headgate(spark, data, work, arguments.files_per_tick),
            arguments.warm_ups,
            arguments.repeat,
            spark,
            arguments.rows,
        )
    ]
    if not arguments.only:
        for store, per_tick in (("HDFSBackedStateStoreProvider", 5), ("RocksDBStateStoreProvider", 5)):
            measured.append(
                measure(
                    f"spark, {store[:4].lower()} store",
                    lambda work, s=store, n=per_tick: run_spark(spark, data, work, n, s),
                    1,
                    max(1, arguments.repeat - 2),
                    spark,
                    arguments.rows,
                )
            )
    shutil.rmtree(data)
    base = measured[0]
    print(f"\n{'system':28s} {'rows/s':>10s} {'headgate is':>12s}  same rows")
    for result in measured:
        ratio = float(base["rows_per_s"]) / float(result["rows_per_s"])  # type: ignore[arg-type]
        same = result["print"] == base["print"]
        print(f"{result['system']:28s} {result['rows_per_s']:>10,} {ratio:>11.1f}x  {same}")
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1, default=str))


if __name__ == "__main__":
    main()
