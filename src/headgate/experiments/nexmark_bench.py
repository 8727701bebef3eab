"""NEXMark on Spark: each query's speed, latency and state, its answers, and queries written by hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.experiments.nexmark_answers import ANSWERS
from headgate.experiments.study import Progress, Study
from headgate.model.status import RunStatus
from headgate.session.session import Session
from headgate.spark.application.cluster import processors
from headgate.workload.nexmark import DEFAULT_RATE, DEFAULT_START_US, EventSequence
from headgate.workload.nexmark_files import DataSet

SCRIPTS = Path(__file__).parents[3] / "examples" / "nexmark"
_TABLES = ("person", "auction", "bid")
_LONGEST_S = 3600.0


@dataclass(frozen=True)
class MeasuredRun:
    """One run over all events."""

    events: int
    seconds: float
    ticks: int
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    state_bytes: int = 0

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds

    def row(self, by_hand: MeasuredRun | None) -> dict[str, object]:
        ratio = {} if by_hand is None else {"times_by_hand": round(by_hand.seconds / self.seconds, 2)}
        return {
            "events_per_s": round(self.events_per_s),
            "tick_s": round(self.seconds / self.ticks, 3),
            "latency_p50_s": self.latency_p50_s and round(self.latency_p50_s, 3),
            "latency_p99_s": self.latency_p99_s and round(self.latency_p99_s, 3),
            "state_MB": round(self.state_bytes / 1e6, 2),
            **ratio,
        }


def query_numbers(names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of queries by their names; all of them if none is named."""
    known = {f"q{number}": number for number in ANSWERS}
    for name in names:
        if name not in known:
            raise SetupError(f"--query: unknown query {name}; known: {known_names(list(known))}")
    return tuple(known[name] for name in names) or tuple(ANSWERS)


def nexmark_study(
    spark: Any, out: Path, events: int, numbers: Sequence[int], seed: int, progress: Progress
) -> Study:
    """Run queries over events of a seed, in ticks of 100,000 events, and compare results with DuckDB's."""
    if not SCRIPTS.is_dir():
        raise SetupError(f"there is no folder {SCRIPTS}; run this in a copy of the repository")
    study = Study("nexmark", out, progress)
    with TemporaryDirectory(prefix="headgate-nexmark-") as folder:
        bench = _Bench(spark, Path(folder), events, progress)
        progress(f"writing {events:,} events")
        sequence = EventSequence(seed, DEFAULT_RATE, DEFAULT_START_US)
        DataSet(bench.data, sequence, events, files=ceil(events / 100_000)).write()
        speeds: dict[str, MeasuredRun] = {}
        speeds_by_hand: dict[str, MeasuredRun] = {}
        table: dict[str, object] = {}
        study.tables["queries"] = table
        for number in numbers:
            speeds[f"q{number}"] = run = bench.measure(number)
            by_hand = bench.measure_by_hand(number) if number in BY_HAND else None
            table[f"q{number}"] = run.row(by_hand)
            study.equal(f"q{number}: rows that differ from DuckDB's", 0, bench.differences(number))
            if by_hand is not None:
                speeds_by_hand[f"q{number}"] = by_hand
                study.at_least(f"q{number}: times as fast as by hand", 1.0, by_hand.seconds / run.seconds)
    with study.drawing("nexmark", f"NEXMark, {events:,} events", "query", "events per second") as axes:
        for label, runs in (("Headgate", speeds), ("Structured Streaming, by hand", speeds_by_hand)):
            axes.bar(list(runs), [run.events_per_s for run in runs.values()], label=label)
        axes.tick_params(axis="x", labelrotation=90)
    return study


