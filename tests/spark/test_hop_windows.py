"""Half-open windows, their bounds and joins of them, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.files import stamp

from headgate import Session

pytestmark = pytest.mark.spark

FILES = 4


def write(folder: Path, rng: Random) -> None:
    """Tuples every quarter of a second or so, many of them exactly on the bounds of windows."""
    folder.mkdir()
    ts = 1_700_000_000_000_000
    for number in range(FILES):
        times, keys = [], []
        for _ in range(60):
            times.append(ts)
            keys.append(rng.randint(1, 3))
            ts += rng.choice((0, 250_000, 500_000, 1_000_000))
        columns = {"seen": pa.array(times, pa.timestamp("us", "UTC")), "k": keys}
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        stamp(path)


def test_half_open_windows_hold_what_duckdb_finds_between_their_bounds(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rng = Random(run_seed)
    write(tmp_path / "s", rng)
    write(tmp_path / "r", rng)
    pq.write_table(pa.table({"k": [1, 2, 2], "name": ["a", "b", "c"]}), tmp_path / "names.parquet")
    options = "timestamp 'seen', idle_after '1 h', maxFilesPerTrigger '1'"
    session = Session(spark).execute(f"""
      CREATE STREAM s FROM parquet OPTIONS (path '{tmp_path}/s', {options});
      CREATE STREAM r FROM parquet OPTIONS (path '{tmp_path}/r', {options});
      CREATE QUERY tumble AS SELECT k, COUNT(*) AS n, window_start, window_end
        FROM s [TUMBLE 10 SECONDS] GROUP BY k, window_start, window_end;
      CREATE QUERY hop AS SELECT k, COUNT(*) AS n, window_start, window_end
        FROM s [HOP 4 SECONDS EVERY 1 SECOND] GROUP BY k HAVING window_end > TIMESTAMP '2023-11-14 22:13:30Z';
      CREATE QUERY joined AS SELECT a.k, a.seen AS first, b.seen AS second, window_start, window_end
        FROM s [TUMBLE 5 SECONDS] a JOIN r [TUMBLE 5 SECONDS] b ON a.k = b.k;
      CREATE RELATION names FROM parquet OPTIONS (path '{tmp_path}/names.parquet');
      CREATE QUERY spark_window AS SELECT window, COUNT(*) AS n FROM s GROUP BY window(seen, '10 seconds');
      CREATE QUERY windows AS SELECT window.start, window.end FROM s
        WHERE k NOT BETWEEN SYMMETRIC 3 AND 2 GROUP BY window(seen, '4 seconds', '2 seconds');
      CREATE QUERY spark_session AS SELECT session_window, k, COUNT(*) AS n
        FROM s GROUP BY session_window(seen, '2 seconds'), k;
      CREATE QUERY named AS SELECT name, COUNT(*) AS n, window(seen, '10 seconds').end AS e
        FROM names JOIN s ON names.k = s.k GROUP BY name, window(seen, '10 seconds');
    """)
    run = session.start(until_done=True)
    assert run.wait(180)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name in "sr":
        duck.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}/*.parquet'")
    duck.execute(f"CREATE VIEW names AS FROM '{tmp_path}/names.parquet'")
    expected = {
        "tumble": """
          SELECT k, COUNT(*), time_bucket(INTERVAL 10 SECONDS, seen) AS b, b + INTERVAL 10 SECONDS
          FROM s GROUP BY ALL
        """,
        "hop": """
          WITH ends AS (
            SELECT unnest(generate_series(min(date_trunc('second', seen)), max(seen) + INTERVAL 4 SECONDS,
                                          INTERVAL 1 SECOND)) AS e FROM s
          )
          SELECT k, COUNT(*), e - INTERVAL 4 SECONDS, e FROM s, ends
          WHERE seen >= e - INTERVAL 4 SECONDS AND seen < e AND e > TIMESTAMPTZ '2023-11-14 22:13:30Z'
          GROUP BY ALL
        """,
        "joined": """
          WITH t AS (SELECT *, time_bucket(INTERVAL 5 SECONDS, seen) AS b FROM s)
          SELECT t.k, t.seen, r.seen, b, b + INTERVAL 5 SECONDS
          FROM t JOIN r ON t.k = r.k AND b = time_bucket(INTERVAL 5 SECONDS, r.seen)
        """,
        "spark_window": """
          SELECT {'start': b, 'end': b + INTERVAL 10 SECONDS}, n
          FROM (SELECT time_bucket(INTERVAL 10 SECONDS, seen) AS b, COUNT(*) AS n FROM s GROUP BY b)
        """,
        "windows": """
          WITH t AS (SELECT time_bucket(INTERVAL 2 SECONDS, seen) AS b FROM s WHERE k = 1)
          SELECT DISTINCT unnest([b, b - INTERVAL 2 SECONDS]) AS e, e + INTERVAL 4 SECONDS FROM t
        """,
        "spark_session": """
          WITH t AS (SELECT *, seen - lag(seen) OVER o < INTERVAL 2 SECONDS AS goes_on FROM s
                     WINDOW o AS (PARTITION BY k ORDER BY seen)),
            u AS (SELECT *, count_if(coalesce(NOT goes_on, TRUE)) OVER (PARTITION BY k ORDER BY seen) AS i
                  FROM t)
          SELECT {'start': min(seen), 'end': max(seen) + INTERVAL 2 SECONDS}, k, COUNT(*) FROM u GROUP BY k, i
        """,
        "named": """
          SELECT name, COUNT(*), time_bucket(INTERVAL 10 SECONDS, seen) + INTERVAL 10 SECONDS
          FROM s JOIN names USING (k) GROUP BY ALL
        """,
    }
    for name, query in expected.items():
        found = run.results(name).drop("ts").toArrow()
        wanted = duck.sql(query).to_arrow_table().rename_columns(found.column_names)
        assert sorted_rows(found) == sorted_rows(wanted), name


def sorted_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)
