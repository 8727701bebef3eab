"""What ticks rely on in Spark's plans: shortcuts read the same rows, and one task stays one task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from headgate.model.window import RowWindow
from headgate.spark import sql
from headgate.spark.application.cluster import in_session, private_session
from headgate.spark.file_system import Files
from headgate.spark.operators.row_window import with_expiry_in_order
from headgate.spark.physical_plans import MeasuredQuery, PhysicalPlans
from headgate.spark.sinks import FileSink, parquet_encodings
from headgate.spark.source_files import FileScans
from headgate.spark.sql import SEQ, TS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def private(spark: SparkSession) -> SparkSession:
    return private_session(spark)


def plan_of(frame: DataFrame) -> str:
    java: Any = frame._jdf
    return str(java.queryExecution().executedPlan().toString())


def tasks_of(frame: DataFrame) -> int:
    java: Any = frame._jdf
    return int(java.queryExecution().toRdd().getNumPartitions())


def test_a_view_gets_other_rows_and_other_columns(private: SparkSession) -> None:
    views = PhysicalPlans(private).views
    for rows in (3, 5):
        quoted = views.define("some rows", private.range(rows).selectExpr("id AS a"))
        assert private.sql(f"SELECT count(a) FROM {quoted}").first() == (rows,)
    views.define("some rows", private.range(2).selectExpr("CAST(id AS STRING) AS a", "id AS b"))
    found = private.sql(f"SELECT * FROM {quoted}")
    assert found.dtypes == [("a", "string"), ("b", "bigint")]
    assert sorted(found.collect()) == [("0", 0), ("1", 1)]


def test_a_second_scan_reads_its_own_files_as_the_first_one_did(
    private: SparkSession, tmp_path: Path
) -> None:
    paths = [str(tmp_path / f"{number}.csv") for number in range(3)]
    for number, path in enumerate(paths):
        Path(path).write_text(f"v;w\n{number};x\n")
    scans = FileScans(private)

    def read(*chosen: str) -> DataFrame:
        reader = private.read.schema("v INT, w STRING").option("header", "true").option("sep", ";")
        return scans.read("s", list(chosen), lambda: reader.csv(list(chosen)))

    assert read(paths[0]).collect() == [(0, "x")]
    assert sorted(read(*paths[1:]).collect()) == [(1, "x"), (2, "x")]
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        read(paths[1], str(tmp_path / "gone.csv"))


def test_numbers_of_rows_are_read_by_a_second_scan_too(private: SparkSession, tmp_path: Path) -> None:
    scans = FileScans(private)
    for number in range(2):
        path = str(tmp_path / f"{number}.parquet")
        pq.write_table(pa.table({"v": [10, 20]}), path)
        frame = scans.read("s", [path], lambda: private.read.schema("v BIGINT").parquet(path))  # noqa: B023
        assert frame.selectExpr("v", "_metadata.row_index").collect() == [(10, 0), (20, 1)]


def test_parts_of_one_task_each_are_as_many_tasks(private: SparkSession) -> None:
    private.range(100, numPartitions=4).selectExpr("id AS k").createOrReplaceTempView("keys")
    part = f"SELECT {sql.IN_ONE_TASK}k FROM keys"
    joined = f"SELECT /*+ SHUFFLE_HASH(b) */ a.k FROM ({part}) AS a JOIN ({part}) AS b ON a.k = b.k"
    both = private.sql(f"{joined}\nUNION ALL\n{joined}")
    assert tasks_of(both) == 2
    assert "Exchange" not in plan_of(both)


def test_large_row_windows_are_joined_in_one_task_without_a_shuffle(private: SparkSession) -> None:
    # by Spark's estimate, too much for one task: a row of the result for every pair
    rows = private.range(10**9).selectExpr("id AS k", f"id AS `{TS}`", f"id AS `{SEQ}`")
    rows.createOrReplaceTempView("many")
    side = with_expiry_in_order(sql.select(["*"], "many", hint=sql.IN_ONE_TASK), RowWindow(3))
    joined = f"SELECT /*+ SHUFFLE_HASH(b) */ a.k FROM ({side}) AS a JOIN ({side}) AS b ON a.k = b.k"
    assert "Exchange" not in plan_of(private.sql(joined))


def test_results_have_dictionaries_where_values_repeat(private: SparkSession, tmp_path: Path) -> None:
    rows = (
        private.range(100)
        .selectExpr("id % 3 AS k", "CAST(id % 3 AS DOUBLE) AS v", "timestamp_micros(id) AS ts")
        .coalesce(1)
    )
    for options, wanted in (({}, {"k"}), ({"parquet.enable.dictionary#v": "true"}, {"k", "v"})):
        folder = tmp_path / str(len(options))
        options = {**parquet_encodings(rows.schema), **options}
        sink = FileSink(Files(private), "parquet", str(folder), options, "u")
        sink.write(MeasuredQuery(PhysicalPlans(private), rows, ()), 0, 0)
        sink.publish(0, 100, [0], 1.0)
        [path] = folder.glob("*.parquet")
        group = pq.ParquetFile(path).metadata.row_group(0)
        columns = [group.column(place) for place in range(group.num_columns)]
        found = {c.path_in_schema for c in columns if any("DICTIONARY" in e for e in c.encodings)}
        assert found == wanted


def test_a_frame_of_the_users_can_be_a_view_of_ours(spark: SparkSession, private: SparkSession) -> None:
    handed_in = in_session(private, spark.range(2).toDF("k"))
    handed_in.createOrReplaceTempView("handed_in")
    assert private.sql("SELECT count(k) FROM handed_in").first() == (2,)
    assert not spark.catalog.tableExists("handed_in")
