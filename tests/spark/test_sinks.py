"""Sinks: what readers see, when they see it, and what a second attempt at a tick changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.model.network import QueryDefinition, SinkDefinition
from headgate.spark.application.cluster import private_session
from headgate.spark.file_system import Files
from headgate.spark.outbox import StagedSink
from headgate.spark.physical_plans import MeasuredQuery, PhysicalPlans
from headgate.spark.sinks import FILE_SINKS, ConsoleSink, FileSink, NoopSink

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def private(spark: SparkSession) -> SparkSession:
    return private_session(spark)


@pytest.fixture
def rows_of(private: SparkSession) -> Callable[..., DataFrame]:
    def frame(*values: int) -> DataFrame:
        return private.createDataFrame([(value,) for value in values], "v INT").coalesce(1)

    return frame


class _CountedFiles(Files):
    """Counts how often each folder is listed."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.listed: list[str] = []

    def names(self, path: str) -> list[str]:
        self.listed.append(path)
        return super().names(path)


def unmeasured(rows: DataFrame) -> MeasuredQuery:
    return MeasuredQuery(PhysicalPlans(rows.sparkSession), rows, ())


def tick(sink: FileSink, batch_id: int, results: DataFrame, rows: int, keep_empty: bool = False) -> None:
    sink.write(unmeasured(results), batch_id, 0)
    sink.publish(batch_id, rows, [0] if rows or keep_empty else [], 1.0)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("[!._]*")) if folder.exists() else []


def values(spark: SparkSession, format: str, folder: Path) -> list[int]:
    return sorted(row.v for row in spark.read.format(format).schema("v INT").load(str(folder)).collect())


