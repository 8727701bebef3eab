"""The data sources ``burst`` and ``nexmark`` on Spark."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from headgate import Session
from headgate.errors import HeadgateError, SetupError
from headgate.spark import generated
from headgate.workload.nexmark import EVENT_TABLES, EventSequence, parse_rate
from headgate.workload.nexmark_files import DataSet
from headgate.workload.packets import BurstSettings

DURATION_SECONDS = 5
OPTIONS = {"rate": "2000", "duration": f"{DURATION_SECONDS} s", "start": "2024-01-01T00:00:00Z", "seed": "3"}
PACKETS = (
    StructType()
    .add("ts", "timestamp")
    .add("flow", "integer")
    .add("src", "string")
    .add("dst", "string")
    .add("port", "integer")
    .add("bytes", "integer")
    .add("protocol", "string")
)


def stream_reader(clock_us: Callable[[], int], **options: str) -> generated.StreamReader:
    return generated.StreamReader(BurstSettings.parse(options), PACKETS, clock_us)


class Clock:
    def __init__(self, now_us: int) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


def test_offset_follows_the_clock_and_stops_at_the_end() -> None:
    clock = Clock(1_000_000_000)
    reader = stream_reader(clock, duration="10 s", speed="2")
    begin = reader.initialOffset()
    assert begin == {"at_us": 0, "start_us": 1_000_000_000, "wall_us": 1_000_000_000}
    clock.now_us += 1_500_000
    middle = reader.latestOffset(begin, ReadAllAvailable())
    assert middle["at_us"] == 3_000_000
    clock.now_us += 60_000_000
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert end["at_us"] == 10_000_000
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []


def test_offset_never_goes_back_when_the_clock_does() -> None:
    clock = Clock(1_000_000_000)
    reader = stream_reader(clock)
    begin = reader.initialOffset()
    clock.now_us += 500
    middle = reader.latestOffset(begin, ReadAllAvailable())
    clock.now_us -= 400
    assert reader.latestOffset(middle, ReadAllAvailable()) == middle


def test_initial_offset_is_taken_once() -> None:
    clock = Clock(5)
    reader = stream_reader(clock)
    begin = reader.initialOffset()
    clock.now_us = 9
    assert reader.initialOffset() == begin


def test_cap_holds_offsets_back_and_the_report_shows_what_waits() -> None:
    clock = Clock(0)
    reader = stream_reader(clock, maxRowsPerTrigger="100")
    assert reader.getDefaultReadLimit() == ReadMaxRows(100)
    assert reader.reportLatestOffset() is None
    begin = reader.initialOffset()
    clock.now_us = 60_000_000
    end = reader.latestOffset(begin, reader.getDefaultReadLimit())
    assert sum(batch.num_rows for part in reader.partitions(begin, end) for batch in reader.read(part)) == 100
    report = reader.reportLatestOffset()
    assert report is not None and report["at_us"] == 60_000_000


def test_endless_stream_at_full_speed_is_read_by_caps_only() -> None:
    reader = stream_reader(Clock(0), speed="max", maxRowsPerTrigger="100")
    begin = reader.initialOffset()
    assert reader.latestOffset(begin, ReadMaxRows(100))["at_us"] > 0
    assert reader.reportLatestOffset() is None
    with pytest.raises(SetupError, match="add option duration"):
        reader.latestOffset(begin, ReadAllAvailable())


def test_replayed_first_batch_keeps_the_recorded_start() -> None:
    first = stream_reader(Clock(1_000), speed="max", duration="1 s")
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    again = stream_reader(Clock(99_000), speed="max", duration="1 s")
    stretches = again.partitions(again.initialOffset(), end)
    assert {stretch.start_us for stretch in stretches} == {1_000}


def test_a_few_tuples_make_one_task_and_many_as_many_as_wanted() -> None:
    reader = stream_reader(Clock(0), partitions="3", rate="10000")
    begin = reader.initialOffset()
    assert len(reader.partitions(begin, {**begin, "at_us": 100_000})) == 1
    assert len(reader.partitions(begin, {**begin, "at_us": 100_000_000})) == 3


def test_stream_is_finished_at_its_duration_and_an_endless_one_never() -> None:
    def is_finished(at_us: int, **options: str) -> bool:
        return generated.is_finished(BurstSettings.parse(options), json.dumps({"at_us": at_us}))

    assert is_finished(5_000_000, duration="5 s")
    assert not is_finished(4_999_999, duration="5 s")
    assert not is_finished(10**12)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    for format in generated.FORMATS:
        generated.register(spark, format)
    return spark


def batch(session: SparkSession, **options: str) -> DataFrame:
    return session.read.format("burst").options(**{**OPTIONS, **options}).load()


def drained(frame: DataFrame, folder: Path, checkpoint: Path) -> Any:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(folder))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def wait_for(condition: Callable[[], bool], query: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if query.exception() is not None:
            raise query.exception()
        assert time.monotonic() < deadline, "the stream did not get there in time"
        query.awaitTermination(0.1)


def offset_reached(query: Any) -> int:
    progress = query.lastProgress
    return 0 if progress is None else int(json.loads(progress.json)["sources"][0]["endOffset"]["at_us"])


def read_back(session: SparkSession, folder: Path) -> list[Row]:
    return sorted(session.read.parquet(str(folder)).collect())


@pytest.mark.spark
def test_batch_is_the_same_whatever_the_partitions(session: SparkSession) -> None:
    rows = sorted(batch(session, partitions="1").collect())
    assert rows == sorted(batch(session, partitions="4").collect())
    assert len(rows) == pytest.approx(2000 * DURATION_SECONDS, rel=0.4)
    assert batch(session).schema == PACKETS


@pytest.mark.spark
def test_stream_and_its_restart_give_the_tuples_of_the_batch(session: SparkSession, tmp_path: Path) -> None:
    stream = (
        session.readStream.format("burst").options(**OPTIONS, speed="max", maxRowsPerTrigger="1000").load()
    )
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    query = drained(stream, out, checkpoint)
    wait_for(lambda: offset_reached(query) > 0, query)
    query.stop()
    query = drained(stream, out, checkpoint)
    wait_for(lambda: offset_reached(query) == DURATION_SECONDS * 1_000_000, query)
    query.stop()
    assert read_back(session, out) == sorted(batch(session).collect())


@pytest.mark.spark
def test_replay_of_an_uncommitted_first_batch_gives_the_same_tuples(
    session: SparkSession, tmp_path: Path
) -> None:
    options = {**OPTIONS, "speed": "max", "start": "now"}
    stream = session.readStream.format("burst").options(**options).load()
    checkpoint = tmp_path / "checkpoint"
    written = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        query = drained(stream, folder, checkpoint)
        query.processAllAvailable()
        query.stop()
        written.append(read_back(session, folder))
        # as if the driver had died before the batch was committed
        shutil.rmtree(checkpoint / "commits")
    assert written[0] == written[1]
    assert len(written[0]) > 1000


@pytest.mark.spark
def test_finished_stream_offers_nothing_more(session: SparkSession, tmp_path: Path) -> None:
    stream = session.readStream.format("burst").options(**OPTIONS, speed="max").load()
    query = drained(stream, tmp_path / "out", tmp_path / "checkpoint")
    query.processAllAvailable()
    before = query.lastProgress.batchId
    query.processAllAvailable()
    assert not query.status["isDataAvailable"]
    assert [progress.numInputRows > 0 for progress in query.recentProgress].count(True) == 1
    assert query.lastProgress.batchId <= before + 1
    query.stop()


@pytest.mark.spark
def test_declared_columns_are_taken_by_name(session: SparkSession) -> None:
    declared = "weight DOUBLE, bytes BIGINT, label STRING, src STRING NOT NULL"
    frame = session.read.format("burst").schema(declared).options(**OPTIONS).load()
    full = batch(session).select("src", "bytes")
    assert sorted(frame.select("src", "bytes").collect()) == sorted(full.collect())
    assert frame.where("weight >= 0 and weight < 1 and label like 'v%'").count() == full.count()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("declared", "options", "message"),
    [
        ("x ARRAY<INT>", {}, "column x: no values can be made up for ARRAY<INT>; declare INT"),
        ("src INT", {}, "column src cannot be INT; declare it STRING"),
        ("src STRING", {"rte": "5"}, "burst has no option 'rte'"),
    ],
)
def test_what_cannot_be_generated_is_refused(
    session: SparkSession, declared: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        session.read.format("burst").schema(declared).options(**{**OPTIONS, **options}).load().count()


@pytest.mark.spark
def test_endless_batch_is_refused(session: SparkSession) -> None:
    with pytest.raises(PySparkException, match="add option duration"):
        session.read.format("burst").load().count()


NEXMARK = {"events": "3000", "seed": "8", "rate": "700"}


@pytest.mark.spark
@pytest.mark.parametrize("table", EVENT_TABLES)
def test_stream_batch_and_files_of_a_seed_have_the_same_events(
    table: str, session: SparkSession, tmp_path: Path
) -> None:
    options = {**NEXMARK, "table": table}
    whole = session.read.format("nexmark").options(**options, partitions="3").load()
    stream = session.readStream.format("nexmark").options(**options, speed="max", maxRowsPerTrigger="1000")
    query = drained(stream.load(), tmp_path / "out", tmp_path / "checkpoint")
    query.processAllAvailable()
    query.stop()
    DataSet(tmp_path / "data", EventSequence(8, parse_rate("700")), 3000, 5).write()
    written = session.read.parquet(str(tmp_path / "data" / table))
    assert written.schema == whole.schema
    rows = sorted(whole.collect())
    assert len(rows) == 60 * EVENT_TABLES[table].rows_per_round
    assert rows == sorted(written.collect())
    assert rows == read_back(session, tmp_path / "out")


@pytest.mark.spark
def test_queries_over_tables_of_one_seed_need_neither_columns_nor_timestamp(spark: SparkSession) -> None:
    options = "events '3000', seed '8', rate '700', speed 'max'"
    run = (
        Session(spark)
        .execute(
            f"""
            CREATE STREAM person FROM nexmark OPTIONS (table 'person', {options});
            CREATE STREAM auction FROM nexmark OPTIONS (table 'auction', {options}, watermark '1 s');
            CREATE STREAM bid (auction BIGINT, dateTime TIMESTAMP, price BIGINT)
              FROM nexmark OPTIONS (table 'bid', {options}, maxRowsPerTrigger '1000');
            CREATE QUERY cheap AS SELECT auction, dateTime, price FROM bid WHERE price < 1000;
            CREATE QUERY opened AS
              SELECT p.id, a.id AS auction
              FROM auction [NOW] AS a, person [RANGE 1 DAY] AS p
              WHERE a.seller = p.id;
            """
        )
        .start(until_done=True)
    )
    assert run.wait(120)
    sequence = EventSequence(8, parse_rate("700"))
    bids = sequence.table("bid", 0, 3000)
    cheap = bids.filter(pc.less(bids["price"], 1000)).select(["dateTime", "auction", "dateTime", "price"])
    found = run.arrow("cheap")
    assert found.column_names == ["ts", "auction", "dateTime", "price"]
    assert sorted(map(list, zip(*map(pa.ChunkedArray.to_pylist, found.columns), strict=True))) == sorted(
        map(list, zip(*map(pa.ChunkedArray.to_pylist, cheap.columns), strict=True))
    )
    born = {p["id"]: p["dateTime"] for p in sequence.table("person", 0, 3000).to_pylist()}
    auctions = sequence.table("auction", 0, 3000).to_pylist()
    opened = [
        (a["seller"], a["id"]) for a in auctions if a["seller"] in born and born[a["seller"]] <= a["dateTime"]
    ]
    assert sorted((row["id"], row["auction"]) for row in run.arrow("opened").to_pylist()) == sorted(opened)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("declared", "options", "message"),
    [
        ("", "events '5'", "nexmark needs the option table: one of auction, bid, person$"),
        ("", "table 'bids'", "option table: unknown table bids; did you mean bid"),
        ("", "table 'bid', rte '5'", "unknown option rte of a nexmark stream; did you mean rate"),
        (
            "(prise BIGINT, dateTime TIMESTAMP)",
            "table 'bid'",
            "stream s: table bid of nexmark has no column pr",
        ),
        (
            "(price INT, dateTime TIMESTAMP)",
            "table 'bid'",
            "stream s: column price cannot be INT; declare it ",
        ),
        ("(price BIGINT)", "table 'bid'", "timestamp dateTime is not a column of s; columns: price"),
        ("", "table 'bid', speed 'max'", "add option events, as in '1000000'"),
    ],
)
def test_streams_that_cannot_be_generated_are_refused_in_one_line(
    spark: SparkSession, declared: str, options: str, message: str
) -> None:
    text = f"CREATE STREAM s {declared} FROM nexmark OPTIONS ({options}); CREATE QUERY q AS SELECT * FROM s"
    with pytest.raises(HeadgateError, match=message) as refusal:
        Session(spark).execute(text).start(until_done=False).stop()
    assert "\n" not in str(refusal.value)
