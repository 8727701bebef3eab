"""Rows that come too late or cannot be read are counted and set aside, and change nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import SECOND, Aggregation, Call, Query, Select, Side, Stream, Tuple, last, rows
from tests.oracle.files import stamp, stream_sql, write_rows, write_stream
from tests.oracle.random_queries import WORDS, column, compare
from tests.oracle.runs import PATIENT, difference, found_rows, query_sql

from headgate import Session
from headgate.model.status import RunStatus
from headgate.session.handle import Run

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
    branches = {"latest": latest, "pairs": pairs, "vals": values}
    return [Query(f"{name}_of_{stream.name}", [branch]) for name, branch in branches.items()]


@dataclass
class Case:
    """A stream in files, and what of it is set aside for which reasons."""

    stream: Stream
    file_format: str
    files_a_tick: int
    rows_in: int
    late: int
    letters: Counter[tuple[str, str]]
    """Rows and reasons; or empty rows, and the beginnings of reasons."""


def late_case(folder: Path, files_a_tick: int) -> Case:
    first = [1000, 1004, 1001, 1002, 1003, 1009]  # 1001 is late: 3 s behind, with a watermark of 2 s
    second = [1006, 1007, 1012, 1005, 1011]  # 1006 is late across files, 1005 within
    third = [1010, 1009, 1013, 1020]  # 1009 across files
    stream = Stream(f"late_{files_a_tick}", 0, tuples([*first, *second, *third]), watermark=2 * SECOND)
    assert [t.ts // SECOND for t in stream.late()] == [1001, 1006, 1005, 1009]
    write_stream(folder / stream.name, stream, [len(first), len(first + second)], "csv", "BIGINT")
    return Case(stream, "csv", files_a_tick, 15, 4, Counter({("", "late"): 4}))


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


def malformed_case(folder: Path, file_format: str) -> Case:
    stream = Stream(f"malformed_{file_format}", 0, tuples(GOOD))
    write_stream(folder / stream.name, stream, [6], file_format, "BIGINT")
    reasons = {row: f"the row does not parse: {why}" for row, why in MALFORMED[file_format].items()}
    for path in sorted((folder / stream.name).iterdir()):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*reasons, lines[0], *reasons, *lines[1:], *reasons]) + "\n")
        stamp(path)
    letters = Counter(dict.fromkeys(reasons.items(), 6))
    return Case(stream, file_format, 1, len(GOOD) + letters.total(), 0, letters)


def timeless_case(folder: Path, file_format: str) -> Case:
    stream = Stream(f"timeless_{file_format}", 0, tuples(GOOD))
    timeless = {"ts": None, "k": 1, "v": 2, "s": "ant"}
    # seconds beyond what any timestamp can hold
    endless = {**timeless, "ts": 2**62}
    good = [dict(t.row) for t in stream.arrivals]
    files = [timeless, *good[:5], timeless], [timeless, endless], [*good[5:], endless]
    (folder / stream.name).mkdir()
    for number, content in enumerate(files):
        path = folder / stream.name / f"{number}.{file_format}"
        write_rows(path, content, file_format, "BIGINT")
    reasons = {("", "no timestamp in column ts"): 3, ("", "timestamp in column ts is out of range"): 2}
    return Case(stream, file_format, 1, len(good) + 5, 0, Counter(reasons))


def bad_case(folder: Path) -> Case:
    stream = Stream("bad", 0, [])
    (folder / stream.name).mkdir()
    (folder / stream.name / "0.csv").write_text("a\nb\n")
    return Case(stream, "csv", 1000, 2, 0, Counter({("", "the row does not parse"): 2}))


CASES: dict[str, Callable[[Path], Case]] = {
    **{f"late rows, {files} files a tick": partial(late_case, files_a_tick=files) for files in (1, 2, 1000)},
    **{f"malformed {name}": partial(malformed_case, file_format=name) for name in MALFORMED},
    **{
        f"{name} without timestamps": partial(timeless_case, file_format=name)
        for name in ("csv", "json", "parquet")
    },
    "no good row": bad_case,
}


@dataclass
class Finished:
    run: Run
    cases: dict[str, Case]


def finished(spark: SparkSession, folder: Path, cases: Sequence[Case]) -> Run:
    session = Session(spark)
    for case in cases:
        options = {"idle_after": PATIENT, "maxFilesPerTrigger": case.files_a_tick}
        path = folder / case.stream.name
        session.execute(stream_sql(case.stream, path, case.file_format, "BIGINT", **options))
        session.execute("\n".join(query_sql(query) for query in queries(case.stream)))
    run = session.start(until_done=True, checkpoint=folder / "checkpoint")
    assert run.wait(TIMEOUT_S)
    return run


@pytest.fixture(scope="module")
def all_cases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One run for all cases: each has a stream and queries of its own."""
    folder = tmp_path_factory.mktemp("cases")
    cases = {name: written(folder) for name, written in CASES.items()}
    return Finished(finished(spark, folder, [*cases.values()]), cases)


def check(run: Run, stream: Stream) -> None:
    wrong = [text for q in queries(stream) if (text := difference(q, found_rows(run.results(q.name))))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", CASES)
def test_late_malformed_and_timeless_rows_are_set_aside_with_reasons(all_cases: Finished, name: str) -> None:
    run, case = all_cases.run, all_cases.cases[name]
    counts = run.status().streams[case.stream.name]
    bad = case.letters.total() - case.late
    assert (counts.rows_in, counts.late, counts.bad) == (case.rows_in, case.late, bad)
    found = run.dead_letters().where(f"stream = '{case.stream.name}'").select("row", "reason").collect()
    has_rows = any(row for row, _ in case.letters)
    kept = Counter((row, reason) if has_rows else ("", reason.split(":")[0]) for row, reason in found)
    assert kept == case.letters
    check(run, case.stream)


def test_without_bad_rows_there_are_no_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream("readings", 0, tuples(GOOD))
    write_stream(tmp_path / "readings", stream, [], "csv", "BIGINT")
    run = finished(spark, tmp_path, [Case(stream, "csv", 1000, len(GOOD), 0, Counter())])
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