@pytest.mark.parametrize("format", FILE_SINKS)
def test_rows_of_a_batch_show_when_it_is_published_and_not_before(
    format: str, private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    sink, out = FileSink(Files(private), format, f"{tmp_path}/out/", {}, "abc"), tmp_path / "out"
    sink.write(unmeasured(rows_of(1, 2)), 7, 0)
    assert visible(out) == []
    sink.publish(7, 2, [0], keep_ratio=1.0)
    [name] = visible(out)
    assert name.startswith("part-abc-000000007-000.")
    assert values(private, format, out) == [1, 2]


def test_a_second_attempt_replaces_what_a_first_one_published(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    folder, out = f"{tmp_path}/out", tmp_path / "out"
    first = FileSink(Files(private), "json", folder, {}, "abc")
    tick(first, 1, rows_of(1), 1)
    # three files where the second attempt will have one
    tick(first, 2, rows_of(2, 3, 4).repartition(3), 3)
    tick(first, 2, rows_of(2, 3, 4).repartition(3), 3)
    assert values(private, "json", out) == [1, 2, 3, 4]
    after_crash = FileSink(Files(private), "json", folder, {}, "abc")
    tick(after_crash, 2, rows_of(5), 1)
    assert values(private, "json", out) == [1, 5]
    tick(after_crash, 3, rows_of(6), 1)
    assert values(private, "json", out) == [1, 5, 6]


def test_batches_after_the_one_that_a_run_steps_back_to_are_replaced_one_by_one(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    folder, out = f"{tmp_path}/out", tmp_path / "out"
    first = FileSink(Files(private), "json", folder, {}, "abc")
    for batch_id in (1, 2, 3):
        tick(first, batch_id, rows_of(batch_id), 1)
    later = FileSink(Files(private), "json", folder, {}, "abc")
    for batch_id in (2, 3):
        tick(later, batch_id, rows_of(10 * batch_id), 1)
    assert values(private, "json", out) == [1, 20, 30]


def test_a_second_attempt_without_rows_takes_the_first_ones_away(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    folder = f"{tmp_path}/out"
    tick(FileSink(Files(private), "json", folder, {}, "abc"), 1, rows_of(1), 1)
    tick(FileSink(Files(private), "json", folder, {}, "abc"), 1, rows_of(), 0)
    assert visible(tmp_path / "out") == []


def test_what_was_written_and_never_published_is_replaced(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    folder = f"{tmp_path}/out"
    FileSink(Files(private), "json", folder, {}, "abc").write(unmeasured(rows_of(1, 2).repartition(2)), 1, 0)
    tick(FileSink(Files(private), "json", folder, {}, "abc"), 1, rows_of(3), 1)
    assert values(private, "json", tmp_path / "out") == [3]


def test_files_of_other_runs_and_of_users_stay(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-other-000000001-000.json").write_text('{"v": 8}\n')
    (out / "mine.json").write_text('{"v": 9}\n')
    tick(FileSink(Files(private), "json", str(out), {}, "abc"), 1, rows_of(1), 1)
    assert values(private, "json", out) == [1, 8, 9]


def test_a_first_batch_without_rows_leaves_the_schema_and_later_ones_nothing(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    sink, out = FileSink(Files(private), "parquet", f"{tmp_path}/out", {}, "abc"), tmp_path / "out"
    tick(sink, 0, rows_of(), 0, keep_empty=True)
    assert private.read.parquet(str(out)).columns == ["v"]
    before = visible(out)
    tick(sink, 1, rows_of(), 0)
    assert visible(out) == before


def test_only_the_slices_that_are_named_show_whatever_an_earlier_attempt_left(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    sink, out = FileSink(Files(private), "parquet", f"{tmp_path}/out", {}, "abc"), tmp_path / "out"
    for number, value in enumerate((9, 9, 9)):
        sink.write(unmeasured(rows_of(value)), 0, number)
    for number, value in enumerate((1, 2)):
        sink.write(unmeasured(rows_of(value)), 0, number)
    sink.publish(0, 2, [0, 1], 1.0)
    assert values(private, "parquet", out) == [1, 2]
    assert len(visible(out)) == 2


def test_the_growing_folder_is_listed_once(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    files, folder = _CountedFiles(private), f"{tmp_path}/out"
    sink = FileSink(files, "json", folder, {}, "abc")
    for batch_id in range(4):
        tick(sink, batch_id, rows_of(batch_id), 1)
    assert files.listed.count(folder) == 1


def test_a_sink_that_is_closed_leaves_nothing_hidden(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    sink = FileSink(Files(private), "csv", f"{tmp_path}/out", {"header": "true"}, "abc")
    tick(sink, 0, rows_of(1), 1)
    sink.write(unmeasured(rows_of(2)), 1, 0)
    sink.close()
    # nothing but the results of tick 0, and the checksum that Hadoop keeps beside every file
    only = tmp_path / "out/part-abc-000000000-000.csv"
    assert {*(tmp_path / "out").iterdir()} == {only, only.with_name(f".{only.name}.crc")}
    assert only.read_text() == "v\n1\n"


def test_the_console_shows_the_first_rows_how_many_more_there_are_and_of_which_share(
    rows_of: Callable[..., DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    sink = ConsoleSink("q", rows=2)
    sink.write(unmeasured(rows_of(1, 2, 3)), 4, 0)
    assert capsys.readouterr().out == ""
    sink.publish(4, 3, [0], 0.5)
    shown = capsys.readouterr().out
    assert shown.splitlines() == [
        "-- q, batch 4: 3 rows of 0.5 of the tuples",
        " v",
        " 1",
        " 2",
        "... and 1 more",
    ]


def test_the_console_is_silent_about_a_batch_without_rows(
    rows_of: Callable[..., DataFrame], capsys: pytest.CaptureFixture[str]
) -> None:
    sink = ConsoleSink("q", rows=2)
    sink.write(unmeasured(rows_of()), 0, 0)
    sink.publish(0, 0, [0], 1.0)
    assert capsys.readouterr().out == ""


def test_staged_rows_have_the_same_places_whenever_they_are_delivered(
    private: SparkSession, rows_of: Callable[..., DataFrame], tmp_path: Path
) -> None:
    class Noted(StagedSink):
        """Notes rows with their places, and whether they are delivered."""

        def __init__(self, is_open: bool) -> None:
            query = QueryDefinition("q", (), SinkDefinition("noop"))
            super().__init__(private, query, Files(private), f"{tmp_path}/outbox", rows_of().schema)
            self.is_open, self.seen = is_open, list[tuple[int, str, int]]()

        def _send(self, batch_id: int) -> None:
            place = ("_metadata.file_path", "_metadata.row_index")
            self.seen += [tuple(row) for row in self._staged(batch_id).selectExpr("v", *place).collect()]
            if not self.is_open:
                raise ConnectionError("nothing answers")

        def _outage(self, error: Exception) -> str:
            return str(error)

    away = Noted(False)
    # without a run that is stopped, it would wait for the other end
    away.hurry()
    for number, values_of_slice in enumerate(((9,), (9,), (9,))):
        away.write(unmeasured(rows_of(*values_of_slice)), 3, number)
    for number, values_of_slice in enumerate(((1, 2), (3,))):
        away.write(unmeasured(rows_of(*values_of_slice)), 3, number)
    away.publish(3, 3, [0, 1], 1.0)
    away.deliver()
    back = Noted(True)
    back.discard_after(3)
    back.deliver()
    assert sorted(value for value, _, _ in away.seen) == [1, 2, 3]
    assert sorted(back.seen) == sorted(away.seen)
    assert list((tmp_path / "outbox").iterdir()) == []


def test_noop_runs_the_plan_and_shows_nothing(private: SparkSession) -> None:
    ran = private.sparkContext.accumulator(0)

    def count(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            ran.add(batch.num_rows)
            yield batch

    sink = NoopSink()
    sink.write(unmeasured(private.range(5).mapInArrow(count, "id BIGINT")), 0, 0)
    sink.publish(0, 5, [0], 1.0)
    assert ran.value == 5
