"""The SQL that is shown is SQL that Spark takes, and shows what a tick really does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.spark import sql

SOURCES = """
CREATE STREAM a (ts TIMESTAMP, k INT, v DOUBLE, s STRING) FROM csv OPTIONS (path '{a}', timestamp 'ts');
CREATE STREAM b (ts TIMESTAMP, k INT, w DOUBLE)
  FROM csv OPTIONS (path '{b}', timestamp 'ts', watermark '2 s');
CREATE STREAM c (ts TIMESTAMP, k INT, w DOUBLE) FROM csv OPTIONS (path '{b}', timestamp 'ts');
CREATE RELATION r (k INT, name STRING) FROM csv OPTIONS (path '{r}');
CREATE POOL calls SLOTS 2; CREATE POOL probes SLOTS 1; PLACE PROBE OF c ON probes;
"""
QUERIES = {
    "selection": "SELECT k, s FROM a WHERE v > 1 AND s = 'x\ny\x1bz'",
    "relation_join": "SELECT a.k, r.name FROM a, r WHERE a.k = r.k AND v > 3",
    "both": "SELECT k, v FROM a WHERE v > 2 UNION ALL SELECT k, w AS v FROM b",
    "time_join": "SELECT a.k, v, w FROM a [RANGE 10 s], b [RANGE 5 s SLIDE 1 s] WHERE a.k = b.k AND v > 4",
    "row_join": "SELECT a.k, w FROM a [ROWS 10], b [PARTITION BY k ROWS 3] WHERE a.k = b.k AND v > 5",
    "full_join": "SELECT a.k, v, w FROM a [RANGE 10 s] FULL JOIN b [TUMBLE 5 s] ON a.k = b.k AND v > 4",
    "semi_join": "SELECT k, v FROM a [RANGE 5 s SLIDE 1 s] WHERE k IN (SELECT k FROM b [ROWS 3])",
    "anti_join": "SELECT k, v FROM a WHERE k NOT IN (SELECT k FROM r)",
    "large_join": "SELECT a.k, w FROM a [ROWS 1000000], b [ROWS 3] WHERE a.k = b.k",
    "sliding": "SELECT k, COUNT(*) AS n, AVG(v) AS m FROM a [RANGE 10 s SLIDE 1 s] WHERE v > 6 GROUP BY k",
    "distinct_values": "SELECT k, COUNT(DISTINCT v) AS n FROM a [RANGE 10 s SLIDE 1 s] GROUP BY k",
    "panes": "SELECT k, MAX(v) AS m FROM a [RANGE 1 h SLIDE 1 s] GROUP BY k HAVING COUNT(*) > 1",
    "running": "SELECT k, SUM(v) AS n, AVG(v) AS m, MIN(v) AS least FROM a GROUP BY k",
    "time_frame": "SELECT k, SUM(v) AS n FROM a [RANGE 5 s] GROUP BY k",
    "row_frame": "SELECT k, SUM(v) AS n FROM a [ROWS 7] GROUP BY k",
    "lifetimes": "SELECT k, COUNT(DISTINCT s) AS n FROM a [PARTITION BY k ROWS 7] WHERE v > 7 GROUP BY k",
    "queue": "SELECT k, SUM(v) AS n FROM a [RANGE 5 s] WHERE md5(s) > 'a' GROUP BY k",
    "shared": "SELECT s FROM a WHERE md5(s) > 'b'",
    "sharing": "SELECT v FROM a WHERE md5(s) > 'b'",
    "eddy": "SELECT k, v FROM a WHERE slow(v) AND v > 8",
    "behind_eddy": "SELECT k, SUM(v) AS n FROM a [RANGE 5 s] WHERE slow(v) GROUP BY k",
    "placed_probes": "SELECT x.k FROM c [RANGE 5 s] AS x, c [RANGE 6 s] AS y WHERE x.k = y.k",
}


@dataclass
class Shown:
    texts: dict[str, str]
    spark: SparkSession


@pytest.fixture(scope="module")
def shown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folders = {name: tmp_path_factory.mktemp(name) for name in ("a", "b", "r")}
    session = Session(spark).execute(SOURCES.format(**folders))
    session.function("slow", lambda v: v > 3, "boolean").execute("PLACE slow ON calls")
    for name, query in QUERIES.items():
        session.execute(f"CREATE QUERY {name} AS {query}")
    return Shown(session.sql(), session._spark)


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_spark_takes_the_text_of_every_kind_of_operator(shown: Shown, name: str) -> None:
    text = shown.texts[name]
    bound = text.replace(":old", "0L").replace(":new", "5000000L")
    # `$ts` goes before results are written
    columns = [column for column in shown.spark.sql(bound).columns if column != "$ts"]
    assert columns == ["ts", *_result_columns(QUERIES[name])]


def _result_columns(query: str) -> list[str]:
    items = query.removeprefix("SELECT ").split(" FROM ")[0].split(", ")
    return [item.split(" AS ")[-1].split(".")[-1] for item in items]


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_texts_are_lines_of_printable_characters(shown: Shown, name: str) -> None:
    lines = shown.texts[name].split("\n")
    assert len(lines) > 3
    assert all(line.isprintable() and line == line.rstrip() for line in lines)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("time_join", ["`$ts` >= :old - 10000000L AND `$ts` < :new", "`$ts` >= :old - 6000000L"]),
        (
            "full_join",
            ["LEFT ANTI JOIN (", "`$due` >= :old", "`$due` < :new", ":old - 10000000L - 10000000L"],
        ),
        ("semi_join", ["GROUP BY `$tuple`"]),
        ("row_join", ["OVER (ORDER BY `$seq`)", "OVER (PARTITION BY `$key0` ORDER BY `$seq`)"]),
        # more than the work of one task: new tuples meet all, and old ones new ones
        ("large_join", ["UNION ALL", "BROADCAST(s0)", "WHERE `$ts` >= :old", "WHERE `$ts` < :old"]),
        ("sliding", [":old + pmod(-(:old), 1000000L)", ":new + pmod(-(:new), 1000000L) - 1000000L"]),
        (
            "panes",
            ["FROM `panes of panes.aggregate near 0`", "`$level`", "WHERE `$ts` >= :old AND `$ts` < :new"],
        ),
        ("running", ["LEFT JOIN (", "FROM `groups of running.aggregate 0`"]),
        ("queue", ["FROM `queue queue.aggregate.0 0`", "FROM `new a`"]),
        ("sharing", ["WITH `output of shared.select_a` AS (", "FROM `output of shared.select_a`"]),
        ("eddy", ["-- WHERE (`a__v` > 8)", "FROM `through eddy.select_a_eddy`"]),
        ("placed_probes", ["--   FROM `new c`", "FROM `through placed_probes.join_eddy`"]),
    ],
)
def test_texts_read_what_a_tick_reads(shown: Shown, name: str, parts: list[str]) -> None:
    assert [part for part in parts if part not in shown.texts[name]] == []


@pytest.mark.spark
def test_predicates_over_literals_of_several_lines_hold(spark: SparkSession, tmp_path: Path) -> None:
    # tab and newline, a backslash before a newline, raw strings, a character of a terminal
    literals = ["'a\tb\nc'", "'d\\\ne'", "r'f\\d\ng'", '"h\x1b\u2028i"']
    values = ["a\tb\nc", "d\ne", "f\\d\ng", "h\x1b\u2028i"]
    stored = spark.createDataFrame([(0, value) for value in values], "k INT, value STRING")
    stored.write.parquet(str(tmp_path / "s"))
    session = Session(spark).execute(
        f"CREATE STREAM s (k INT, value STRING) FROM parquet OPTIONS (path '{tmp_path / 's'}');"
        f"CREATE QUERY q AS SELECT s.value FROM s [ROWS 9], s [ROWS 9] AS t "
        f"WHERE s.value IN ({', '.join(literals)}) AND s.value = t.value"
    )
    run = session.start(until_done=True)
    assert run.wait(120)
    assert sorted(run.arrow("q").to_pydict()["value"]) == sorted(values)


def test_symbols_count_and_show_how() -> None:
    old, new = sql.Symbol(7, ":old"), sql.Symbol(20, ":new")
    for symbol, value, text in [
        (old - 5, 2, ":old - 5L"),
        (old + -old % 5, 10, ":old + pmod(-(:old), 5L)"),
        (new - (old + 1), 12, ":new - (:old + 1L)"),
        (max(old, new), 20, ":new"),
    ]:
        assert (symbol, sql.Bound(symbol).at("`x`")) == (value, text)


def test_a_bound_is_data_and_no_literal() -> None:
    assert sql.Bound(7).at("`x`") == "array(7L, 7L)[int(isnull(`x`))]"