@dataclass(frozen=True)
class _Bench:
    """A data set, and runs over it."""

    spark: Any
    folder: Path
    events: int
    progress: Progress

    @property
    def data(self) -> Path:
        return self.folder / "nexmark"

    def measure(self, number: int) -> MeasuredRun:
        """The second of two runs."""
        for attempt in ("warming up", "running"):
            self.progress(f"q{number}: {attempt}")
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            session = Session(self.spark)
            session.execute(self.script(number), origin=str(SCRIPTS / f"q{number}.sql"))
            run = session.start(until_done=True)
            if not run.wait(_LONGEST_S):
                raise SetupError(f"q{number} has not finished within {_LONGEST_S:g} s; pass fewer --events")
            measured = self._measured(run.status(), f"q{number}")
            run.discard()
        return measured

    def script(self, number: int) -> str:
        """The query over the data set, one file of each table to a tick."""
        text = (SCRIPTS / f"q{number}.sql").read_text(encoding="utf-8")
        text = text.replace("'nexmark/", f"'{self.data}/").replace("'out/", f"'{self.folder}/out/")
        return text.replace("timestamp 'dateTime'", "timestamp 'dateTime', maxFilesPerTrigger '1'")

    def _measured(self, status: RunStatus, query: str) -> MeasuredRun:
        first, last = status.history[0], status.history[-1]
        latency = status.queries[query].latency_s
        return MeasuredRun(
            self.events,
            last.at_s - first.at_s + first.seconds,
            len(status.history),
            latency.p50,
            latency.p99,
            max(tick.window_bytes for tick in status.history),
        )

    def measure_by_hand(self, number: int) -> MeasuredRun:
        """The second of two runs of the query as a user of Spark would write it."""
        spark = self.spark.newSession()
        # each is a store of state of its own
        spark.conf.set("spark.sql.shuffle.partitions", processors(self.spark))
        for attempt in range(2):
            self.progress(f"q{number}: by hand")
            place = self.folder / f"by-hand-{number}-{attempt}"
            for name in _TABLES:
                self._stream(spark, name).withWatermark("dateTime", "0 seconds").createOrReplaceTempView(name)
            writer = spark.sql(BY_HAND[number]).writeStream.format("parquet").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", f"{place}/checkpoint").outputMode("append")
            query = writer.start(f"{place}/out")
            query.awaitTermination()
            batches = [batch for batch in query.recentProgress if batch.numInputRows]
            seconds = sum(batch.durationMs["triggerExecution"] for batch in query.recentProgress) / 1e3
        return MeasuredRun(self.events, seconds, len(batches))

    def _stream(self, spark: Any, table: str) -> Any:
        folder = str(self.data / table)
        schema = spark.read.parquet(folder).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)

    def differences(self, number: int) -> int:
        """Rows that are not among the results of both, each as often as it is missing."""
        import duckdb

        duck = duckdb.connect()
        duck.execute("SET TimeZone = 'UTC'")
        for name in (*_TABLES, "side_input"):
            duck.execute(f"CREATE VIEW {name} AS FROM '{self.data}/{name}/*.parquet'")
        results = f"'{self.folder}/out/q{number}/**/*.parquet'"
        columns = "*"
        if number == 10:
            # the column of folders comes last
            columns = "auction, bidder, price, dateTime, extra, day, minute"
        duck.execute(f"CREATE TABLE found AS SELECT {columns} FROM read_parquet({results})")
        # in the types of the results
        duck.execute("CREATE TABLE wanted AS FROM found LIMIT 0")
        duck.execute(f"INSERT INTO wanted {ANSWERS[number]}")
        both = "(FROM found EXCEPT ALL FROM wanted) UNION ALL (FROM wanted EXCEPT ALL FROM found)"
        [(rows,)] = duck.sql(f"SELECT count(*) FROM ({both})").fetchall()
        return int(rows)


BY_HAND = {
    0: "SELECT auction, bidder, price, dateTime, extra FROM bid",
    1: "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    2: "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    7: """
      SELECT b.* FROM (
        SELECT highest, explode(bids) AS b FROM (
          SELECT max(price) AS highest, collect_list(struct(auction, price, bidder, dateTime, extra)) AS bids
          FROM bid GROUP BY window(dateTime, '10 seconds'))
      ) WHERE b.price = highest
    """,
    8: """
      SELECT DISTINCT p.id, p.name, p.w
      FROM (SELECT id, name, window(dateTime, '10 seconds') AS w FROM person) AS p
      JOIN (SELECT seller, window(dateTime, '10 seconds') AS w FROM auction) AS a
        ON p.id = a.seller AND p.w = a.w
    """,
    12: """
      SELECT bidder, count(*) AS bid_count, window.start, window.end
      FROM bid GROUP BY bidder, window(dateTime, '10 seconds')
    """,
    20: """
      SELECT auction, bidder, price, channel, url, bid.dateTime AS bid_dateTime, itemName, seller, category
      FROM bid JOIN auction ON auction = id WHERE category = 10
    """,
}
"""Queries that Structured Streaming can express, as its users write them, over streams with watermarks."""
