"""Outer joins of streams and conditions between timestamps, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pytest
from pyspark.sql import SparkSession
from tests.spark.duck import sorted_rows, write_stream

from headgate import Session

pytestmark = pytest.mark.spark

STREAMS = ("s", "r")
# s is in its window for 3 s, r for 1 s
MATCH = """a.k = b.k AND a.v < b.v AND b.seen <= a.seen + INTERVAL 3 SECONDS
  AND a.seen <= b.seen + INTERVAL 1 SECOND"""
ENDS = "time_bucket(INTERVAL 5 SECONDS, {}.seen)"
SAME_WINDOW = f"a.k = b.k AND a.v = b.v AND {ENDS.format('a')} = {ENDS.format('b')}"
WINDOWED = "s [RANGE 3 SECONDS] a {} JOIN r [RANGE 1 SECOND] b ON a.k = b.k AND a.v < b.v"
PAIRS = f"SELECT greatest(a.seen, b.seen), a.k, a.v, b.v FROM s a, r b WHERE {MATCH}"
LEFT_OVER = f"""SELECT a.seen + INTERVAL 3 SECONDS, a.k, a.v, NULL FROM s a
  WHERE NOT EXISTS (FROM r b WHERE {MATCH})"""
RIGHT_OVER = f"""SELECT b.seen + INTERVAL 1 SECOND, NULL, NULL, b.v FROM r b
  WHERE NOT EXISTS (FROM s a WHERE {MATCH})"""
NEAR = "a.k = b.k AND b.seen >= a.seen AND b.seen < a.seen + INTERVAL 2 SECONDS AND b.v > 6"
# a query in CQL, and the same in DuckDB, both with the timestamp of the result
QUERIES = {
    "left_join": (
        f"SELECT a.k, a.v, b.v AS w FROM {WINDOWED.format('LEFT')}",
        f"{PAIRS} UNION ALL {LEFT_OVER}",
    ),
    "left_join_until": (
        """SELECT a.k, a.v, b.v AS w FROM s [RANGE 3 SECONDS] a
           LEFT JOIN r [UNTIL seen + INTERVAL 1 SECOND] b ON a.k = b.k AND a.v < b.v""",
        f"{PAIRS} UNION ALL {LEFT_OVER}",
    ),
    "anti_join_until": (
        """SELECT a.k, a.v FROM s [RANGE 3 SECONDS] a
           ANTI JOIN r [UNTIL seen + INTERVAL 1 SECOND] b ON a.k = b.k AND a.v < b.v""",
        f"SELECT * EXCLUDE (columns) FROM ({LEFT_OVER}) AS t(ts, k, v, columns)",
    ),
    "right_join": (
        f"SELECT a.k, a.v, b.v AS w FROM {WINDOWED.format('RIGHT OUTER')}",
        f"{PAIRS} UNION ALL {RIGHT_OVER}",
    ),
    "full_join": (
        f"SELECT a.k, a.v, b.v AS w FROM {WINDOWED.format('FULL')}",
        f"{PAIRS} UNION ALL {LEFT_OVER} UNION ALL {RIGHT_OVER}",
    ),
    "semi_join": (
        f"SELECT a.k, a.v FROM {WINDOWED.format('SEMI')}",
        f"""WITH numbered AS (SELECT *, row_number() OVER () AS n FROM s)
        SELECT min(greatest(a.seen, b.seen)), any_value(a.k), any_value(a.v) FROM numbered a, r b
        WHERE {MATCH} GROUP BY n""",
    ),
    "anti_join": (
        f"SELECT a.k, a.v FROM {WINDOWED.format('ANTI')}",
        f"SELECT * EXCLUDE (columns) FROM ({LEFT_OVER}) AS t(ts, k, v, columns)",
    ),
    "after_where": (
        f"SELECT a.k, a.v, b.v AS w FROM {WINDOWED.format('LEFT')} AND a.v > 2 WHERE b.v IS NULL AND a.v > 1",
        f"""SELECT a.seen + INTERVAL 3 SECONDS, a.k, a.v, NULL::INT FROM s a
        WHERE a.v > 1 AND NOT EXISTS (FROM r b WHERE {MATCH} AND a.v > 2)""",
    ),
    "per_window": (
        """SELECT a.k, COUNT(*) AS n, COUNT(b.v) AS matches
           FROM s [TUMBLE 5 SECONDS] a LEFT JOIN r [TUMBLE 5 SECONDS] b ON a.k = b.k AND a.v = b.v
           GROUP BY a.k""",
        f"""SELECT {ENDS.format("a")} + INTERVAL 5 SECONDS AS e, a.k, COUNT(*), COUNT(b.v)
        FROM s a LEFT JOIN r b ON {SAME_WINDOW} GROUP BY e, a.k""",
    ),
    "near": (
        f"SELECT a.k, a.v, b.v AS w FROM s a JOIN r b ON {NEAR}",
        f"SELECT b.seen, a.k, a.v, b.v FROM s a, r b WHERE {NEAR}",
    ),
    "nothing_near": (
        f"SELECT a.k, a.v FROM s [UNBOUNDED] a ANTI JOIN r [UNBOUNDED] b ON {NEAR}",
        f"""SELECT a.seen + INTERVAL 1999999 MICROSECONDS, a.k, a.v FROM s a
        WHERE NOT EXISTS (FROM r b WHERE {NEAR})""",
    ),
    "of_unmatched": (
        "SELECT COUNT(*) AS n FROM lonely [TUMBLE 2 SECONDS]",
        f"""SELECT time_bucket(INTERVAL 2 SECONDS, ts) + INTERVAL 2 SECONDS AS e, COUNT(*)
        FROM ({LEFT_OVER}) AS t(ts, k, v, w) GROUP BY e""",
    ),
}


def test_outer_joins_and_conditions_on_time_give_what_duckdb_gives(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rng = Random(run_seed)
    for name in STREAMS:
        write_stream(tmp_path / name, rng, (0, 250_000, 500_000, 1_000_000))
    options = "timestamp 'seen', idle_after '1 h', maxFilesPerTrigger '1'"
    texts = [
        f"CREATE STREAM {name} FROM parquet OPTIONS (path '{tmp_path}/{name}', {options});"
        for name in STREAMS
    ]
    texts.append(f"CREATE STREAM lonely AS SELECT a.k FROM {WINDOWED.format('ANTI')};")
    texts += [f"CREATE QUERY {name} AS {query};" for name, (query, _) in QUERIES.items()]
    run = (
        Session(spark)
        .execute("\n".join(texts))
        .start(until_done=True, strategy=rng.choice(("fifo", "chain")))
    )
    assert run.wait(600)
    assert not any("grows" in warning for warning in run.status().warnings)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for name in STREAMS:
        duck.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}/*.parquet'")
    for name, (_, query) in QUERIES.items():
        found = run.results(name).toArrow()
        wanted = duck.sql(query).to_arrow_table().rename_columns(found.column_names)
        assert sorted_rows(found) == sorted_rows(wanted), name
