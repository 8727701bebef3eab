"""Drop boxes on Spark: which tuples go, how they are counted, and what aggregates make of the others."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import SECOND, Aggregation, Call, Query, Select, Side, Stream, Tuple, last, rows
from tests.oracle.files import stamp, stream_sql, write_stream
from tests.oracle.random_queries import KEYS, WORDS, column, compare
from tests.oracle.runs import PATIENT, difference, found_rows

from headgate import Session
from headgate.errors import SetupError
from headgate.model.event import Event, TickCommitted
from headgate.model.shedding import BITS, DropBox
from headgate.scheduling.capacity import Threshold
from headgate.session.handle import Run

pytestmark = pytest.mark.spark

TIMEOUT_S = 180
KEEP, SEED = 0.6, 3


def _keep_ratio(table: pa.Table) -> float:
    return float(table.schema.metadata[b"headgate.keep_ratio"])


def stream() -> Stream:
    """Every fifth tuple or so comes too late."""
    rng = Random(5)
    times = [1000 + i - (9 if rng.random() < 0.2 else 0) for i in range(240)]
    tuples = [
        Tuple(ts * SECOND, {"ts": ts, "k": rng.choice(KEYS), "v": rng.randint(0, 99), "s": rng.choice(WORDS)})
        for ts in times
    ]
    return Stream("a", 0, tuples, watermark=2 * SECOND)


def kept_of(spark: SparkSession, whole: Stream) -> Stream:
    """The tuples that a box should keep, of those that are not late: hashed by Spark, judged by the box."""
    on_time = whole.on_time()
    columns = [(t.row["ts"], t.row["k"], t.row["v"], t.row["s"]) for t in on_time]
    frame = spark.createDataFrame(columns, "ts BIGINT, k INT, v INT, s STRING")
    hashes = [h for (h,) in frame.selectExpr(f"xxhash64({SEED}L, ts, k, v, s)").collect()]
    box = DropBox("a", KEEP, SEED)
    kept = [t for t, hashed in zip(on_time, hashes, strict=True) if hashed % 2**BITS < box.threshold]
    return Stream("a", 0, kept, whole.watermark)


def queries(a: Stream) -> list[Query]:
    """Everything that is not an estimate."""
    pairs = Select(
        [Side(a, "x", last(4 * SECOND)), Side(a, "y", rows(3))],
        [column("x", "v"), column("y", "v")],
        [compare("x", "k", "=", "y", "k")],
    )
    latest = Aggregation(Side(a, "x", rows(5)), [], [Call("SUM", column("x", "v")), Call("COUNT")])
    values = Select([Side(a, "x")], [column("x", "v")])
    return [Query("vals", [values]), Query("pairs", [pairs]), Query("latest", [latest])]


def finished(
    spark: SparkSession,
    folder: Path,
    whole: Stream,
    files_a_tick: int,
    events: list[Event],
    told: dict[int, float],
) -> Run:
    session = Session(spark)
    # every batch says what it is based on
    session.callback("tell", lambda table, batch: told.update({batch: _keep_ratio(table)}))
    tell = "INTO callback OPTIONS (function 'tell')"
    options = {"idle_after": PATIENT, "maxFilesPerTrigger": files_a_tick}
    session.execute(stream_sql(whole, folder / "a", "csv", "BIGINT", **options))
    for query in queries(whole):
        session.execute(f"CREATE QUERY {query.name} WITH (overload = 'shed') AS {query.sql};")
    session.execute(f"CREATE QUERY told WITH (overload = 'shed') AS {queries(whole)[0].sql} {tell};")
    run = session.start(until_done=True, keep={"a": KEEP}, seed=SEED, observers=[events.append])
    assert run.wait(TIMEOUT_S)
    return run


def test_a_box_keeps_the_same_tuples_wherever_ticks_begin(spark: SparkSession, tmp_path: Path) -> None:
    whole = stream()
    kept = kept_of(spark, whole)
    write_stream(tmp_path / "a", whole, [60, 130, 200], "csv", "BIGINT")
    with (tmp_path / "a" / "003.csv").open("a") as file:
        file.write("no,number,at,all\n")
    stamp(tmp_path / "a" / "003.csv")
    for files_a_tick in (1, 4):
        events: list[Event] = []
        told: dict[int, float] = {}
        run = finished(spark, tmp_path, whole, files_a_tick, events, told)
        counts = run.status().streams["a"]
        assert (counts.rows_in, counts.late, counts.bad) == (241, len(whole.late()), 1)
        assert counts.rows_in == len(kept.arrivals) + counts.shed + counts.late + counts.bad
        good = counts.rows_in - counts.late - counts.bad
        pairs = run.status().queries["pairs"]
        assert pairs.keep_ratio == pytest.approx(len(kept.arrivals) / good)
        assert (pairs.rows_in, pairs.rows_in - pairs.shed) == (good, len(kept.arrivals))
        ticks = [event for event in events if isinstance(event, TickCommitted)]
        batches = [q.keep_ratio for tick in ticks for q in tick.queries.values()]
        assert batches and all(0.3 < share < 0.9 for share in batches)
        by_tick = {tick.batch_id: tick.queries["told"] for tick in ticks if "told" in tick.queries}
        assert told == {batch: query.keep_ratio for batch, query in by_tick.items() if query.rows_out}
        wrong = [text for q in queries(kept) if (text := difference(q, found_rows(run.results(q.name))))]
        assert not wrong, "\n".join(wrong)


GROUPS, OF_A_GROUP = 1000, 250


def test_intervals_of_shed_aggregates_cover_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    size = GROUPS * OF_A_GROUP
    ts = np.sort(rng.uniform(1000, 1099, size))
    group, value = rng.permutation(np.arange(size) % GROUPS), rng.gamma(2.0, 10.0, size)
    for number, part in enumerate(np.array_split(np.arange(size), 3)):
        columns = {"ts": ts[part], "g": group[part], "v": value[part]}
        (tmp_path / "s").mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), tmp_path / "s" / f"{number}.parquet")
    session = Session(spark)
    session.execute(f"""
      CREATE STREAM s (ts DOUBLE, g BIGINT, v DOUBLE) FROM parquet
        OPTIONS (path '{tmp_path}/s', timestamp 'ts', maxFilesPerTrigger '1');
      CREATE QUERY q WITH (overload = 'shed', quality = true) AS
        SELECT g, COUNT(*) AS n, SUM(v) AS total, AVG(v) AS mean, MAX(v) AS most
        FROM s [RANGE 100 SECONDS SLIDE 1100 SECONDS] GROUP BY g;
    """)
    run = session.start(until_done=True, keep={"s": 0.5}, seed=1)
    # other shares within one window
    run.shed({"s": 0.25})
    assert run.wait(TIMEOUT_S)
    assert {c.after.keep_ratio("s") for c in run.status().changes} == {0.25}
    table = run.arrow("q").to_pydict()
    assert len(table["g"]) == GROUPS and max(table["keep_ratio"]) < 1
    order = np.argsort(table["g"])
    sums = np.bincount(group, weights=value)
    truth = {"n": np.full(GROUPS, OF_A_GROUP), "total": sums, "mean": sums / OF_A_GROUP}
    for name, true in truth.items():
        low, high = (np.array(table[f"{name}_{end}"])[order] for end in ("low", "high"))
        covered = np.mean((low <= true) & (true <= high))
        assert 0.93 <= covered <= 0.97, (name, covered)
        estimate = np.array(table[name])[order]
        assert abs(estimate.mean() / true.mean() - 1) < 0.02


def test_by_utility_the_tuples_that_matter_most_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    (tmp_path / "s").mkdir()
    for number in range(3):
        # half of all tuples matter as little as can be
        value = np.where(rng.random(2000) < 0.5, 0, rng.integers(1, 1000, 2000))
        ts = 1000 + number + np.arange(2000) / 2000
        pq.write_table(pa.table({"ts": ts, "v": value}), tmp_path / "s" / f"{number}.parquet")
    session = Session(spark)
    session.execute(f"""
      CREATE STREAM s (ts DOUBLE, v BIGINT) FROM parquet
        OPTIONS (path '{tmp_path}/s', timestamp 'ts', maxFilesPerTrigger '1');
      CREATE QUERY q WITH (overload = 'shed', utility = 'v * 2') AS SELECT v FROM s;
      CREATE QUERY n WITH (overload = 'shed') AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND];
    """)
    run = session.start(until_done=True, keep={"s": 0.3})
    assert run.wait(TIMEOUT_S)
    kept = run.arrow("q").to_pandas()
    later = kept[kept.ts >= 1001]
    assert 0.25 < len(later) / 4000 < 0.35 and later.v.min() > 300
    # of what was kept: nobody knows how many others each one stands for
    assert run.arrow("n").to_pydict()["n"][-1] < 0.5 * 2000
    assert run.status().streams["s"].shed == 6000 - len(kept)


def test_a_stream_is_not_shed_under_a_query_that_did_not_ask_for_it(spark: SparkSession) -> None:
    session = Session(spark)
    session.execute("""
      CREATE STREAM r FROM rate;
      CREATE QUERY one WITH (overload = 'shed') AS SELECT value FROM r;
      CREATE QUERY two AS SELECT value FROM r;
    """)
    with pytest.raises(SetupError, match="r cannot be shed: query two reads it"):
        session.start(keep={"r": 0.5})
    with pytest.raises(SetupError, match="2 is wrong; write a share from 0 to 1"):
        session.start(keep={"r": 2})
    with pytest.raises(SetupError, match="unknown stream q; known: r"):
        session.start(keep={"q": 1})


def test_threshold_sheds_what_its_limit_has_no_room_for_and_nothing_else(spark: SparkSession) -> None:
    # each tick has the time for few of the tuples that arrive meanwhile
    script = """
      CREATE STREAM s (ts TIMESTAMP, flow INT, src STRING, dst STRING, port INT, bytes INT)
        FROM burst OPTIONS (rate '4000', duration '4 s', timestamp 'ts', seed '3');
      CREATE QUERY q WITH (overload = 'shed') AS
        SELECT src, aggregate(sequence(1, 150), src, (d, i) -> sha2(concat(d, bytes), 256)) AS digest
        FROM s WHERE sha2(src, 256) < 'c';
    """
    shed = {}
    for limit_bytes in (150_000, 400_000_000):
        session = Session(spark)
        session.execute(script)
        strategy = Threshold(memory_bytes=limit_bytes)
        run = session.start(until_done=True, strategy=strategy, tick_budget=0.2)
        assert run.wait(TIMEOUT_S)
        status = run.status()
        assert status.peak_backlog_bytes <= limit_bytes
        assert status.streams["s"].rows_in == status.queries["q"].rows_in
        shed[limit_bytes] = status.streams["s"].shed
    assert shed[150_000] > 0 and shed[400_000_000] == 0
