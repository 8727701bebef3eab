"""From arrival to visible result: one selection and one window join in light load, Headgate and by hand.

    python benchmarks/latency.py [--warmup 60] [--seconds 60] [--every 0.1] [--markdown] [--json FILE]

Small Parquet files appear by rename every 100 ms, 1,000 rows per second in all. Results are durable: both
systems write Parquet. A row has arrived when its file is visible, a pair when the later one of its two rows
has. A result of Headgate is visible when its file is renamed into the folder; a result of a hand-written
query when the batch that lists its file is in the sink's log (files that no batch lists may be partial). The
folders are polled every 5 ms. Every case is one live run in a JVM of its own, and rows count that arrive
after the warm-up, which begins with the first result.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common import (
    COLUMNS,
    Dropper,
    delivering,
    hand_settings,
    markdown,
    percentile,
    run_child,
    spark_session,
    tell_ready,
    tell_result,
    verdict,
    wait_for_stop,
)
from headgate import Session

KEYS = 5000
WINDOW_S = 10
ROWS_PER_S = 1000
POLL_S = 0.005
TAIL_S = 10.0
FIRST_RESULT_S = 300.0
STREAMS = {"selection": "a", "join": "ab"}
CQL = {
    "selection": "SELECT id AS a_id, v FROM a WHERE v > 0.5",
    "join": (
        f"SELECT a.id AS a_id, b.id AS b_id FROM a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS] "
        "WHERE a.k = b.k"
    ),
}


@dataclass
class Watcher:
    """Notes when files appear in a folder; they are read later."""

    folder: Path
    seen: dict[str, float] = field(default_factory=dict)
    """By name, in the order in which they appeared."""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Poll until stopped."""
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End polling."""
        self._stopped.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._stopped.wait(POLL_S):
            try:
                names = [entry.name for entry in os.scandir(self.folder)]
            except FileNotFoundError:
                continue
            now = time.time()
            for name in names:
                if name not in self.seen and not name.startswith((".", "_")):
                    self.seen[name] = now


def visible_files(system: str, out: Path, seen: dict[str, float]) -> list[tuple[Path, float]]:
    """Result files, and when each became visible."""
    if system == "headgate":
        return [(out / name, at_s) for name, at_s in seen.items() if name.endswith(".parquet")]
    found: dict[Path, float] = {}
    for batch, at_s in seen.items():
        # the first line is the version of the log's format; a compacted batch lists earlier files again
        for line in (out / "_spark_metadata" / batch).read_text().splitlines()[1:]:
            found.setdefault(Path(unquote(urlparse(json.loads(line)["path"]).path)), at_s)
    return list(found.items())


def latencies(
    files: list[tuple[Path, float]], arrivals: dict[str, list[tuple[int, float]]], from_s: float, to_s: float
) -> tuple[list[float], float]:
    """Seconds of every result whose rows arrived in a time, and the share of files that led to results."""
    firsts = {stream: [first for first, _ in known] for stream, known in arrivals.items()}
    times = {stream: np.array([at_s for _, at_s in known]) for stream, known in arrivals.items()}
    found: list[float] = []
    hit = set()
    for path, visible_s in files:
        table = pq.read_table(path)
        arrived = np.zeros(table.num_rows)
        for stream in arrivals:
            ids = table.column(f"{stream}_id").to_numpy()
            numbers = np.array([bisect_right(firsts[stream], i) - 1 for i in ids], dtype=int)
            arrived = np.maximum(arrived, times[stream][numbers])
        inside = (arrived >= from_s) & (arrived < to_s)
        hit.update(arrived[inside].tolist())
        found += (visible_s - arrived[inside]).tolist()
    # the last stream delivers last, so its files are the later half of most pairs
    delivered = [at_s for at_s in list(times.values())[-1] if from_s <= at_s < to_s]
    return found, sum(at_s in hit for at_s in delivered) / max(1, len(delivered))


# ---- a live run, in a child


def live_headgate(spark: SparkSession, given: argparse.Namespace) -> None:
    """The query in a session."""
    session = Session(spark)
    for name in STREAMS[given.query]:
        session.execute(
            f"CREATE STREAM {name} ({COLUMNS}) FROM parquet "
            f"OPTIONS (path '{given.data / name}', timestamp 'ts')"
        )
    session.execute(
        f"CREATE QUERY q AS {CQL[given.query]} INTO parquet OPTIONS (path '{given.work / 'out'}')"
    )
    tell_ready()
    run = session.start(checkpoint=given.work / "checkpoint")
    wait_for_stop()
    run.stop()


def live_by_hand(spark: SparkSession, given: argparse.Namespace) -> None:
    """The query as a user of Structured Streaming writes it."""
    hand_settings(spark)

    def stream(name: str) -> DataFrame:
        return spark.readStream.schema(COLUMNS).parquet(str(given.data / name))

    if given.query == "selection":
        frame = stream("a").where("v > 0.5").selectExpr("ts", "id AS a_id", "v")
    else:
        reach = f"INTERVAL {WINDOW_S} SECONDS"
        a, b = (stream(name).withWatermark("ts", "0 seconds").alias(name) for name in "ab")
        near = F.expr(f"a.k = b.k AND a.ts >= b.ts - {reach} AND a.ts <= b.ts + {reach}")
        frame = a.join(b, near).selectExpr("greatest(a.ts, b.ts) AS ts", "a.id AS a_id", "b.id AS b_id")
    tell_ready()
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(given.work / "out"))
        .option("checkpointLocation", str(given.work / "checkpoint"))
        .start()
    )
    wait_for_stop()
    query.stop()


# ---- the whole


def wait_and_stop(watcher: Watcher, given: argparse.Namespace, stop: Callable[[], None]) -> None:
    """End the run after its warm-up, which begins with the first result, the measured time and a tail."""
    given_up = time.time() + FIRST_RESULT_S
    while not watcher.seen and time.time() < given_up:
        time.sleep(0.1)
    time.sleep(given.warmup + given.seconds + TAIL_S)
    stop()


def run_case(given: argparse.Namespace, system: str, query: str) -> dict[str, Any]:
    """One live run in a child, fed and watched from here."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    streams = STREAMS[query]
    out = folder / "work" / "out"
    watcher = Watcher(out if system == "headgate" else out / "_spark_metadata")
    watcher.start()
    try:
        rate = ROWS_PER_S / len(streams)
        with delivering(Dropper(folder / "data", streams, rate, given.every, KEYS)) as dropper:

            def begin(stop: Callable[[], None]) -> None:
                dropper.start()
                threading.Thread(target=wait_and_stop, args=(watcher, given, stop), daemon=True).start()

            arguments = ["--child", system, "--query", query]
            arguments += ["--data", folder / "data", "--work", folder / "work"]
            run_child(__file__, arguments, begin)
        watcher.stop()
        if not watcher.seen:
            raise SystemExit(f"{system}, {query}: no results")
        from_s = min(watcher.seen.values()) + given.warmup
        files = visible_files(system, out, watcher.seen)
        seconds, share = latencies(files, dropper.arrivals, from_s, from_s + given.seconds)
    finally:
        watcher.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if not seconds:
        raise SystemExit(f"{system}, {query}: no result of the measured time is visible; give more --seconds")
    result = {
        "system": system,
        "query": query,
        "results": len(seconds),
        "files_with_results": share,
        "p50_s": percentile(seconds, 0.5),
        "p99_s": percentile(seconds, 0.99),
        "max_s": max(seconds),
    }
    print(
        f"{query:9s} {system:8s} p50 {result['p50_s']:.3f} s, p99 {result['p99_s']:.3f} s, "
        f"max {result['max_s']:.3f} s over {len(seconds):,} results; {100 * share:.0f} % of the files seen",
        flush=True,
    )
    return result


