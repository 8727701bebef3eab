"""What is dropped or replaced in a session is so for Spark too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headgate import HeadgateError, Session

pytestmark = pytest.mark.spark

FUNCTIONS = """
def more(value):
    return value + 1

def much(value):
    return value * 10
"""


def test_a_run_uses_what_is_declared_last(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, 2, 3], "v": [7, 8, 9]}), tmp_path / "in" / "0.parquet")
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    with Session(spark) as session:
        session.stream("s", spark.readStream.format("rate").load(), timestamp="timestamp")
        session.execute(f"CREATE FUNCTION f AS '{tmp_path}/functions.py:more' RETURNS bigint")
        # the columns are those of the files, not of the DataFrame
        session.execute(f"""
            CREATE OR REPLACE STREAM s FROM parquet OPTIONS (path '{tmp_path}/in', timestamp 'ts');
            DESCRIBE s;
            CREATE QUERY q AS SELECT f(v) AS w FROM s;
            SET until_done = true;
        """)
        assert session.answers[0].to_json()["columns"] == {"ts": "bigint", "v": "bigint"}
        session.execute(f"CREATE OR REPLACE FUNCTION F AS '{tmp_path}/functions.py:much' RETURNS bigint")
        run = session.start()
        assert run.wait(120)
        assert sorted(run.arrow("q")["w"].to_pylist()) == [70, 80, 90]

        with pytest.raises(HeadgateError, match="unknown function f"):
            session.execute("DROP QUERY q; DROP FUNCTION f; CREATE QUERY r AS SELECT f(v) AS w FROM s")
        session.execute("DROP QUERY q; DROP FUNCTION f; CREATE QUERY r AS SELECT v FROM s")
        assert "SELECT" in session.sql()["r"]
