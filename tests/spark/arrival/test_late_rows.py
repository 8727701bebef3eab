"""Rows that come too late or cannot be read are counted and set aside, and change nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import SECOND, Aggregation, Call, Query, Select, Side, Stream, Tuple, last, rows
from tests.oracle.files import stamp, stream_sql, write_rows, write_stream
from tests.oracle.random_queries import WORDS, column, compare
from tests.oracle.runs import PATIENT, difference, found_rows, query_sql

from headgate import Session
from headgate.handle import Run
from headgate.status import RunStatus

pytestmark = pytest.mark.spark

TIMEOUT_S = 180
GOOD = range(1000, 1012)
PROPOSED = re.compile(r"stream (?P<stream>\w+): .* watermark '(?P<watermark>[^']*)' would have kept them")


def tuples(times: Sequence[int]) -> list[Tuple]:
    rng = Random(5)
    return [
        Tuple(ts * SECOND, {"ts": ts, "k": rng.randint(0, 2), "v": rng.randint(0, 9), "s": rng.choice(WORDS)})
        for ts in times
    ]


def queries(stream: Stream) -> list[Query]:
    latest = Aggregation(Side(stream, "a", rows(3)), [], [Call("SUM", column("a", "v")), Call("COUNT")])
    pairs = Select(
        [Side(stream, "a", last(4 * SECOND)), Side(stream, "b", rows(2))],
        [column("a", "ts"), column("b", "ts")],
        [compare("a", "k", "=", "b", "k")],
    )
    # reads one column alone: rows that are bad in another are bad all the same
    values = Select([Side(stream, "a")], [column("a", "v")])
    return [Query("latest", [latest]), Query("pairs", [pairs]), Query("vals", [values])]


def finished(
    spark: SparkSession, folder: Path, stream: Stream, file_format: str = "csv", files_a_tick: int = 1000
) -> Run:
    session = Session(spark)
    options = {"idle_after": PATIENT, "maxFilesPerTrigger": files_a_tick}
    session.execute(stream_sql(stream, folder / stream.name, file_format, "BIGINT", **options))
    session.execute("\n".join(query_sql(query) for query in queries(stream)))
    run = session.start(until_done=True, checkpoint=folder / "checkpoint")
    assert run.wait(TIMEOUT_S)
    return run


def check(run: Run, stream: Stream) -> None:
    wrong = [text for q in queries(stream) if (text := difference(q, found_rows(run.results(q.name))))]
    assert not wrong, "\n".join(wrong)


def letters(run: Run) -> Counter[tuple[str, str]]:
    found = run.dead_letters().select("stream", "reason").collect()
    return Counter((stream, reason.split(":")[0]) for stream, reason in found)


@pytest.mark.parametrize("files_a_tick", [1, 2, 1000])
def test_late_rows_are_the_same_whatever_the_ticks(
    spark: SparkSession, tmp_path: Path, files_a_tick: int
) -> None:
    first = [1000, 1004, 1001, 1002, 1003, 1009]  # 1001 is late: 3 s behind, with a watermark of 2 s
    second = [1006, 1007, 1012, 1005, 1011]  # 1006 is late across files, 1005 within
    third = [1010, 1009, 1013, 1020]  # 1009 across files
    stream = Stream("readings", 0, tuples([*first, *second, *third]), watermark=2 * SECOND)
    assert [t.ts // SECOND for t in stream.late()] == [1001, 1006, 1005, 1009]
    write_stream(tmp_path / "readings", stream, [len(first), len(first + second)], "csv", "BIGINT")
    run = finished(spark, tmp_path, stream, files_a_tick=files_a_tick)
    counts = run.status().streams["readings"]
    assert (counts.late, counts.bad) == (4, 0)
    assert letters(run) == {("readings", "late"): 4}
    check(run, stream)


# rows that do not parse, and why
MALFORMED = {
    "csv": {
        "noon,1,2,ant": "column ts is not BIGINT: 'noon'",
        "1003,one,2,ant": "column k is not INT: 'one'",
        "1003,1,2.5,ant": "column v is not INT: '2.5'",
        "1003": "column k is missing: 1 of 4 values",
        "1003,,": "column s is missing: 3 of 4 values",
        "1003,1,2,ant,more": "5 values for 4 columns, the first too many: 'more'",
        '1003,1,"2,5",ant': "column v is not INT: '2,5'",
        '1003,1,"2,5"': "column s is missing: 3 of 4 values",
        "9999999999999999999999,1,2,ant": "column ts is not BIGINT: '9999999999999999999999'",
        f"1003,{'x' * 40},2,ant": f"column k is not INT: '{'x' * 30}...'",
    },
    "json": {
        '{"ts": 1003, "k": 1': """it is not JSON: '{"ts": 1003, "k": 1'""",
        "no json at all": "it is not JSON: 'no json at all'",
        '{"ts": "noon", "k": 1, "v": 2, "s": "ant"}': "column ts is not BIGINT: 'noon'",
        '{"ts": 1003, "k": [1], "v": 2, "s": "ant"}': "column k is not INT: '[1]'",
        '{"s": "ant", "v": {"a": 1}, "ts": 1003}': """column v is not INT: '{"a":1}'""",
    },
}


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_malformed_rows_are_set_aside(spark: SparkSession, tmp_path: Path, file_format: str) -> None:
    stream = Stream("readings", 0, tuples(GOOD))
    folder = tmp_path / "readings"
    write_stream(folder, stream, [6], file_format, "BIGINT")
    malformed = list(MALFORMED[file_format])
    for path in sorted(folder.iterdir()):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*malformed, lines[0], *malformed, *lines[1:], *malformed]) + "\n")
        stamp(path)
    run = finished(spark, tmp_path, stream, file_format, files_a_tick=1)
    counts = run.status().streams["readings"]
    assert (counts.late, counts.bad) == (0, 6 * len(malformed))
    assert letters(run) == {("readings", "the row does not parse"): 6 * len(malformed)}
    kept = Counter((row, reason) for row, reason in run.dead_letters().select("row", "reason").collect())
    reasons = {row: f"the row does not parse: {why}" for row, why in MALFORMED[file_format].items()}
    assert kept == dict.fromkeys(reasons.items(), 6)
    check(run, stream)


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_rows_without_a_timestamp_are_set_aside(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    stream = Stream("readings", 0, tuples(GOOD))
    timeless = {"ts": None, "k": 1, "v": 2, "s": "ant"}
    # seconds beyond what any timestamp can hold
    endless = {**timeless, "ts": 2**62}
    good = [dict(t.row) for t in stream.arrivals]
    folder = tmp_path / "readings"
    folder.mkdir()
    write_rows(folder / f"0.{file_format}", [timeless, *good[:5], timeless], file_format, "BIGINT")
    write_rows(folder / f"1.{file_format}", [timeless, endless], file_format, "BIGINT")
    write_rows(folder / f"2.{file_format}", [*good[5:], endless], file_format, "BIGINT")
    run = finished(spark, tmp_path, stream, file_format, files_a_tick=1)
    counts = run.status().streams["readings"]
    assert (counts.rows_in, counts.late, counts.bad) == (len(good) + 5, 0, 5)
    assert letters(run) == {
        ("readings", "no timestamp in column ts"): 3,
        ("readings", "timestamp in column ts is out of range"): 2,
    }
    check(run, stream)


def test_a_stream_without_a_good_row_gives_no_results_and_no_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream("readings", 0, [])
    folder = tmp_path / "readings"
    folder.mkdir()
    (folder / "0.csv").write_text("a\nb\n")
    run = finished(spark, tmp_path, stream)
    assert run.status().streams["readings"].bad == 2
    check(run, stream)


def test_without_bad_rows_there_are_no_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream("readings", 0, tuples(GOOD))
    write_stream(tmp_path / "readings", stream, [], "csv", "BIGINT")
    run = finished(spark, tmp_path, stream)
    assert run.dead_letters() is None
    check(run, stream)


def lateness(stream: Stream) -> int:
    """How far a tuple lags behind the highest timestamp before it, at most."""
    times = [t.ts for t in stream.arrivals]
    return max(max(times[:place], default=ts) - ts for place, ts in enumerate(times))


def test_the_watermark_that_is_proposed_would_have_kept_every_row(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rng = Random(run_seed)
    formats = {"texts": "csv", "columns": "parquet", "orderly": "csv"}
    spreads_s = {"texts": 40, "columns": 3000, "orderly": 0}
    streams = []
    for place, (name, file_format) in enumerate(formats.items()):
        times = [1000 + number + rng.randint(-spreads_s[name], 0) for number in range(200)]
        streams.append(Stream(name, place, tuples(times), watermark=rng.randint(0, 2) * SECOND))
        cuts = sorted(rng.sample(range(1, 200), 3))
        write_stream(tmp_path / name, streams[-1], cuts, file_format, "BIGINT")

    def status_with(watermarks: dict[str, str]) -> RunStatus:
        session = Session(spark)
        for stream in streams:
            options = {"idle_after": PATIENT, "maxFilesPerTrigger": 2}
            if stream.name in watermarks:
                options["watermark"] = watermarks[stream.name]
            folder = tmp_path / stream.name
            session.execute(stream_sql(stream, folder, formats[stream.name], "BIGINT", **options))
            session.execute(f"CREATE QUERY of_{stream.name} AS SELECT v FROM {stream.name}")
        run = session.start(until_done=True)
        assert run.wait(TIMEOUT_S)
        return run.status()

    status = status_with({})
    found = {name: (counts.late, status.lateness_us.get(name, 0)) for name, counts in status.streams.items()}
    assert found == {s.name: (len(s.late()), lateness(s) if s.late() else 0) for s in streams}
    proposed = [match for text in status.late_warnings if (match := PROPOSED.search(text))]
    assert [match["stream"] for match in proposed] == ["texts", "columns"]
    again = status_with({match["stream"]: match["watermark"] for match in proposed})
    assert {name: counts.late for name, counts in again.streams.items()} == dict.fromkeys(formats, 0)
    assert again.late_warnings == ()
