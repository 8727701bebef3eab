"""Tuples for which an expression fails are set aside by the query concerned; everything else goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.lengths import IS_LONG
from tests.oracle.files import stamp

from headgate import Session
from headgate.errors import QueryError
from headgate.session.handle import Run

pytestmark = pytest.mark.spark
# errors of expressions come from compiled code too
compiled = pytest.mark.usefixtures("compiled")

# v is 3 and w is v now and then, and s is no number in every tenth tuple
A = [{"ts": i, "k": i, "v": i % 7, "s": "x" if i % 10 == 4 else str(i)} for i in range(60)]
B = [{"ts": i, "k": i, "w": i % 5} for i in range(60)]
LABELS = [{"id": i, "label": f"label {i}"} for i in range(0, 60, 3)]

# each query, and the same one in functions that return NULL where the others fail
QUERIES = {
    "filtered": (
        "SELECT k FROM a WHERE 100 / (v - 3) > 0",
        "SELECT k FROM a WHERE try_divide(100, v - 3) > 0",
    ),
    "ruled_out": (
        "SELECT k FROM a WHERE 100 / (v - 3) > 0 AND k < 30",
        "SELECT k FROM a WHERE try_divide(100, v - 3) > 0 AND k < 30",
    ),
    "item": (
        "SELECT k, CAST(s AS INT) AS n, 10 / (v - 3) AS q FROM a",
        "SELECT k, try_cast(s AS INT) AS n, try_divide(10, v - 3) AS q FROM a"
        " WHERE v <> 3 AND try_cast(s AS INT) IS NOT NULL",
    ),
    "elements": (
        "SELECT k, x FROM a LATERAL VIEW OUTER explode(array_repeat(k, CAST(s AS INT) % 3)) t AS x",
        "SELECT k, x FROM a LATERAL VIEW OUTER explode(array_repeat(k, try_cast(s AS INT) % 3)) t AS x"
        " WHERE try_cast(s AS INT) IS NOT NULL",
    ),
    "total": (
        "SELECT SUM(60 div (v - 3)) AS t FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS]",
        "SELECT SUM(60 div (v - 3)) AS t FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE v <> 3",
    ),
    "groups": (
        "SELECT 6 div (v - 3) AS g, COUNT(*) AS n FROM a [ROWS 20] GROUP BY 6 div (v - 3)",
        "SELECT 6 div (v - 3) AS g, COUNT(*) AS n FROM a [ROWS 20] WHERE v <> 3 GROUP BY 6 div (v - 3)",
    ),
    "counted": (
        "SELECT v, COUNT(*) AS n FROM a [RANGE 21 SECONDS SLIDE 7 SECONDS] GROUP BY v"
        " HAVING 1 / (COUNT(*) - 3) <> 0",
        "SELECT v, COUNT(*) AS n FROM a [RANGE 21 SECONDS SLIDE 7 SECONDS] GROUP BY v HAVING COUNT(*) <> 3",
    ),
    "paired": (
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE 12 / (a.v - b.w) > 2",
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE try_divide(12, a.v - b.w) > 2",
    ),
    "equal": (
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS], b [ROWS 5] WHERE CAST(a.s AS INT) = b.k",
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS], b [ROWS 5] WHERE try_cast(a.s AS INT) = b.k",
    ),
    "looked_up": (
        "SELECT a.k, label FROM a, labels WHERE CAST(a.s AS INT) = labels.id",
        "SELECT a.k, label FROM a, labels WHERE try_cast(a.s AS INT) = labels.id",
    ),
    "preserved": (
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 3 SECONDS] ON 12 / (a.v - b.w) > 2",
        "SELECT a.k, b.w FROM a [RANGE 3 SECONDS] LEFT JOIN b [RANGE 3 SECONDS]"
        " ON coalesce(try_divide(12, a.v - b.w) > 2, TRUE)"
        " WHERE b.w IS NULL OR try_divide(12, a.v - b.w) > 2",
    ),
    "strangers": (
        "SELECT k FROM a [RANGE 2 SECONDS] ANTI JOIN b [RANGE 2 SECONDS] ON a.v > 3 AND 12 / (a.v - b.w) > 2",
        "SELECT k FROM a [RANGE 2 SECONDS] ANTI JOIN b [RANGE 2 SECONDS]"
        " ON a.v > 3 AND coalesce(try_divide(12, a.v - b.w) > 2, TRUE)",
    ),
    "matched": (
        "SELECT k FROM a [RANGE 3 SECONDS] SEMI JOIN b [RANGE 3 SECONDS] ON 12 / (a.v - b.w) > 2",
        "SELECT k FROM a [RANGE 3 SECONDS] SEMI JOIN b [RANGE 3 SECONDS] ON try_divide(12, a.v - b.w) > 2",
    ),
    "labelled": (
        "SELECT a.k, label FROM a LEFT JOIN labels ON a.k = id AND 10 / (v - 3) > 0",
        "SELECT a.k, label FROM a LEFT JOIN labels ON a.k = id AND try_divide(10, v - 3) > 0"
        " WHERE v <> 3 OR a.k % 3 <> 0",
    ),
    "unlabelled": (
        "SELECT k FROM a ANTI JOIN labels ON a.k = id AND 10 / (v - 3) > 0",
        "SELECT k FROM a ANTI JOIN labels ON a.k = id AND try_divide(10, v - 3) > 0"
        " WHERE v <> 3 OR k % 3 <> 0",
    ),
    "alive": (
        "SELECT a.k, b.w FROM a [UNTIL ts + 6 div (v - 3)] JOIN b [NOW] ON a.v = b.w",
        "SELECT a.k, b.w FROM a [UNTIL ts + CASE WHEN v <> 3 THEN 6 div (v - 3) END] JOIN b [NOW]"
        " ON a.v = b.w",
    ),
    "derived": (
        "SELECT k, COUNT(*) AS n FROM (SELECT k % 4 AS k, v FROM a) [UNTIL ts + 6 div (v - 3)] AS x"
        " GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM (SELECT k % 4 AS k, v FROM a)"
        " [UNTIL ts + CASE WHEN v <> 3 THEN 6 div (v - 3) END] AS x WHERE v <> 3 GROUP BY k",
    ),
}

PAIRS = [(a, b) for a in A for b in B if abs(a["ts"] - b["ts"]) <= 3 and a["v"] == b["w"]]
SET_ASIDE = {
    "filtered": [a["ts"] for a in A if a["v"] == 3],
    "ruled_out": [a["ts"] for a in A if a["v"] == 3 and a["k"] < 30],
    "item": [a["ts"] for a in A if a["v"] == 3 or a["s"] == "x"],
    "elements": [a["ts"] for a in A if a["s"] == "x"],
    "total": [a["ts"] for a in A if a["v"] == 3],
    "groups": [a["ts"] for a in A if a["v"] == 3],
    "paired": sorted(max(a["ts"], b["ts"]) for a, b in PAIRS),
    "equal": [a["ts"] for a in A if a["s"] == "x"],
    "looked_up": [a["ts"] for a in A if a["s"] == "x"],
    "preserved": sorted(max(a["ts"], b["ts"]) for a, b in PAIRS),
    "strangers": sorted(
        max(a["ts"], b["ts"]) for a, b in PAIRS if a["v"] > 3 and abs(a["ts"] - b["ts"]) <= 2
    ),
    "matched": sorted(max(a["ts"], b["ts"]) for a, b in PAIRS),
    "labelled": [a["ts"] for a in A if a["v"] == 3 and a["k"] % 3 == 0],
    "unlabelled": [a["ts"] for a in A if a["v"] == 3 and a["k"] % 3 == 0],
    "alive": [a["ts"] for a in A if a["v"] == 3],
    "derived": [a["ts"] for a in A if a["v"] == 3],
}


def write(folder: Path, rows: list[dict[str, object]], files: int) -> None:
    folder.mkdir(parents=True)
    size = -(-len(rows) // files)
    for number in range(files):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[number * size : (number + 1) * size]), path)
        stamp(path)


def declared(spark: SparkSession, folder: Path, files: int) -> Session:
    write(folder / "a", A, files)
    write(folder / "b", B, files)
    pq.write_table(pa.Table.from_pylist(LABELS), folder / "labels.parquet")
    options = "timestamp 'ts', idle_after '1 h', maxFilesPerTrigger '1'"
    return Session(spark).execute(f"""
      CREATE STREAM a (ts BIGINT, k BIGINT, v BIGINT, s STRING)
        FROM parquet OPTIONS (path '{folder}/a', {options});
      CREATE STREAM b (ts BIGINT, k BIGINT, w BIGINT) FROM parquet OPTIONS (path '{folder}/b', {options});
      CREATE RELATION labels FROM parquet OPTIONS (path '{folder}/labels.parquet');
    """)


def finished(session: Session) -> Run:
    run = session.start(until_done=True)
    assert run.wait(900)
    return run


def rows_of(run: Run, query: str) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, run.results(query).collect()))


@pytest.mark.parametrize("files", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_query_sets_aside_the_tuples_that_it_fails_for_and_nothing_else(
    spark: SparkSession, tmp_path: Path, files: int, request: pytest.FixtureRequest
) -> None:
    if IS_LONG:
        request.getfixturevalue("compiled")
    session = declared(spark, tmp_path, files)
    for name, (failing, careful) in QUERIES.items():
        session.execute(f"CREATE QUERY {name} AS {failing}; CREATE QUERY careful_{name} AS {careful};")
    session.execute("""
      CREATE QUERY three AS
        SELECT v, COUNT(*) AS n FROM a [RANGE 21 SECONDS SLIDE 7 SECONDS] GROUP BY v HAVING COUNT(*) = 3;
    """)
    run = finished(session)
    for name in QUERIES:
        assert rows_of(run, name) == rows_of(run, f"careful_{name}"), name
        assert rows_of(run, name), name
    letters = run.dead_letters().collect()
    found: dict[str, list[int]] = {}
    for letter in letters:
        found.setdefault(letter["query"], []).append(int(letter["ts"].timestamp()))
    assert len(found.pop("counted")) == rows_of(run, "three").total() > 0
    assert {name: sorted(times) for name, times in found.items()} == SET_ASIDE
    queries = run.status().queries
    assert {name: queries[name].set_aside for name in SET_ASIDE} == {n: len(t) for n, t in SET_ASIDE.items()}
    assert not any(q.set_aside for name, q in queries.items() if name.startswith("careful"))
    [letter] = [one for one in letters if one["query"] == "ruled_out" and one["ts"].timestamp() == 3]
    assert letter["reason"] == "100 / (v - 3) > 0: Division by zero"
    assert letter["stream"] == "a" and json.loads(letter["row"]) == {"k": 3, "v": 3}
    [letter] = [one for one in letters if one["query"] == "looked_up" and one["ts"].timestamp() == 14]
    assert letter["reason"].startswith("CAST(a.s AS INT) = labels.id: The value 'x' of the type")


@compiled
def test_a_query_that_must_not_set_aside_stops_the_run_and_names_the_tuple(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = declared(spark, tmp_path, files=2).execute("""
      CREATE QUERY strict WITH (on_error = 'stop') AS SELECT k FROM a WHERE 100 / (v - 3) > 0;
      CREATE QUERY other AS SELECT k FROM a WHERE 100 / (v - 4) > 0;
    """)
    run = session.start(until_done=True)
    with pytest.raises(QueryError) as caught:
        run.wait(120)
    assert str(caught.value) == (
        'query strict: 100 / (v - 3) > 0: Division by zero, for the tuple {"k":3,"v":3} of a '
        "at 1970-01-01 00:00:03; correct the expression, or write WITH (on_error = 'set aside')"
    )


@compiled
def test_an_error_of_no_single_tuple_names_its_query(spark: SparkSession, tmp_path: Path) -> None:
    session = declared(spark, tmp_path, files=1).execute("""
      CREATE QUERY large AS SELECT SUM(v + 9223372036854775000) AS t FROM a [RANGE 1 MINUTE SLIDE 1 MINUTE];
    """)
    run = session.start(until_done=True)
    with pytest.raises(QueryError, match=r"query large: .*overflow"):
        run.wait(120)
