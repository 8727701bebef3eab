"""Many light queries at once: Headgate against as many hand-written Structured Streaming queries.

    python benchmarks/many_queries.py [--counts 1,12,48] [--warmup 60] [--seconds 60] [--json FILE]

A dozen has four selections, four two-stream joins over 10 s windows and four sliding aggregates; no two
queries have a predicate in common. Two streams deliver 1,000 rows per second together, as small Parquet files
that appear by rename. Every case is one live run in a JVM of its own; its ticks or triggers count after the
warm-up, those with rows only. By hand means: as many streaming queries in one Spark application, 2 shuffle
partitions, triggered as soon as possible. The length of a trigger is the median over the queries: Spark
sometimes keeps one of many waiting for minutes, which would decide a mean.

First, both run over the same fixed files until they are done, and must give the same rows.
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
from statistics import mean, median
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from common import (
    COLUMNS,
    EPOCH_US,
    Dropper,
    Tick,
    TickLog,
    cpu_seconds,
    delivering,
    end_with_parent,
    hand_settings,
    markdown,
    mean_phases,
    percentile,
    phases_text,
    run_child,
    spark_session,
    table_of,
    tell_ready,
    tell_result,
    triggers_of,
    verdict,
    write_files,
)
from headgate import Session

KEYS = 1000
WINDOW_S = 10
SLIDE_S = 2
ROWS_PER_S = 500
EVERY_S = 0.15
Streams = Callable[[str], DataFrame]


@dataclass(frozen=True)
class LightQuery:
    """One query, in CQL and by hand; ``number`` makes its constants its own."""

    number: int

    @property
    def name(self) -> str:
        """Of the query and its folders."""
        return f"{self.kind}_{self.number}"

    @property
    def kind(self) -> str:
        """Selections, joins and aggregates take turns."""
        return ("selection", "join", "aggregate")[self.number % 3]

    @property
    def stream(self) -> str:
        """What a query of one stream reads."""
        return "ab"[self.number // 3 % 2]

    @property
    def least(self) -> float:
        """Bound of the predicate; 0.7 to 0.94 over 48 queries."""
        return round(0.7 + 0.005 * self.number, 3)

    def cql(self) -> str:
        """The query for Headgate."""
        n = self.number
        if self.kind == "selection":
            return (
                f"SELECT id, k, v * {n + 2} AS scaled FROM {self.stream} WHERE v > {self.least} AND w <> {n}"
            )
        if self.kind == "join":
            return (
                f"SELECT a.id AS a_id, b.id AS b_id, a.w + {n} * b.w AS score "
                f"FROM a [RANGE {WINDOW_S} SECONDS], b [RANGE {WINDOW_S} SECONDS] "
                f"WHERE a.k = b.k AND a.v > {self.least} AND b.w <> {n}"
            )
        return (
            f"SELECT k % {n + 3} AS g, COUNT(*) AS n, SUM(w) AS total, MAX(v) AS top "
            f"FROM {self.stream} [RANGE {WINDOW_S} SECONDS SLIDE {SLIDE_S} SECONDS] "
            f"WHERE v < {self.least} GROUP BY k % {n + 3}"
        )

    def by_hand(self, stream: Streams) -> DataFrame:
        """The query as a user of Structured Streaming writes it."""
        n = self.number
        if self.kind == "selection":
            chosen = stream(self.stream).where(f"v > {self.least} AND w <> {n}")
            return chosen.selectExpr("ts", "id", "k", f"v * {n + 2} AS scaled")
        if self.kind == "join":
            reach = f"INTERVAL {WINDOW_S} SECONDS"
            a = stream("a").withWatermark("ts", "0 seconds").where(f"v > {self.least}").alias("a")
            b = stream("b").withWatermark("ts", "0 seconds").where(f"w <> {n}").alias("b")
            near = F.expr(f"a.k = b.k AND a.ts >= b.ts - {reach} AND a.ts <= b.ts + {reach}")
            items = ("a.id AS a_id", "b.id AS b_id", f"a.w + {n} * b.w AS score")
            return a.join(b, near).selectExpr("greatest(a.ts, b.ts) AS ts", *items)
        window = F.window("ts", f"{WINDOW_S} seconds", f"{SLIDE_S} seconds")
        return (
            stream(self.stream)
            .withWatermark("ts", "0 seconds")
            .where(f"v < {self.least}")
            .groupBy(window, F.expr(f"k % {n + 3}").alias("g"))
            .agg(F.expr("count(*) AS n"), F.expr("sum(w) AS total"), F.expr("max(v) AS top"))
            .selectExpr("window.end AS ts", "g", "n", "total", "top")
        )

    @property
    def streams(self) -> str:
        """Those that it reads."""
        return "ab" if self.kind == "join" else self.stream


# ---- starting the two systems


def rate_stream(spark: SparkSession) -> DataFrame:
    """Spark's rate source with the columns of the files; it delivers once per second."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_PER_S).load()
    return rows.selectExpr(
        "timestamp AS ts",
        "value AS id",
        f"CAST(value * 7919 % {KEYS} AS INT) AS k",
        "value * 104729 % 1000 / 1000D AS v",
        "value * 31 % 1000 AS w",
    )


