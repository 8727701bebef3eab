"""Queries as users of Spark SQL and Flink SQL write them at first, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.duck import assert_agreement, create_streams, write_stream

from headgate import Session

pytestmark = pytest.mark.spark

BUCKET = "time_bucket(INTERVAL 4 SECONDS, seen)"
A, B = (f"(SELECT *, {BUCKET} AS e FROM {name})" for name in "sr")
# a query, and what DuckDB says in its place
PAIRS = {
    "stored_filter": (
        "SELECT s.k, v, n.name FROM s JOIN (SELECT k AS i, name FROM names WHERE name <> 'b') n ON s.k = n.i",
        "SELECT s.k, v, name FROM s JOIN names n ON s.k = n.k AND name <> 'b'",
    ),
    "stored_groups": (
        """
        WITH n AS (SELECT k, COUNT(*) AS c, MAX(name) AS m FROM names GROUP BY k HAVING COUNT(*) > 1)
        SELECT s.k, v, n.c, n.m FROM s LEFT JOIN n USING (k)
        """,
        """
        SELECT s.k, v, c, m FROM s LEFT JOIN
          (SELECT k, COUNT(*) AS c, MAX(name) AS m FROM names GROUP BY k HAVING COUNT(*) > 1) n ON s.k = n.k
        """,
    ),
    "stored_joins": (
        """
        SELECT s.v, x.area, x.name FROM s JOIN (
          SELECT n.k, n.name, a.area FROM names n FULL JOIN areas a ON n.name = a.name
          UNION ALL SELECT DISTINCT k, 'twice', CAST(NULL AS STRING) FROM known
        ) x ON s.k = x.k
        """,
        """
        SELECT s.v, x.area, x.name FROM s JOIN (
          SELECT n.k, n.name, a.area FROM names n FULL JOIN areas a ON n.name = a.name
          UNION ALL SELECT DISTINCT k, 'twice', NULL FROM names WHERE name <> 'a'
        ) x ON s.k = x.k
        """,
    ),
    "stored_ranks": (
        """
        SELECT s.v, x.name FROM s
        JOIN (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY name DESC) AS place FROM names) x
          ON s.k = x.k
        WHERE place = 1 AND s.v > (0 + 1)
        """,
        """
        SELECT s.v, x.name FROM s JOIN (
          SELECT * FROM names QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY name DESC) = 1
        ) x ON s.k = x.k WHERE s.v > 1
        """,
    ),
    "in_stored": (
        "SELECT k, v FROM s WHERE k NOT IN (SELECT z.k FROM (SELECT k FROM names WHERE name = 'a') z)",
        "SELECT k, v FROM s WHERE k NOT IN (SELECT k FROM names WHERE name = 'a')",
    ),
    "scalars": (
        """
        SELECT k, v - (SELECT COUNT(*) FROM names) AS d, (SELECT MAX(name) FROM names WHERE k > 9) AS none
        FROM s WHERE v BETWEEN (SELECT MIN(k) FROM known) AND (SELECT 3 * MAX(k) FROM known)
        """,
        "SELECT k, v - 4, NULL FROM s WHERE v BETWEEN 2 AND 6",
    ),
    "scalars_of_groups": (
        """
        SELECT k, SUM(v) * (SELECT COUNT(*) FROM names WHERE name IN (SELECT name FROM areas)) AS n,
          COUNT(*) FILTER (WHERE v > (SELECT AVG(k) FROM names)) AS m
        FROM s [TUMBLE 4 SECONDS] GROUP BY k
        HAVING COUNT(*) > (SELECT COUNT(*) FROM areas WHERE area > (SELECT MIN(area) FROM areas)) - 1
        """,
        f"""
        SELECT k, 2 * SUM(v), COUNT(*) FILTER (v > 5 / 3) FROM s GROUP BY k, {BUCKET} HAVING COUNT(*) > 1
        """,
    ),
    "elements": (
        "SELECT k, t.x FROM s LATERAL VIEW explode(sequence(1, k)) t AS x WHERE x <> 2 AND v > 1",
        "SELECT k, x FROM (SELECT k, unnest(range(1, k + 1)) AS x FROM s WHERE v > 1) WHERE x <> 2",
    ),
    "element_groups": (
        """
        SELECT w, COUNT(*) AS n, SUM(v) AS v, window_end AS e
        FROM s [TUMBLE 4 SECONDS] CROSS JOIN UNNEST(array(k, v, k)) AS t (w) GROUP BY w
        """,
        f"""
        SELECT w, COUNT(*), SUM(v), e + INTERVAL 4 SECONDS
        FROM (SELECT v, unnest([k, v, k]) AS w, {BUCKET} AS e FROM s) GROUP BY w, e
        """,
    ),
    "places_and_names": (
        """
        SELECT v, i, x, n.name
        FROM s LATERAL VIEW OUTER posexplode(CASE WHEN v > 3 THEN array(k, k + 1) END) t AS i, x
        LEFT JOIN names n ON n.k = t.x
        """,
        """
        SELECT v, i, x, n.name
        FROM (SELECT v, unnest([0, 1]) AS i, unnest([k, k + 1]) AS x FROM s WHERE v > 3
              UNION ALL SELECT v, NULL, NULL FROM s WHERE v <= 3) LEFT JOIN names n ON n.k = x
        """,
    ),
    "fields": (
        """
        SELECT k, x.a, x.b, m, n FROM s
        LEFT JOIN UNNEST(array(named_struct('a', k, 'b', v), named_struct('a', v, 'b', k))) x (a, b) ON TRUE
        LATERAL VIEW explode(map('one', a + b)) AS m, n
        """,
        "SELECT k, unnest([k, v]), unnest([v, k]), unnest(['one', 'one']), unnest([k + v, k + v]) FROM s",
    ),
    "distinct_elements": (
        "SELECT DISTINCT explode(array(k, v % 3)) AS x, window_start AS b FROM s [TUMBLE 4 SECONDS]",
        f"SELECT DISTINCT unnest([k, v % 3]), {BUCKET} FROM s",
    ),
    "largest_elements": (
        "SELECT k, explode(array(k, v)) AS x FROM s [TUMBLE 4 SECONDS] ORDER BY x DESC LIMIT 2 WITH TIES",
        f"""
        SELECT k, x FROM (SELECT k, unnest([k, v]) AS x, {BUCKET} AS b FROM s)
        QUALIFY rank() OVER (PARTITION BY b ORDER BY x DESC) <= 2
        """,
    ),
    "elements_of_stored": (
        "SELECT v, part FROM s JOIN (SELECT k, explode(split(name, 'b')) AS part FROM names) n ON n.k = s.k",
        "SELECT v, part FROM s JOIN (SELECT k, unnest(string_split(name, 'b')) AS part FROM names) USING (k)",
    ),
    "elements_of_pairs": (
        """
        SELECT a.k, x FROM s [TUMBLE 4 SECONDS] a JOIN r [TUMBLE 4 SECONDS] b ON a.k = b.k AND a.v = b.v
        LATERAL VIEW explode(array(a.v, b.k)) t AS x WHERE x > 1
        """,
        f"""
        SELECT * FROM (
          SELECT a.k, unnest([a.v, b.k]) AS x FROM {A} a JOIN {B} b ON a.k = b.k AND a.v = b.v AND a.e = b.e
        ) WHERE x > 1
        """,
    ),
    "pairs_of_elements": (
        """
        SELECT a.x, COUNT(*) AS n
        FROM (SELECT explode(array(k, v)) AS x FROM s) a [TUMBLE 4 SECONDS]
        JOIN r [TUMBLE 4 SECONDS] b ON a.x = b.k GROUP BY a.x
        """,
        f"""
        SELECT a.x, COUNT(*) FROM (SELECT unnest([k, v]) AS x, e FROM {A}) a
        JOIN {B} b ON a.x = b.k AND a.e = b.e GROUP BY a.x, a.e
        """,
    ),
    "subtotals": (
        """
        SELECT k, v % 2 AS p, SUM(v) AS n, GROUPING(k) AS g, GROUPING_ID(k, v % 2) AS i, window_start AS b
        FROM s [TUMBLE 4 SECONDS] GROUP BY ROLLUP (k, v % 2)
        """,
        f"""
        SELECT k, p, SUM(v), GROUPING(k), GROUPING(k, p), e FROM (SELECT *, v % 2 AS p FROM {A})
        GROUP BY e, ROLLUP (k, p)
        """,
    ),
    "all_subtotals": (
        """
        SELECT k + 1 AS j, COUNT(*) AS n, v % 2 AS p FROM s [TUMBLE 4 SECONDS]
        GROUP BY CUBE (k, 3) HAVING COUNT(*) > 1 AND coalesce(k, 9) > 1
        """,
        f"""
        SELECT k + 1, COUNT(*), p FROM (SELECT *, v % 2 AS p FROM {A})
        GROUP BY e, CUBE (k, p) HAVING COUNT(*) > 1 AND coalesce(k, 9) > 1
        """,
    ),
    "some_groupings": (
        """
        SELECT k, v, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(seen), INTERVAL '4' SECOND))
        GROUP BY GROUPING SETS ((window_start, window_end, k), (window_start, window_end, (v)),
          (window_start, window_end))
        """,
        f"SELECT k, v, COUNT(*) FROM {A} GROUP BY e, GROUPING SETS (k, v, ())",
    ),
    "as_in_mysql": (
        """
        SELECT v, x.name, x.n FROM s JOIN (
          SELECT name, COUNT(*) AS n FROM names GROUP BY name WITH ROLLUP
        ) x ON x.n = s.v OR (x.name = 'a' AND s.v = 2)
        """,
        """
        SELECT v, x.name, x.n FROM s JOIN (
          SELECT name, COUNT(*) AS n FROM names GROUP BY ROLLUP (name)
        ) x ON x.n = s.v OR (x.name = 'a' AND s.v = 2)
        """,
    ),
    "same_windows": (
        """
        SELECT a.k, a.n, b.top, a.window_start
        FROM (SELECT k, COUNT(*) AS n, window_start, window_end FROM s [TUMBLE 4 SECONDS] GROUP BY k) a
        JOIN (SELECT MAX(v) AS top, window_start, window_end
              FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(seen), INTERVAL '4' SECOND))
              GROUP BY window_start, window_end) b
          ON a.window_start = b.window_start AND a.window_end = b.window_end
        """,
        """
        SELECT a.k, a.n, b.top, a.w
        FROM (SELECT k, COUNT(*) AS n, time_bucket(INTERVAL 4 SECONDS, seen) AS w FROM s GROUP BY ALL) a
        JOIN (SELECT MAX(v) AS top, time_bucket(INTERVAL 4 SECONDS, seen) AS w FROM r GROUP BY ALL) b
        USING (w)
        """,
    ),
    "highest": (
        """
        SELECT x.k, x.v, x.seen FROM s x
        JOIN (SELECT MAX(v) AS top, window_end AS e FROM s [TUMBLE 4 SECONDS] GROUP BY window_end) m
          ON x.v = m.top
        WHERE x.seen >= m.e - INTERVAL '4' SECOND AND x.seen < m.e
        """,
        f"SELECT k, v, seen FROM s QUALIFY v = MAX(v) OVER (PARTITION BY {BUCKET})",
    ),
    "passed_on": (
        """
        WITH a AS (SELECT k, v, seen AS at FROM s WHERE v > 3), b (k, w, at) AS (SELECT k, v, seen FROM r)
        SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 1 SECOND
        """,
        """
        SELECT a.k, a.v, b.v FROM s a JOIN r b
          ON a.k = b.k AND a.v > 3 AND b.seen BETWEEN a.seen AND a.seen + INTERVAL 1 SECOND
        """,
    ),
    "bounds_of_tuples": (
        "SELECT v, window_start, window_end FROM TUMBLE(TABLE s, DESCRIPTOR(seen), INTERVAL '4' SECONDS)",
        "SELECT v, time_bucket(INTERVAL 4 SECONDS, seen) AS b, b + INTERVAL 4 SECONDS FROM s",
    ),
    "hop_function": (
        """
        SELECT k, COUNT(*) AS n, window_end
        FROM TABLE(HOP(TABLE s, DESCRIPTOR(seen), INTERVAL '2' SECOND, INTERVAL '4' SECOND))
        GROUP BY ALL
        """,
        """
        SELECT k, COUNT(*), e FROM (
          SELECT k, unnest([b, b + INTERVAL 2 SECONDS]) AS e
          FROM (SELECT k, time_bucket(INTERVAL 2 SECONDS, seen) + INTERVAL 2 SECONDS AS b FROM s)
        ) GROUP BY k, e
        """,
    ),
    "named_window": (
        "SELECT window(seen, INTERVAL '4' SECOND) AS w, k, SUM(v) AS v FROM s GROUP BY w, 2",
        """
        SELECT {'start': b, 'end': b + INTERVAL 4 SECONDS}, k, v FROM
          (SELECT time_bucket(INTERVAL 4 SECONDS, seen) AS b, k, SUM(v) AS v FROM s GROUP BY ALL)
        """,
    ),
    "fetch_first": (
        "SELECT k, v FROM s [TUMBLE 4 SECONDS] ORDER BY v DESC FETCH FIRST 2 ROWS WITH TIES",
        """
        SELECT k, v FROM s
        QUALIFY RANK() OVER (PARTITION BY time_bucket(INTERVAL 4 SECONDS, seen) ORDER BY v DESC) <= 2
        """,
    ),
    "left_out": (
        "SELECT x.* EXCEPT (seen), v + 1 AS w FROM (SELECT * EXCEPT (k) FROM s) x",
        "SELECT v, v + 1 FROM s",
    ),
    "in_parentheses": (
        "(SELECT k, v FROM s) UNION ALL (SELECT k, v FROM r WHERE v = 2 UNION ALL SELECT k, k FROM r)",
        "SELECT k, v FROM s UNION ALL SELECT k, v FROM r WHERE v = 2 UNION ALL SELECT k, k FROM r",
    ),
    "lists_of_sessions": (
        """
        SELECT k, COUNT(DISTINCT v) AS n, LISTAGG(v, '-') AS vs,
          string_agg(DISTINCT v % 2) FILTER (WHERE v > 3) AS odd
        FROM s [SESSION 1 SECOND] GROUP BY k
        """,
        """
        SELECT k, COUNT(DISTINCT v), string_agg(v, '-' ORDER BY seen, v),
          string_agg(DISTINCT v % 2, '' ORDER BY v % 2) FILTER (v > 3)
        FROM (SELECT *, SUM(starts::INT) OVER (PARTITION BY k ORDER BY seen) AS n FROM (
          SELECT *, coalesce(seen - lag(seen) OVER a >= INTERVAL 1 SECOND, true) AS starts
          FROM s WINDOW a AS (PARTITION BY k ORDER BY seen)
        )) GROUP BY k, n
        """,
    ),
    "first_of_windows": (
        """
        SELECT * FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, v) AS r FROM (
            SELECT v, COUNT(*) AS n, window_start, window_end
            FROM TABLE(HOP(TABLE s, DESCRIPTOR(seen), INTERVAL '4' SECOND, INTERVAL '8' SECOND))
            GROUP BY window_start, window_end, v
          )
        ) WHERE r <= 2
        """,
        """
        SELECT v, COUNT(*) AS n, e - INTERVAL 8 SECONDS, e,
          row_number() OVER (PARTITION BY e ORDER BY n DESC, v)
        FROM (
          SELECT v, unnest([e, e + INTERVAL 4 SECONDS]) AS e
          FROM (SELECT v, time_bucket(INTERVAL 4 SECONDS, seen) + INTERVAL 4 SECONDS AS e FROM s)
        ) GROUP BY v, e QUALIFY row_number() OVER (PARTITION BY e ORDER BY n DESC, v) <= 2
        """,
    ),
    "most_of_instants": (
        "SELECT seen, v FROM s WHERE k > 1 QUALIFY RANK() OVER (PARTITION BY seen ORDER BY v DESC) = 1",
        "SELECT seen, v FROM s WHERE k > 1 QUALIFY rank() OVER (PARTITION BY seen ORDER BY v DESC) = 1",
    ),
    "left_then_left": (
        """
        SELECT a.k, a.v, b.v AS w, c.v AS x, window_start AS e
        FROM s [TUMBLE 4 SECONDS] a
        LEFT JOIN r [TUMBLE 4 SECONDS] b ON a.k = b.k AND a.v = b.v
        LEFT JOIN s [TUMBLE 4 SECONDS] c ON c.v = b.v + 1 AND c.k <> a.k
        WHERE a.v > 2
        """,
        f"""
        SELECT a.k, a.v, b.v, c.v, a.e FROM {A} a LEFT JOIN {B} b ON a.k = b.k AND a.v = b.v AND a.e = b.e
        LEFT JOIN {A} c ON c.v = b.v + 1 AND c.k <> a.k AND c.e = a.e WHERE a.v > 2
        """,
    ),
    "full_then_join": (
        """
        SELECT a.v, b.v AS w, c.k, n.name
        FROM s [TUMBLE 4 SECONDS] a
        FULL JOIN r [TUMBLE 4 SECONDS] b ON a.k = b.k AND a.v = b.v
        JOIN s [TUMBLE 4 SECONDS] c ON c.v = coalesce(a.v, b.v)
        LEFT JOIN names n ON n.k = a.k
        WHERE c.k < 3 AND (a.v IS NULL OR a.v > 4)
        """,
        f"""
        SELECT a.v, b.v, c.k, n.name FROM {A} a FULL JOIN {B} b ON a.k = b.k AND a.v = b.v AND a.e = b.e
        JOIN {A} c ON c.v = coalesce(a.v, b.v) AND c.e = coalesce(a.e, b.e) LEFT JOIN names n ON n.k = a.k
        WHERE c.k < 3 AND (a.v IS NULL OR a.v > 4)
        """,
    ),
    "join_then_anti": (
        """
        SELECT a.k, COUNT(*) AS n, SUM(b.v) AS w FROM s [TUMBLE 4 SECONDS] a
        JOIN r [TUMBLE 4 SECONDS] b ON a.k = b.k AND a.v < b.v
        WHERE NOT EXISTS (SELECT 1 FROM s [TUMBLE 4 SECONDS] c WHERE c.v = b.v AND c.k = a.k)
          AND b.v IN (SELECT d.v FROM s [TUMBLE 4 SECONDS] d)
        GROUP BY a.k
        """,
        f"""
        SELECT a.k, COUNT(*), SUM(b.v) FROM {A} a JOIN {B} b ON a.k = b.k AND a.v < b.v AND a.e = b.e
        WHERE NOT EXISTS (FROM {A} c WHERE c.v = b.v AND c.k = a.k AND c.e = a.e)
          AND EXISTS (FROM {A} d WHERE d.v = b.v AND d.e = a.e)
        GROUP BY a.k, a.e
        """,
    ),
    "without_a_name": (
        "SELECT k, COUNT(*) AS n FROM (SELECT k FROM s WHERE v > 5) [TUMBLE 4 SECONDS] GROUP BY k",
        "SELECT k, COUNT(*) FROM s WHERE v > 5 GROUP BY k, time_bucket(INTERVAL 4 SECONDS, seen)",
    ),
}


def test_queries_in_the_spelling_of_other_systems_give_what_duckdb_gives(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    rng = Random(run_seed)
    for name in "sr":
        write_stream(tmp_path / name, rng, (0, 250_000, 500_000, 1_000_000))
    relations = {
        "names": pa.table({"k": [1, 2, 2, None], "name": ["a", "b", "c", "d"]}),
        "areas": pa.table({"name": ["a", "c", "x"], "area": ["north", "south", "west"]}),
    }
    declared, views = create_streams(tmp_path, "sr"), []
    for name, rows in relations.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(rows, path)
        declared.append(f"CREATE RELATION {name} FROM parquet OPTIONS (path '{path}');")
        views.append(f"(SELECT * FROM '{path}')")
    declared.append("CREATE VIEW known AS SELECT k FROM names WHERE name <> 'a';")
    session = Session(spark).execute("\n".join(declared))
    session.execute("\n".join(f"CREATE QUERY {name} AS {query};" for name, (query, _) in PAIRS.items()))
    run = session.start(until_done=True, strategy=rng.choice(("fifo", "chain")))
    assert run.wait(400)
    with_relations = "WITH " + ", ".join(f"{n} AS {v}" for n, v in zip(relations, views, strict=True))
    answers = {name: f"{with_relations} SELECT * FROM ({wanted})" for name, (_, wanted) in PAIRS.items()}
    assert_agreement(run, tmp_path, "sr", answers)
