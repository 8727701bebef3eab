"""What several benchmarks need: live files, child processes, statistics of ticks, Markdown tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from headgate.spark.application.cluster import own_session

# a fixed instant for files that are made in advance: a full hour, so that any slide divides it
EPOCH_US = 1_699_999_200_000_000
COLUMNS = "ts TIMESTAMP, id BIGINT, k INT, v DOUBLE, w BIGINT"

_READY = "READY"
_RESULT = "RESULT "


# ---- data


def table_of(rng: np.random.Generator, ts_us: np.ndarray, first_id: int, keys: int) -> pa.Table:
    """Rows with these timestamps and consecutive ids."""
    rows = len(ts_us)
    return pa.table(
        {
            "ts": pa.array(ts_us, pa.timestamp("us", tz="UTC")),
            "id": np.arange(first_id, first_id + rows),
            "k": rng.integers(0, keys, rows, dtype=np.int32),
            "v": rng.random(rows),
            "w": rng.integers(0, 1000, rows),
        }
    )


def write_files(tables: Iterable[pa.Table], folder: Path) -> None:
    """One file a table, with modification times in the order of their names."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@dataclass
class Dropper:
    """Delivers small Parquet files at the pace of the wall clock; a rename makes each one visible.

    Timestamps are wall-clock time: a file holds the rows of the interval that ends when it is delivered.
    """

    folder: Path
    streams: Sequence[str]
    rows_per_s: float
    """Of each stream."""
    every_s: float
    keys: int
    arrivals: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """By stream: the first id of each file, and when it became visible."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Make the empty folders that readers need."""
        (self.folder / "staging").mkdir(parents=True)
        for stream in self.streams:
            (self.folder / stream).mkdir()
            self.arrivals[stream] = []

    def start(self) -> None:
        """Deliver until stopped."""
        self._thread = threading.Thread(target=self._deliver, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the delivery."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _deliver(self) -> None:
        rng = np.random.default_rng(1)
        started = time.time()
        number = 0
        while not self._stopped.wait(max(0.0, started + (number + 1) * self.every_s - time.time())):
            first = round(number * self.every_s * self.rows_per_s)
            rows = round((number + 1) * self.every_s * self.rows_per_s) - first
            from_us = (started + number * self.every_s) * 1e6
            ts_us = (from_us + (np.arange(rows) + 0.5) / max(1, rows) * self.every_s * 1e6).astype(np.int64)
            staged = self.folder / "staging" / "next.parquet"
            for stream in self.streams:
                pq.write_table(table_of(rng, ts_us, first, self.keys), staged)
                os.rename(staged, self.folder / stream / f"{number:06d}.parquet")
                self.arrivals[stream].append((first, time.time()))
            number += 1


# ---- processes


def run_child(
    script: str,
    arguments: Sequence[object],
    on_ready: Callable[[Callable[[], None]], None] = lambda stop: None,
) -> dict[str, Any]:
    """Run a benchmark script as a child process with a JVM of its own; what it reported.

    ``on_ready`` is called once its Spark has started and its queries are about to; it is given what ends a
    child that waits in ``wait_for_stop``.
    """
    command = [sys.executable, script, *map(str, arguments)]
    # a JVM ends with the Python process that started it, and a child with the pipe to its parent
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        result: dict[str, Any] | None = None
        try:
            assert child.stdin is not None and child.stdout is not None
            for line in child.stdout:
                if line.startswith(_READY):
                    on_ready(child.stdin.close)
                elif line.startswith(_RESULT):
                    result = json.loads(line.removeprefix(_RESULT))
                else:
                    print(line, end="", flush=True)
        except BaseException:
            child.kill()
            raise
    if child.returncode or result is None:
        raise SystemExit(f"{' '.join(command)} ended with code {child.returncode}")
    return result


def tell_ready() -> None:
    """In a child: queries are about to start."""
    print(_READY, flush=True)


def end_with_parent() -> None:
    """In a child that does not wait for a stop: end at once when the parent is gone."""

    def watch() -> None:
        sys.stdin.buffer.raw.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def wait_for_stop() -> None:
    """In a child: wait until the parent says that it has seen enough, or is gone."""
    sys.stdin.read()


def tell_result(result: Mapping[str, Any]) -> None:
    """In a child: what was measured."""
    print(_RESULT + json.dumps(result), flush=True)


def spark_session(master: str = "local[2]") -> SparkSession:
    """The Spark application of both systems: the settings of Headgate's own."""
    return own_session(master)


def hand_settings(spark: SparkSession) -> None:
    """What a user with two processors would set for queries of their own."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")


def cpu_seconds(spark: SparkSession) -> float | None:
    """Processor time of the driver's Python and JVM so far; None where /proc does not tell."""
    jvm: Any = spark._jvm
    times = os.times()
    try:
        stat = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat").read_text()
    except OSError:
        return None
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") + times.user + times.system


# ---- ticks


@dataclass(frozen=True)
class Tick:
    """A tick of Headgate, or a trigger of Structured Streaming."""

    end_s: float
    """Since the epoch."""
    seconds: float
    rows_in: int
    rows_out: int = 0
    phases_s: Mapping[str, float] = field(default_factory=dict)
    window_bytes: int = 0


@dataclass
class TickLog:
    """An observer that keeps the ticks of a run with the times at which they were committed."""

    ticks: list[Tick] = field(default_factory=list)

    def __call__(self, event: Any) -> None:
        """Keep a committed tick; other events pass by."""
        if type(event).__name__ != "TickCommitted":
            return
        self.ticks.append(
            Tick(
                end_s=time.time(),
                seconds=event.seconds,
                rows_in=sum(counts.rows_in for counts in event.streams.values()),
                rows_out=sum(result.rows_out for result in event.queries.values()),
                phases_s=dict(event.phases_s),
                window_bytes=event.window_bytes,
            )
        )


def triggers_of(query: StreamingQuery) -> list[Tick]:
    """The triggers of a hand-written query so far."""
    found = []
    for progress in query.recentProgress:
        document: Any = progress if isinstance(progress, dict) else json.loads(progress.json)
        durations_ms = document["durationMs"]
        started = datetime.fromisoformat(document["timestamp"].replace("Z", "+00:00")).timestamp()
        seconds = durations_ms.get("triggerExecution", 0) / 1000
        phases = {name: ms / 1000 for name, ms in durations_ms.items() if name != "triggerExecution"}
        rows = sum(source.get("numInputRows", 0) for source in document["sources"])
        found.append(Tick(started + seconds, seconds, rows, phases_s=phases))
    return found


def mean_phases(ticks: Sequence[Tick]) -> dict[str, float]:
    """Mean seconds of each phase, in the order in which phases first appear."""
    names = dict.fromkeys(name for tick in ticks for name in tick.phases_s)
    return {n: round(sum(t.phases_s.get(n, 0.0) for t in ticks) / len(ticks), 4) for n in names}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of values does not exceed."""
    return float(np.percentile(np.asarray(values), 100 * share, method="inverted_cdf"))


# ---- output


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as benchmarks/README.md has it."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def phases_text(phases_s: Mapping[str, float]) -> str:
    """Phases of a tick in one cell, those of a millisecond or more."""
    return ", ".join(f"{name} {seconds:.3f}" for name, seconds in phases_s.items() if seconds >= 0.001)


def verdict(value: float | None, limit: float, at_most: bool = True) -> str:
    """A ratio beside what is wanted of it."""
    if value is None:
        return "not measured"
    met = value <= limit if at_most else value >= limit
    bound = "at most" if at_most else "at least"
    return f"{value:.2f} (wanted: {bound} {limit:g}; {'met' if met else 'missed'})"


@contextmanager
def delivering(dropper: Dropper) -> Iterator[Dropper]:
    """A dropper that ends with the block; it starts when it is told to."""
    dropper.prepare()
    try:
        yield dropper
    finally:
        dropper.stop()