def declare(spark: SparkSession, data: Path, source: str, per_tick: int | None = None) -> Session:
    """A Headgate session with both streams."""
    session = Session(spark)
    for name in "ab":
        if source == "rate":
            session.stream(name, rate_stream(spark), timestamp="ts")
            continue
        limit = f", maxFilesPerTrigger {per_tick}" if per_tick else ""
        session.execute(
            f"CREATE STREAM {name} ({COLUMNS}) FROM parquet "
            f"OPTIONS (path '{data / name}', timestamp 'ts'{limit})"
        )
    return session


def add_queries(session: Session, queries: list[LightQuery], sink: str, work: Path) -> None:
    """Declare the queries with their sinks."""
    for query in queries:
        into = "noop" if sink == "noop" else f"parquet OPTIONS (path '{work / query.name}')"
        session.execute(f"CREATE QUERY {query.name} AS {query.cql()} INTO {into}")


def start_by_hand(
    spark: SparkSession,
    data: Path,
    source: str,
    queries: list[LightQuery],
    sink: str,
    work: Path,
    per_tick: int | None = None,
) -> list[StreamingQuery]:
    """One streaming query each, with a reader of its own for every stream."""
    hand_settings(spark)

    def stream(name: str) -> DataFrame:
        if source == "rate":
            return rate_stream(spark)
        reader = spark.readStream.schema(COLUMNS)
        if per_tick:
            reader = reader.option("maxFilesPerTrigger", per_tick)
        return reader.parquet(str(data / name))

    running = []
    for query in queries:
        writer = query.by_hand(stream).writeStream.outputMode("append").format(sink)
        writer = writer.option("checkpointLocation", str(work / f"checkpoint-{query.name}"))
        if sink == "parquet":
            writer = writer.option("path", str(work / query.name))
        if per_tick:
            writer = writer.trigger(availableNow=True)
        running.append(writer.start())
    return running


# ---- the live run of one case, in a child


def measure(spark: SparkSession, arguments: argparse.Namespace, ticks: Callable[[], list[Tick]]) -> Any:
    """Wait for the warm-up and the measured time; from when to when that was, and processor use.

    The warm-up begins when the first tick of half of the queries has ended. The measured time goes on for up
    to two minutes where ticks are so long that fewer than three have ended.
    """
    given_up = time.time() + 300
    while not ticks() and time.time() < given_up:
        time.sleep(0.5)
    time.sleep(arguments.warmup)
    from_s, cpu_from = time.time(), cpu_seconds(spark)
    time.sleep(arguments.seconds)
    while time.time() < from_s + arguments.seconds + 120:
        if sum(tick.end_s > from_s and tick.rows_in > 0 for tick in ticks()) >= 3:
            break
        time.sleep(0.5)
    to_s, cpu_to = time.time(), cpu_seconds(spark)
    cpu = None if cpu_from is None or cpu_to is None else (cpu_to - cpu_from) / (to_s - from_s)
    return from_s, to_s, cpu