def table(results: list[dict[str, Any]], every_s: float) -> str:
    """Latencies, with what a delivery holds in every row."""
    rows = []
    for result in results:
        name = "Headgate" if result["system"] == "headgate" else "by hand"
        times = [f"{result[key]:.3f}" for key in ("p50_s", "p99_s", "max_s")]
        delivery = f"{ROWS_PER_S * every_s:,.0f} every {every_s * 1000:.0f} ms"
        rows.append([result["query"], delivery, name, *times, f"{result['results']:,}"])
    return markdown(["query", "rows", "system", "p50, s", "p99, s", "max, s", "results"], rows)


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warmup", type=float, default=60.0, help="seconds of a run that do not count")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that count")
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two deliveries")
    parser.add_argument("--queries", default="selection,join", help="which of them to run")
    parser.add_argument("--systems", default="headgate,hand", help="which of them to run")
    parser.add_argument("--markdown", action="store_true", help="print the table of README.md only")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--child", choices=["headgate", "hand"], help=argparse.SUPPRESS)
    parser.add_argument("--query", choices=list(CQL), help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        spark = spark_session()
        (live_headgate if given.child == "headgate" else live_by_hand)(spark, given)
        tell_result({})
        spark.stop()
        return
    results = [
        run_case(given, system, query)
        for query in given.queries.split(",")
        for system in given.systems.split(",")
    ]
    print("\n" + table(results, given.every))
    if not given.markdown:
        for result in results:
            if (result["system"], result["query"]) == ("headgate", "selection"):
                print(f"\np50 of a selection: {verdict(result['p50_s'], 0.35)}")
                print(f"p99 of a selection: {verdict(result['p99_s'], 0.8)}")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
