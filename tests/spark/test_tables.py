"""Rankings, distinct values, and tables of the latest results, against DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.duck import assert_agreement, create_streams, sorted_rows, write_stream

from headgate import Session
from headgate.errors import SetupError
from headgate.spark.checkpoint import roll_back
from headgate.spark.file_system import Files
from headgate.spark.sinks import TableFileSink

pytestmark = pytest.mark.spark

STREAMS = ("s", "r")
BUCKET = "time_bucket(INTERVAL 5 SECONDS, seen)"
LATEST = "INTO memory OPTIONS (mode 'latest')"
ENDS = """
  ends AS (SELECT unnest(generate_series(time_bucket(INTERVAL 2 SECONDS, min(seen)),
                                         max(seen) + INTERVAL 6 SECONDS, INTERVAL 2 SECONDS)) AS e FROM s)
"""
RECENT = "(FROM s WHERE seen >= (SELECT max(seen) FROM s) - INTERVAL 9 SECONDS)"
LAST = "(FROM s ORDER BY seen DESC LIMIT 20)"
LAST_OF_KEYS = "(FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY seen DESC) <= 4)"
# a query in CQL, and the same in DuckDB over views of all tuples; s has one tuple to an instant
RANKINGS = {
    "most_frequent": (
        """SELECT v, COUNT(*) AS n, window_start AS b FROM s [TUMBLE 5 SECONDS] GROUP BY v
           ORDER BY n DESC, v LIMIT 2""",
        f"""
        FROM (SELECT v, COUNT(*) AS n, {BUCKET} AS b FROM s GROUP BY ALL)
        QUALIFY row_number() OVER (PARTITION BY b ORDER BY n DESC, v) <= 2
        """,
    ),
    "with_ties": (
        """SELECT v, COUNT(*) AS n FROM s [TUMBLE 5 SECONDS] GROUP BY v
           ORDER BY COUNT(*) DESC LIMIT 1 WITH TIES""",
        f"""
        SELECT v, n FROM (SELECT v, COUNT(*) AS n, {BUCKET} AS b FROM s GROUP BY ALL)
        QUALIFY rank() OVER (PARTITION BY b ORDER BY n DESC) = 1
        """,
    ),
    "largest_of_hops": (
        """SELECT k, v, seen, window_end AS e FROM s [HOP 6 SECONDS EVERY 2 SECONDS] WHERE v > 2
           QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, seen) <= 2""",
        f"""
        WITH {ENDS} SELECT k, v, seen, e FROM s, ends
        WHERE v > 2 AND seen >= e - INTERVAL 6 SECONDS AND seen < e
        QUALIFY row_number() OVER (PARTITION BY e, k ORDER BY v DESC, seen) <= 2
        """,
    ),
    "ranked_groups": (
        """SELECT k, t, place FROM (
             SELECT k, SUM(v) AS t, DENSE_RANK() OVER (ORDER BY SUM(v) DESC) AS place
             FROM s [TUMBLE 5 SECONDS] GROUP BY k) AS x WHERE place <= 2""",
        f"""
        SELECT k, t, dense_rank() OVER (PARTITION BY b ORDER BY t DESC) AS place
        FROM (SELECT k, SUM(v) AS t, {BUCKET} AS b FROM s GROUP BY ALL) QUALIFY place <= 2
        """,
    ),
    "without_duplicates": (
        "SELECT DISTINCT ON (k, v) k, v, seen FROM s [RANGE 3 SECONDS]",
        """
        SELECT k, v, seen FROM s AS t WHERE NOT EXISTS (
          FROM s WHERE k = t.k AND v = t.v AND seen < t.seen AND seen >= t.seen - INTERVAL 3 SECONDS)
        """,
    ),
    "best_pairs": (
        """SELECT a.k, a.v AS x, b.v AS y, window_start AS w
           FROM s [TUMBLE 5 SECONDS] AS a JOIN r [TUMBLE 5 SECONDS] AS b
             ON a.k = b.k ORDER BY a.v + b.v DESC LIMIT 1 WITH TIES""",
        """
        SELECT k, x, y, w FROM (
          SELECT a.k, a.v AS x, b.v AS y, time_bucket(INTERVAL 5 SECONDS, a.seen) AS w FROM s a JOIN r b
          ON a.k = b.k AND time_bucket(INTERVAL 5 SECONDS, b.seen) = time_bucket(INTERVAL 5 SECONDS, a.seen)
        ) QUALIFY rank() OVER (PARTITION BY w ORDER BY x + y DESC) = 1
        """,
    ),
}
NAMES = "(VALUES (1, 'one'), (1, 'one'), (2, 'two'), (2, 'zwei')) AS n(k, name)"
DISTINCT = {
    "values_of_windows": (
        "SELECT DISTINCT v % 4 AS w, window_end AS e FROM s [TUMBLE 5 SECONDS]",
        f"SELECT DISTINCT v % 4, {BUCKET} + INTERVAL 5 SECONDS FROM s",
    ),
    "windows_alone": (
        "SELECT DISTINCT window_start AS b FROM s [TUMBLE 5 SECONDS] WHERE v > 8",
        f"SELECT DISTINCT {BUCKET} FROM s WHERE v > 8",
    ),
    "values_of_pairs": (
        """SELECT DISTINCT a.k, b.v % 3 AS w, window_start AS b
           FROM s [TUMBLE 5 SECONDS] AS a JOIN r [TUMBLE 5 SECONDS] AS b ON a.k = b.k""",
        """
        SELECT DISTINCT k, b.v % 3, time_bucket(INTERVAL 5 SECONDS, a.seen) FROM s AS a JOIN r AS b USING (k)
        WHERE time_bucket(INTERVAL 5 SECONDS, a.seen) = time_bucket(INTERVAL 5 SECONDS, b.seen)
        """,
    ),
    "names_of_windows": (
        "SELECT DISTINCT name, window_start AS b FROM s [TUMBLE 5 SECONDS] LEFT JOIN names USING (k)",
        f"SELECT DISTINCT name, {BUCKET} FROM s LEFT JOIN {NAMES} USING (k)",
    ),
    "new_names": (
        "SELECT DISTINCT k, name FROM s [RANGE 2 SECONDS] JOIN names USING (k)",
        f"""
        SELECT DISTINCT ON (seen, k, name) k, name FROM s AS t JOIN {NAMES} USING (k) WHERE NOT EXISTS (
          FROM s WHERE k = t.k AND seen < t.seen AND seen >= t.seen - INTERVAL 2 SECONDS)
        """,
    ),
    "whole_windows": (
        "SELECT RSTREAM k, v, window_start AS b, k + hour(window_end) AS h FROM s [TUMBLE 5 SECONDS]",
        f"SELECT k, v, {BUCKET}, k + hour({BUCKET} + INTERVAL 5 SECONDS) FROM s",
    ),
}
TABLES = {
    "groups": (
        """SELECT k, COUNT(*) AS n, SUM(v) AS t, AVG(v) AS m, MIN(v) AS a, MAX(v) AS z,
             COUNT(DISTINCT v) AS d, COUNT(DISTINCT v) FILTER (WHERE v > 5) AS e
           FROM s GROUP BY k HAVING COUNT(*) > 3""",
        """
        SELECT k, COUNT(*), SUM(v), AVG(v), MIN(v), MAX(v), COUNT(DISTINCT v),
          COUNT(DISTINCT v) FILTER (v > 5)
        FROM s GROUP BY k HAVING COUNT(*) > 3
        """,
    ),
    "elements": (
        "SELECT x, COUNT(*) AS n, MAX(v) AS m FROM s LATERAL VIEW explode(array(k, v)) t AS x GROUP BY x",
        "SELECT x, COUNT(*), MAX(v) FROM (SELECT v, unnest([k, v]) AS x FROM s) GROUP BY x",
    ),
    "whole": (
        "SELECT COUNT(*) AS n, MAX(v) AS m FROM s WHERE v < 9",
        "SELECT COUNT(*), MAX(v) FROM s WHERE v < 9",
    ),
    "first_rows": (
        """SELECT k, v, seen, place FROM (
             SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, seen) AS place FROM s
           ) AS x WHERE place <= 4""",
        """
        SELECT k, v, seen, row_number() OVER (PARTITION BY k ORDER BY v DESC, seen) AS place FROM s
        QUALIFY place <= 4
        """,
    ),
    "pairs": (
        """SELECT a.k, b.v, a.seen FROM s [UNBOUNDED] AS a JOIN r [UNBOUNDED] AS b ON a.k = b.k AND a.v = b.v
           QUALIFY RANK() OVER (PARTITION BY a.k ORDER BY b.v DESC) <= 1""",
        """
        SELECT a.k, b.v, a.seen FROM s a JOIN r b ON a.k = b.k AND a.v = b.v
        QUALIFY rank() OVER (PARTITION BY a.k ORDER BY b.v DESC) = 1
        """,
    ),
    "of_a_table": (
        """SELECT n, COUNT(*) AS groups, median(m) AS middle
           FROM (SELECT k, v, COUNT(*) AS n, MAX(k + v) AS m FROM s GROUP BY k, v) AS x
           WHERE n > 1 GROUP BY n""",
        """
        SELECT n, COUNT(*), median(m)
        FROM (SELECT k, v, COUNT(*) AS n, MAX(k + v) AS m FROM s GROUP BY k, v) WHERE n > 1 GROUP BY n
        """,
    ),
    "recent_groups": (
        "SELECT k, COUNT(*) AS n, median(v) AS m FROM s [RANGE 9 SECONDS] WHERE v > 2 GROUP BY k",
        f"SELECT k, COUNT(*), median(v) FROM {RECENT} WHERE v > 2 GROUP BY k",
    ),
    "recent_total": (
        "SELECT COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 9 SECONDS] WHERE v > 100",
        f"SELECT COUNT(*), MAX(v) FROM {RECENT} WHERE v > 100",
    ),
    "recent": ("SELECT k, v, seen FROM s [RANGE 9 SECONDS]", f"SELECT k, v, seen FROM {RECENT}"),
    "recent_values": ("SELECT DISTINCT v FROM s [RANGE 9 SECONDS]", f"SELECT DISTINCT v FROM {RECENT}"),
    "recent_first": (
        "SELECT k, v, seen FROM s [RANGE 9 SECONDS] ORDER BY v DESC, seen LIMIT 3",
        f"SELECT k, v, seen FROM {RECENT} ORDER BY v DESC, seen LIMIT 3",
    ),
    "recent_names": (
        "SELECT name, COUNT(*) AS n FROM s [RANGE 9 SECONDS] JOIN names USING (k) GROUP BY name",
        f"SELECT name, COUNT(*) FROM {RECENT} JOIN {NAMES} USING (k) GROUP BY name",
    ),
    "recent_of_derived": (
        "SELECT w, COUNT(*) AS n FROM (SELECT v % 3 AS w FROM s) [RANGE 9 SECONDS] AS x GROUP BY w",
        f"SELECT v % 3 AS w, COUNT(*) FROM {RECENT} GROUP BY w",
    ),
    "last_rows": (
        "SELECT k, v, seen FROM s [ROWS 20] WHERE v > 2",
        f"SELECT k, v, seen FROM {LAST} WHERE v > 2",
    ),
    "last_groups": (
        "SELECT k, COUNT(*) AS n, median(v) AS m FROM s [ROWS 20] GROUP BY k HAVING COUNT(*) > 1",
        f"SELECT k, COUNT(*), median(v) FROM {LAST} GROUP BY k HAVING COUNT(*) > 1",
    ),
    "last_of_keys": (
        "SELECT k, SUM(v) AS t, MAX(seen) AS e FROM s [PARTITION BY k ROWS 4] WHERE v <> 7 GROUP BY k",
        f"SELECT k, SUM(v), MAX(seen) FROM {LAST_OF_KEYS} WHERE v <> 7 GROUP BY k",
    ),
    "first_of_last": (
        "SELECT v, seen FROM s [PARTITION BY k ROWS 4] ORDER BY v DESC, seen LIMIT 3",
        f"SELECT v, seen FROM {LAST_OF_KEYS} ORDER BY v DESC, seen LIMIT 3",
    ),
    "values_of_last": ("SELECT DISTINCT v FROM s [ROWS 20]", f"SELECT DISTINCT v FROM {LAST}"),
    "of_last_groups": (
        "SELECT MAX(n) AS m FROM (SELECT k, COUNT(*) AS n FROM s [ROWS 20] WHERE v > 3 GROUP BY k) AS x",
        f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM {LAST} WHERE v > 3 GROUP BY k)",
    ),
    "values": ("SELECT DISTINCT k, v % 4 AS w FROM s", "SELECT DISTINCT k, v % 4 FROM s"),
    "values_of_groups": (
        "SELECT DISTINCT n % 3 AS w FROM (SELECT v, COUNT(*) AS n FROM s GROUP BY v) AS x",
        "SELECT DISTINCT n % 3 FROM (SELECT v, COUNT(*) AS n FROM s GROUP BY v)",
    ),
}
KEYED = {
    "last": (
        "SELECT k, v, seen FROM s WHERE v <> 5",
        "k",
        """
        SELECT k, v, seen FROM s WHERE v <> 5
        QUALIFY row_number() OVER (PARTITION BY k ORDER BY seen DESC) = 1
        """,
    ),
    "last_window": (
        "SELECT k, COUNT(*) AS n, window_end AS e FROM s [TUMBLE 5 SECONDS] GROUP BY k",
        "k",
        f"""
        FROM (SELECT k, COUNT(*) AS n, {BUCKET} + INTERVAL 5 SECONDS AS e FROM s GROUP BY ALL)
        QUALIFY row_number() OVER (PARTITION BY k ORDER BY e DESC) = 1
        """,
    ),
    "last_of_both": (
        "SELECT k, 's' AS w, seen FROM s UNION ALL SELECT k, 'r' AS w, seen FROM r",
        "k, w",
        "SELECT k, 's', max(seen) FROM s GROUP BY k UNION ALL SELECT k, 'r', max(seen) FROM r GROUP BY k",
    ),
}

# tables whose changes are taken, and the same over the tuples up to an instant
CHANGES = {
    "changing_groups": (
        """SELECT k, COUNT(*) AS n, AVG(v) AS m, MAX(v) AS z, COUNT(DISTINCT v) AS d, 12 / COUNT(*) AS part
           FROM r WHERE v <> 5 GROUP BY k HAVING COUNT(*) % 4 <> 1 INTO memory OPTIONS (mode 'changes')""",
        """
        SELECT k, COUNT(*), AVG(v), MAX(v), COUNT(DISTINCT v), 12 / COUNT(*)
        FROM upto WHERE v <> 5 GROUP BY k HAVING COUNT(*) % 4 <> 1
        """,
    ),
    "changing_total": (
        "SELECT MAX(v) AS m FROM r INTO memory OPTIONS (mode 'changes')",
        "SELECT MAX(v) FROM upto",
    ),
    "changing_values": (
        "SELECT DISTINCT v % 7 AS w FROM r INTO memory OPTIONS (mode 'changes')",
        "SELECT DISTINCT v % 7 FROM upto",
    ),
    "changing_ranks": (
        """SELECT k, v, place FROM (
             SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, seen) AS place FROM r
           ) AS x WHERE place <= 3 AND v < 12 INTO memory OPTIONS (mode 'changes')""",
        """
        SELECT k, v, place FROM (
          SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC, seen) AS place FROM upto
        ) WHERE place <= 3 AND v < 12
        """,
    ),
    "changing_first_rows": (
        "SELECT k, v, seen FROM r ORDER BY seen DESC, v, k LIMIT 4 INTO memory OPTIONS (mode 'changes')",
        "SELECT k, v, seen FROM upto ORDER BY seen DESC, v, k LIMIT 4",
    ),
    "changing_tied_ranks": (
        """SELECT k, v, seen, place FROM (
             SELECT *, RANK() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM r
           ) AS x WHERE place <= 4 AND v < 12 INTO memory OPTIONS (mode 'changes')""",
        """
        SELECT k, v, seen, place FROM (
          SELECT k, v, seen, rank() OVER (PARTITION BY k ORDER BY v DESC) AS place FROM upto
        ) WHERE place <= 4 AND v < 12
        """,
    ),
    "changing_dense_ranks": (
        """SELECT k, v, DENSE_RANK() OVER (PARTITION BY k ORDER BY v % 5 DESC, v) AS place FROM r
           QUALIFY place <= 3 INTO memory OPTIONS (mode 'changes')""",
        """
        SELECT k, v, dense_rank() OVER (PARTITION BY k ORDER BY v % 5 DESC, v) AS place FROM upto
        QUALIFY place <= 3
        """,
    ),
    "changing_ties": (
        "SELECT k, v FROM r ORDER BY v DESC LIMIT 2 WITH TIES INTO memory OPTIONS (mode 'changes')",
        "SELECT k, v FROM upto QUALIFY rank() OVER (ORDER BY v DESC) <= 2",
    ),
    "changing_best": (
        """SELECT k, v, seen FROM r QUALIFY DENSE_RANK() OVER (PARTITION BY k ORDER BY v) = 1
           INTO memory OPTIONS (mode 'changes')""",
        "SELECT k, v, seen FROM upto QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY v) = 1",
    ),
    "changing_last": (
        "SELECT k, v, seen FROM r INTO memory OPTIONS (mode 'changes', key 'k')",
        """
        SELECT k, v, seen FROM upto
        QUALIFY row_number() OVER (PARTITION BY k ORDER BY seen DESC, v DESC) = 1
        """,
    ),
}


def test_changes_are_the_differences_between_tables_of_consecutive_instants(
    spark: SparkSession, tmp_path: Path, run_seed: int
) -> None:
    write_stream(tmp_path / "r", Random(run_seed), (0, 0, 250_000, 1_000_000))
    statements = create_streams(tmp_path, ("r",))
    statements += [f"CREATE QUERY {name} AS {query};" for name, (query, _) in CHANGES.items()]
    run = Session(spark).execute("\n".join(statements)).start(until_done=True)
    assert run.wait(600)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"CREATE VIEW r AS FROM '{tmp_path}/r/*.parquet'")
    instants = [ts for (ts,) in duck.sql("SELECT DISTINCT seen FROM r ORDER BY seen").fetchall()]
    for name, (_, query) in CHANGES.items():
        found = run.results(name).toArrow()
        columns = [name for name in found.column_names if name not in ("ts", "change")]
        changes: dict[tuple[Any, bool], Counter[str]] = {}
        for change in found.to_pylist():
            is_new = change["change"] in ("insert", "update_after")
            row = _rounded(change[column] for column in columns)
            changes.setdefault((change["ts"], is_new), Counter())[row] += 1
        before: Counter[str] = Counter()
        for instant in instants:
            duck.execute(f"CREATE OR REPLACE VIEW upto AS FROM r WHERE seen <= TIMESTAMPTZ '{instant}'")
            after = Counter(map(_rounded, duck.sql(query).fetchall()))
            assert changes.pop((instant, True), Counter()) == after - before, (name, instant)
            assert changes.pop((instant, False), Counter()) == before - after, (name, instant)
            before = after
        assert not changes, name
    kinds = Counter(run.results("changing_groups").toArrow().column("change").to_pylist())
    assert kinds["update_before"] == kinds["update_after"] > 0 and kinds["insert"] and kinds["delete"]
    assert {*run.results("changing_values").toArrow().column("change").to_pylist()} == {"insert"}


def _rounded(row: Iterable[Any]) -> str:
    return ", ".join(str(round(one, 9) if isinstance(one, float) else one) for one in row)


def _names(folder: Path) -> str:
    """A statement that declares the stored relation of names."""
    path = folder / "names.csv"
    path.write_text("1,one\n1,one\n2,two\n2,zwei\n", encoding="utf-8")
    return f"CREATE RELATION names (k BIGINT, name STRING) FROM csv OPTIONS (path '{path}');"


@pytest.mark.takes_minutes
def test_rankings_distinct_values_and_tables_give_what_duckdb_gives(
    spark: SparkSession, tmp_path: Path, run_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(run_seed)
    write_stream(tmp_path / "s", rng, (250_000, 500_000, 1_000_000))
    write_stream(tmp_path / "r", rng, (0, 250_000, 500_000, 1_000_000))
    statements = [*create_streams(tmp_path, STREAMS), _names(tmp_path)]
    statements += [f"CREATE QUERY {name} AS {query};" for name, (query, _) in (RANKINGS | DISTINCT).items()]
    statements += [f"CREATE QUERY {name} AS {query} {LATEST};" for name, (query, _) in TABLES.items()]
    statements += [
        f"CREATE QUERY {name} AS {query} "
        f"INTO parquet OPTIONS (path '{tmp_path}/{name}', mode 'latest', key '{key}');"
        for name, (query, key, _) in KEYED.items()
    ]
    session = Session(spark).execute("\n".join(statements))
    last = tmp_path / "last" / "table.snappy.parquet"
    shown: dict[int, list[tuple[object, ...]]] = {}
    publish, restore = TableFileSink.publish, TableFileSink.restore

    def published(sink: TableFileSink, batch_id: int, *others: Any) -> None:
        publish(sink, batch_id, *others)
        if last.exists():
            shown[batch_id] = sorted_rows(pq.read_table(last))

    monkeypatch.setattr(TableFileSink, "publish", published)
    strategy, checkpoint = rng.choice(("fifo", "chain", "path-capacity")), str(tmp_path / "state")
    run = session.start(until_done=True, strategy=strategy, checkpoint=checkpoint)
    assert run.wait(600)
    answers = {name: query for name, (_, query) in (RANKINGS | DISTINCT | TABLES).items()}
    answers |= {name: query for name, (_, _, query) in KEYED.items()}
    assert_agreement(run, tmp_path, STREAMS, answers)
    assert sorted_rows(run.table("values")) == sorted_rows(run.results("values").toArrow())
    with pytest.raises(SetupError, match="query with_ties appends its results and has no table"):
        run.table("with_ties")
    # one file for each table, whatever the number of ticks
    assert [path.name for path in (tmp_path / "last").glob("*.parquet")] == [last.name]
    earlier = max(batch for batch, rows in shown.items() if rows != shown[max(shown)])
    done, before = roll_back(Files(), checkpoint, earlier), dict(shown)
    restored: list[int] = []

    def restoring(sink: TableFileSink, rows: DataFrame | None, batch_id: int) -> None:
        restore(sink, rows, batch_id)
        restored.append(batch_id)

    monkeypatch.setattr(TableFileSink, "restore", restoring)
    run = session.start(until_done=True, checkpoint=checkpoint)
    assert shown[earlier] == before[earlier]
    windows = [name for name in TABLES if name.startswith("recent")]
    assert restored == [done.to_tick] * (len(TABLES | KEYED) - len(windows))
    assert run.wait(600)
    assert_agreement(run, tmp_path, STREAMS, answers)
