"""What is wrong with a query but not known without Spark is reported before the first tick, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.errors import QueryError

pytestmark = pytest.mark.spark

COLUMNS = "ts BIGINT, v INT, t STRING, m MAP<STRING, INT>, xs ARRAY<INT>"
JOINED = "s [RANGE 5 SECONDS] AS a JOIN s [NOW] AS b ON"


@pytest.mark.parametrize(
    ("select", "expression"),
    [
        ("SELECT v, from_json(t, t) AS j FROM s", "from_json(t, t)"),
        ("SELECT v FROM s WHERE v > 1 AND nvl2(t, v, 2)", "nvl2(t, v, 2)"),
        ("SELECT COUNT(*) AS n FROM s [ROWS 5] GROUP BY v, from_json(t, t)", "from_json(t, t)"),
        ("SELECT SUM(from_json(t, t).a) AS n FROM s [ROWS 5]", "from_json(t, t).a"),
        ("SELECT v, COUNT(*) AS n FROM s [ROWS 5] GROUP BY v HAVING nvl2(v, 1, 2)", "nvl2(v, 1, 2)"),
        (f"SELECT a.v FROM {JOINED} a.v = b.v AND a.xs = map_values(b.m)[0]", "a.xs = map_values(b.m)[0]"),
        ("SELECT v FROM s, r WHERE v = k AND nvl2(label, v, 2)", "nvl2(label, v, 2)"),
        ("SELECT struct(v).no AS x FROM s", "struct(v).no"),
    ],
)
def test_what_only_spark_knows_to_be_wrong_is_reported_before_the_first_tick(
    spark: SparkSession, tmp_path: Path, select: str, expression: str
) -> None:
    for name in ("in", "r"):
        (tmp_path / name).mkdir()
    (tmp_path / "in/0.csv").write_text("1,2,x\n")
    session = Session(spark).execute(
        f"CREATE STREAM s ({COLUMNS}) FROM json OPTIONS (path '{tmp_path}/in', timestamp 'ts');"
        f"CREATE RELATION r (k INT, label STRING) FROM csv '{tmp_path}/r';"
        f"CREATE QUERY good AS SELECT v FROM s; CREATE QUERY bad AS {select}",
        "file.sql",
    )
    with pytest.raises(QueryError) as caught:
        session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert caught.value.span is not None and caught.value.span.excerpt == expression
    assert caught.value.message.startswith(f"query bad: {expression}: ")
    assert str(caught.value).startswith("file.sql:1:") and "\n" not in str(caught.value)
    assert not (tmp_path / "checkpoint").exists()


def test_functions_of_the_users_session_can_be_called(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("1\n2\n")
    given = spark.newSession()
    given.udf.register("thrice", lambda v: 3 * v, "int")
    session = Session(given).execute(
        f"CREATE STREAM s (v INT) FROM csv '{tmp_path}';"
        "CREATE QUERY q AS SELECT thrice(v) AS x FROM s WHERE thrice(v) > 3"
    )
    with pytest.raises(QueryError, match="unknown function trice"):
        session.execute("CREATE QUERY p AS SELECT trice(v) AS x FROM s")
    run = session.start(until_done=True)
    assert run.wait(180)
    assert [x for (x,) in run.results("q").select("x").collect()] == [6]
