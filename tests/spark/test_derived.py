"""Derived streams, joins that keep everything, and aggregate functions, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.spark.duck import assert_agreement, create_streams, write_stream

from headgate import Session

pytestmark = pytest.mark.spark

STREAMS = ("s", "r")
DERIVED = """
CREATE STREAM big AS SELECT k, v * 2 AS w, seen FROM s WHERE v > 3;
CREATE STREAM counts AS SELECT k, COUNT(*) AS n, SUM(w) AS total, window_end AS e
  FROM big [TUMBLE 5 SECONDS] GROUP BY k;
CREATE STREAM both AS SELECT k, v FROM s UNION ALL SELECT k, v FROM r WHERE v < 9;
CREATE STREAM most AS SELECT MAX(n) AS m, window_end AS e FROM counts [TUMBLE 5 SECONDS];
"""
BY_BUCKET = "time_bucket(INTERVAL 5 SECONDS, {})"
# a query in CQL, and the same in DuckDB over views of all tuples
QUERIES = {
    "chain": (
        "SELECT m, e FROM most",
        f"""
        WITH counts AS (
          SELECT k, COUNT(*) AS n, {BY_BUCKET.format("seen")} + INTERVAL 5 SECONDS AS e
          FROM s WHERE v > 3 GROUP BY ALL
        ) SELECT MAX(n), e + INTERVAL 5 SECONDS FROM counts GROUP BY e
        """,
    ),
    "with_stream": (
        "SELECT a.k, a.n, b.w, b.seen FROM counts [NOW] a, big [RANGE 5 SECONDS] b WHERE a.k = b.k",
        f"""
        WITH counts AS (
          SELECT k, COUNT(*) AS n, {BY_BUCKET.format("seen")} + INTERVAL 5 SECONDS AS e
          FROM s WHERE v > 3 GROUP BY ALL
        ) SELECT a.k, a.n, b.v * 2, b.seen FROM counts a, s b
        WHERE b.v > 3 AND a.k = b.k AND b.seen <= a.e AND b.seen >= a.e - INTERVAL 5 SECONDS
        """,
    ),
    "united": (
        "SELECT k, COUNT(*) AS n, SUM(v) AS t, window_start AS b FROM both [TUMBLE 5 SECONDS] GROUP BY k",
        f"""
        WITH both_streams AS (SELECT k, v, seen FROM s UNION ALL SELECT k, v, seen FROM r WHERE v < 9)
        SELECT k, COUNT(*), SUM(v), {BY_BUCKET.format("seen")} AS b FROM both_streams GROUP BY ALL
        """,
    ),
    "running": (
        "SELECT k, COUNT(*) AS n, MAX(n) AS m FROM counts GROUP BY k",
        f"""
        WITH counts AS (
          SELECT k, COUNT(*) AS n, {BY_BUCKET.format("seen")} AS b FROM s WHERE v > 3 GROUP BY ALL
        ) SELECT k, row_number() OVER w, MAX(n) OVER w FROM counts WINDOW w AS (PARTITION BY k ORDER BY b)
        """,
    ),
    "last_rows": (
        "SELECT k, SUM(n) AS t FROM counts [PARTITION BY k ROWS 3] WHERE n > 1 GROUP BY k",
        f"""
        WITH counts AS (
          SELECT k, COUNT(*) AS n, {BY_BUCKET.format("seen")} AS b FROM s WHERE v > 3 GROUP BY ALL
        ), framed AS (
          SELECT k, n, SUM(n) FILTER (n > 1) OVER (PARTITION BY k ORDER BY b ROWS 2 PRECEDING) AS t
          FROM counts
        ) SELECT k, t FROM framed WHERE n > 1
        """,
    ),
    "subquery": (
        """WITH few AS (SELECT k, v FROM s WHERE v < 7)
           SELECT x.k, COUNT(*) AS n, window_end AS e
           FROM (SELECT k FROM few WHERE v > 1) [TUMBLE 5 SECONDS] AS x GROUP BY x.k""",
        f"""
        SELECT k, COUNT(*), {BY_BUCKET.format("seen")} + INTERVAL 5 SECONDS AS e
        FROM s WHERE v < 7 AND v > 1 GROUP BY ALL
        """,
    ),
    "unbounded": (
        """SELECT a.k, a.v AS x, b.v AS y FROM s [UNBOUNDED] a, r [UNBOUNDED] b
           WHERE a.k = b.k AND a.v = b.v + 1""",
        "SELECT a.k, a.v, b.v FROM s a, r b WHERE a.k = b.k AND a.v = b.v + 1",
    ),
    "over_join": (
        """SELECT a.k, COUNT(*) AS n, MAX(b.v) AS m, window_start AS b
           FROM s [TUMBLE 5 SECONDS] a, r [TUMBLE 5 SECONDS] b WHERE a.k = b.k AND a.v > 2 GROUP BY a.k""",
        f"""
        SELECT a.k, COUNT(*), MAX(b.v), {BY_BUCKET.format("a.seen")} AS w FROM s a, r b
        WHERE a.k = b.k AND a.v > 2 AND {BY_BUCKET.format("a.seen")} = {BY_BUCKET.format("b.seen")}
        GROUP BY ALL
        """,
    ),
    "aggregates": (
        """SELECT k, COUNT(*) FILTER (WHERE v > 4) AS n, COUNT(DISTINCT v) FILTER (WHERE v < 8) AS d,
             SUM(DISTINCT v) AS sd, COUNT_IF(v = 3) AS c, BOOL_OR(v > 9) AS some_big,
             BOOL_AND(v > 0) AS all_big, STDDEV_POP(v) AS dev, PERCENTILE(v, 0.5) AS med,
             MAX_BY(v, seen) AS last_v, FIRST(v) AS first_v,
             CAST(COLLECT_LIST(v) AS STRING) AS l, CAST(COLLECT_SET(v) AS STRING) AS st, window_end AS e
           FROM s [HOP 4 SECONDS EVERY 2 SECONDS] GROUP BY k""",
        """
        WITH ends AS (
          SELECT unnest(generate_series(time_bucket(INTERVAL 2 SECONDS, min(seen)),
                                        max(seen) + INTERVAL 4 SECONDS, INTERVAL 2 SECONDS)) AS e FROM s
        ), t AS (SELECT s.*, e FROM s, ends WHERE seen >= e - INTERVAL 4 SECONDS AND seen < e)
        SELECT k, COUNT(*) FILTER (v > 4), COUNT(DISTINCT v) FILTER (v < 8), SUM(DISTINCT v),
          COUNT(*) FILTER (v = 3), bool_or(v > 9), bool_and(v > 0), round(stddev_pop(v), 9),
          quantile_cont(v, 0.5), arg_max(v, (seen, v)), arg_min(v, (seen, v)),
          CAST(list(v ORDER BY seen, v) AS VARCHAR), CAST(list(DISTINCT v ORDER BY v) AS VARCHAR), e
        FROM t GROUP BY k, e
        """,
    ),
    "sessions": (
        """SELECT k, COUNT(*) AS n, AVG(v) AS m, window_start, window_end
           FROM s [SESSION 2 SECONDS] GROUP BY k""",
        """
        WITH marked AS (
          SELECT *, CASE WHEN seen - lag(seen) OVER w < INTERVAL 2 SECONDS THEN 0 ELSE 1 END AS starts
          FROM s WINDOW w AS (PARTITION BY k ORDER BY seen)
        ), numbered AS (SELECT *, SUM(starts) OVER (PARTITION BY k ORDER BY seen) AS g FROM marked)
        SELECT k, COUNT(*), AVG(v), MIN(seen), MAX(seen) + INTERVAL 2 SECONDS FROM numbered GROUP BY k, g
        """,
    ),
    "as_in_spark": (
        """SELECT k, window.start AS b, window.end AS e, SUM(v) AS t FROM s
           GROUP BY k, window(seen, '4 seconds', '2 seconds')""",
        """
        WITH ends AS (
          SELECT unnest(generate_series(time_bucket(INTERVAL 2 SECONDS, min(seen)),
                                        max(seen) + INTERVAL 4 SECONDS, INTERVAL 2 SECONDS)) AS e FROM s
        ) SELECT k, e - INTERVAL 4 SECONDS, e, SUM(v) FROM s, ends
        WHERE seen >= e - INTERVAL 4 SECONDS AND seen < e GROUP BY ALL
        """,
    ),
    "running_aggregates": (
        "SELECT COUNT(*) FILTER (WHERE v > 4) AS n, LAST(v) AS l, MIN_BY(k, v) AS b FROM once",
        """
        SELECT COUNT(*) FILTER (v > 4) OVER w, v, arg_min(k, (v, k)) OVER w FROM once
        WINDOW w AS (ORDER BY seen ROWS UNBOUNDED PRECEDING)
        """,
    ),
}


def test_derived_streams_joins_and_aggregates_give_what_duckdb_gives(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rng = Random(run_seed)
    for name in STREAMS:
        write_stream(tmp_path / name, rng, (0, 250_000, 500_000, 1_000_000))
    write_stream(tmp_path / "once", rng, (250_000, 500_000))
    queries = [f"CREATE QUERY {name} AS {query};" for name, (query, _) in QUERIES.items()]
    streams = (*STREAMS, "once")
    session = Session(spark).execute("\n".join([*create_streams(tmp_path, streams), DERIVED, *queries]))
    run = session.start(until_done=True, strategy=rng.choice(("fifo", "chain")))
    assert run.wait(600)
    assert_agreement(run, tmp_path, streams, {name: query for name, (_, query) in QUERIES.items()})