def rows_delivered_per_s(queries: list[LightQuery]) -> int:
    """Of the streams that are read by any query."""
    return ROWS_PER_S * len({name for query in queries for name in query.streams})


def within(ticks: list[Tick], from_s: float, to_s: float) -> list[Tick]:
    """Ticks with rows that ended in a time."""
    return [tick for tick in ticks if tick.rows_in and from_s < tick.end_s <= to_s]


def summary(ticks: list[Tick]) -> dict[str, Any]:
    """Lengths and phases of ticks."""
    lengths = [tick.seconds for tick in ticks]
    return {
        "ticks": len(ticks),
        "mean_s": mean(lengths),
        "p50_s": percentile(lengths, 0.5),
        "p90_s": percentile(lengths, 0.9),
        "phases_s": mean_phases(ticks),
    }


def live_headgate(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """All queries in one session."""
    queries = [LightQuery(number) for number in range(arguments.queries)]
    session = declare(spark, arguments.data, arguments.source)
    add_queries(session, queries, arguments.sink, arguments.work)
    log = TickLog()
    tell_ready()
    run = session.start(checkpoint=arguments.work / "checkpoint", observers=[log])
    try:
        from_s, to_s, cpu = measure(spark, arguments, lambda: list(log.ticks))
    finally:
        run.stop()
    ticks = within(log.ticks, from_s, to_s)
    if not ticks:
        raise SystemExit("no tick ended within the measured time; give more --seconds")
    delivered = rows_delivered_per_s(queries)
    taken = sum(tick.rows_in for tick in ticks) / (to_s - from_s) / delivered
    return {
        **summary(ticks),
        "taken": taken,
        "rows_per_s": taken * delivered,
        "rows_per_tick": mean(tick.rows_in for tick in ticks),
        "cpu": cpu,
    }


def live_by_hand(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """As many streaming queries as there are queries; medians of lengths and means of the rest over them."""
    queries = [LightQuery(number) for number in range(arguments.queries)]
    tell_ready()
    running = start_by_hand(spark, arguments.data, arguments.source, queries, arguments.sink, arguments.work)
    try:
        # Spark may keep one of many waiting for minutes: the others are not measured later for it
        from_s, to_s, cpu = measure(
            spark,
            arguments,
            lambda: sorted((triggers_of(query) for query in running), key=len)[len(running) // 2],
        )
    finally:
        for query in running:
            query.stop()
    triggers = [within(triggers_of(query), from_s, to_s) for query in running]
    known = [(query, ticks, summary(ticks)) for query, ticks in zip(queries, triggers, strict=True) if ticks]
    if not known:
        raise SystemExit("no trigger ended within the measured time; give more --seconds")
    shares = [
        sum(tick.rows_in for tick in ticks) / (to_s - from_s) / (len(query.streams) * ROWS_PER_S)
        for query, ticks, _ in known
    ]
    return {
        "ticks": round(mean(s["ticks"] for *_, s in known), 1),
        **{key: median(s[key] for *_, s in known) for key in ("mean_s", "p50_s", "p90_s")},
        "by_kind_s": {
            kind: median(s["mean_s"] for query, _, s in known if query.kind == kind)
            for kind in dict.fromkeys(query.kind for query, *_ in known)
        },
        "phases_s": mean_phases([tick for _, ticks, _ in known for tick in ticks]),
        "taken": mean(shares),
        "rows_per_s": mean(shares) * rows_delivered_per_s(queries),
        "rows_per_tick": mean(tick.rows_in for _, ticks, _ in known for tick in ticks),
        "cpu": cpu,
    }


# ---- the same rows


def check(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run both over the same files and compare the results of every query row by row."""
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        tables = []
        for number in range(6):
            # odd microseconds: no timestamp is a multiple of the slide, where the bounds of windows differ
            ts_us = (
                EPOCH_US + number * 4_000_000 + np.sort(rng.choice(2_000_000, 2000, replace=False)) * 2 + 1
            )
            tables.append(table_of(rng, ts_us, number * 2000, KEYS))
        write_files(tables, arguments.data / name)
    queries = [LightQuery(number) for number in range(arguments.queries)]
    ours, theirs = arguments.work / "headgate", arguments.work / "by-hand"
    session = declare(spark, arguments.data, "files", per_tick=2)
    add_queries(session, queries, "parquet", ours)
    session.start(until_done=True, checkpoint=ours / "checkpoint").wait()
    for query in start_by_hand(spark, arguments.data, "files", queries, "parquet", theirs, per_tick=2):
        query.awaitTermination()
    wrong, rows = [], 0
    for query in queries:
        found = spark.read.parquet(str(ours / query.name))
        expected = spark.read.parquet(str(theirs / query.name)).select(*found.columns)
        if query.kind == "aggregate":
            # append mode keeps windows back that the watermark has not passed at the end of the files
            last = expected.agg(F.max("ts")).first()[0]
            found = found.where(F.col("ts") <= F.lit(last))
        mine, others = sorted(map(tuple, found.collect())), sorted(map(tuple, expected.collect()))
        rows += len(mine)
        if not mine or mine != others:
            wrong.append(f"{query.name}: {len(mine)} rows, by hand {len(others)}")
    return {"same": not wrong, "wrong": wrong, "rows": rows, "queries": len(queries)}


# ---- the whole


def run_case(arguments: argparse.Namespace, system: str, count: int, sink: str) -> dict[str, Any]:
    """One live run in a child, fed from here."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        data = folder / "data"
        with delivering(Dropper(data, "ab", ROWS_PER_S, EVERY_S, KEYS)) as dropper:
            given = ["--child", system, "--queries", count, "--sink", sink, "--source", arguments.source]
            given += ["--warmup", arguments.warmup, "--seconds", arguments.seconds]
            given += ["--data", data, "--work", folder / "work"]
            found = run_child(__file__, given, lambda stop: dropper.start())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = {"system": system, "queries": count, "sink": sink, **found}
    print(
        f"{system:8s} {count:3d} queries, {sink:7s} tick {result['mean_s']:.3f} s, "
        f"p50 {result['p50_s']:.3f}, p90 {result['p90_s']:.3f}, {result['ticks']} ticks, "
        f"{100 * result['taken']:.0f} % of the rows, {_cpu(result)} processors; "
        f"{phases_text(result['phases_s'])}",
        flush=True,
    )
    return result


def _cpu(result: dict[str, Any]) -> str:
    return "?" if result["cpu"] is None else f"{result['cpu']:.2f}"


def combine(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The run with the median tick of each case."""
    cases: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for result in results:
        cases.setdefault((result["system"], result["queries"], result["sink"]), []).append(result)
    return [sorted(runs, key=lambda run: run["mean_s"])[len(runs) // 2] for runs in cases.values()]


def tables(results: list[dict[str, Any]]) -> str:
    """Lengths of ticks, and where their time goes."""
    by_case = {(r["system"], r["queries"], r["sink"]): r for r in results}
    lengths, phases = [], []
    for result in sorted(results, key=lambda r: (r["queries"], r["sink"], r["system"] == "hand")):
        count, sink = result["queries"], result["sink"]
        hand = by_case.get(("hand", count, sink))
        ratio = f"{result['mean_s'] / hand['mean_s']:.2f}" if hand and result is not hand else ""
        name = "Headgate" if result["system"] == "headgate" else "by hand"
        lengths.append(
            [count, name, sink, f"{result['rows_per_tick']:,.0f}"]
            + [f"{result[key]:.3f}" for key in ("mean_s", "p50_s", "p90_s")]
            + [result["ticks"], f"{result['rows_per_s']:,.0f}", _cpu(result), ratio]
        )
        phases.append([count, name, sink, phases_text(result["phases_s"])])
    header = ["queries", "system", "sinks", "rows per tick", "tick, s", "p50, s", "p90, s", "ticks"]
    return "\n\n".join(
        [
            markdown([*header, "rows/s", "processors", "of by hand"], lengths),
            markdown(["queries", "system", "sinks", "seconds of a mean tick, phase by phase"], phases),
        ]
    )


def conclusions(results: list[dict[str, Any]]) -> list[str]:
    """Ratios beside what is wanted of them."""
    tick = {(r["system"], r["queries"], r["sink"]): r["mean_s"] for r in results}

    def ratio(one: tuple[str, int, str], other: tuple[str, int, str]) -> float | None:
        return tick[one] / tick[other] if one in tick and other in tick else None

    lines = []
    for count in sorted({r["queries"] for r in results}):
        ours = ("headgate", count, "noop")
        of_hand, durable = ratio(ours, ("hand", count, "noop")), ratio(("headgate", count, "parquet"), ours)
        if of_hand is not None and count >= 12:
            lines.append(f"{count} queries, tick of the hand-written trigger: {verdict(of_hand, 0.4)}")
        if durable is not None and count >= 12:
            lines.append(f"{count} queries, durable of noop: {verdict(durable, 1.5)}")
    growth = ratio(("headgate", 48, "noop"), ("headgate", 12, "noop"))
    if growth is not None:
        lines.append(f"48 queries of 12: {verdict(growth, 4.5)}")
    return lines


def child(arguments: argparse.Namespace) -> None:
    """One case; what it measured goes to the parent."""
    end_with_parent()
    spark = spark_session()
    cases = {"headgate": live_headgate, "hand": live_by_hand, "check": check}
    tell_result(cases[arguments.child](spark, arguments))
    spark.stop()


def main() -> None:
    """Check the results, run all cases in turn and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", default="1,12,48", help="numbers of queries")
    parser.add_argument("--warmup", type=float, default=60.0, help="seconds of a run that do not count")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds that count")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case, in turn; the median counts")
    parser.add_argument("--source", choices=["files", "rate"], default="files")
    parser.add_argument("--systems", default="headgate,hand", help="which of them to run")
    parser.add_argument("--sinks", default="noop,parquet", help="which of them to run")
    parser.add_argument("--durable-by-hand", action="store_true", help="by hand with Parquet sinks too")
    parser.add_argument("--no-check", action="store_true", help="leave the comparison of rows out")
    parser.add_argument("--markdown", action="store_true", help="print the tables of README.md only")
    parser.add_argument("--json", type=Path, help="write the results here")
    for name, kind in (("--child", str), ("--queries", int), ("--sink", str), ("--data", Path)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    same: dict[str, Any] = {}
    if not arguments.no_check:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
            folders = ["--data", f"{name}/data", "--work", f"{name}/work"]
            same = run_child(__file__, ["--child", "check", "--queries", 12, *folders])
        print(f"same rows: {same['same']} ({same['queries']} queries, {same['rows']:,} rows)", flush=True)
        for line in same["wrong"]:
            print(f"  {line}", flush=True)
    cases = [
        (system, count, sink)
        for count in map(int, arguments.counts.split(","))
        for sink in arguments.sinks.split(",")
        for system in arguments.systems.split(",")
        if system == "headgate" or sink == "noop" or arguments.durable_by_hand
    ]
    results = [run_case(arguments, *case) for _ in range(arguments.repeat) for case in cases]
    found = combine(results)
    print("\n" + tables(found))
    if not arguments.markdown:
        print("\n" + "\n".join(conclusions(found)))
    if arguments.json:
        arguments.json.write_text(json.dumps({"check": same, "results": results}, indent=1))
    if same and not same["same"]:
        raise SystemExit("results differ")


if __name__ == "__main__":
    main()
