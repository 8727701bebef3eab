"""DuckDB as the oracle: a query as written, and its plans, give the same rows over stored tables.

Windows are left out on both sides; what they mean is the engines' affair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from tests.planning.queries import aggregate_selects, plain_selects
from tests.planning.support import bound_select

from headgate.errors import QueryError
from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    StreamScan,
    WindowJoin,
)
from headgate.planning.rules import optimize

TABLES = """
CREATE TABLE packets (ts TIMESTAMP, src TEXT, dst TEXT, bytes INT, info STRUCT(port INT, "end" INT));
INSERT INTO packets
  SELECT TIMESTAMP '2020-01-01', chr(65 + (i % 3)::INT), chr(64 + (i % 4)::INT), i, {'port': i % 2, 'end': 7}
  FROM range(6) AS r(i);
CREATE TABLE flows (seen TIMESTAMP, src TEXT, flow INT);
INSERT INTO flows SELECT TIMESTAMP '2020-01-01', chr(65 + i::INT), i * 2 FROM range(4) AS r(i);
CREATE TABLE hosts (ip TEXT, owner TEXT);
INSERT INTO hosts VALUES ('A', 'x'), ('B', 'y'), ('B', 'A');
CREATE TABLE owners (owner TEXT, country TEXT);
INSERT INTO owners VALUES ('x', 'A'), ('A', 'B');
"""


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        yield connection


def rows(database: duckdb.DuckDBPyConnection, sql: str) -> Counter[str]:
    return Counter(map(repr, database.execute(sql).fetchall()))


def without_windows(select: str) -> str:
    return re.sub(r"\[(ROWS|RANGE|PARTITION|NOW)[^]]*]", "", select)


def sql_of(plan: LogicalPlan) -> str:
    return " UNION ALL ".join(map(node_sql, plan.branches)).replace("`", '"')


def node_sql(node: Node) -> str:
    if isinstance(node, (StreamScan, RelationScan)):
        columns = [f"{name} AS {node.alias}__{name}" for name in node.columns]
        return f"SELECT {', '.join(columns) or f'1 AS only_{node.alias}'} FROM {node.name}"
    if isinstance(node, Project):
        items = ", ".join(f"{item.expression} AS {item.name}" for item in node.items)
        return f"SELECT {items} FROM ({node_sql(node.input)})"
    if isinstance(node, Aggregate):
        keys = [f"{key.expression} AS {key.name}" for key in node.keys]
        calls = [f"{call} AS {call.name}" for call in node.aggregates]
        grouped = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        return f"SELECT {', '.join(keys + calls)} FROM ({node_sql(node.input)}){grouped}"
    return joined_sql(node)


def joined_sql(node: Filter | WindowJoin | RelationJoin) -> str:
    inputs = " CROSS JOIN ".join(f"({node_sql(source)}) AS i{i}" for i, source in enumerate(node.inputs))
    conditions = " AND ".join(predicate.text for predicate in node.predicates) or "TRUE"
    return f"SELECT * FROM {inputs} WHERE {conditions}"


def check(database: duckdb.DuckDBPyConnection, select: str) -> None:
    expected = rows(database, without_windows(select))
    plan = bound_select(select)
    assert rows(database, sql_of(plan)) == expected
    assert rows(database, sql_of(optimize(plan))) == expected


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(select=plain_selects())
def test_plans_of_plain_queries_give_the_rows_of_the_query(
    database: duckdb.DuckDBPyConnection, select: str
) -> None:
    check(database, select)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(select=aggregate_selects())
def test_plans_of_aggregates_give_the_rows_of_the_query_or_both_are_refused(
    database: duckdb.DuckDBPyConnection, select: str
) -> None:
    try:
        database.execute(f"PREPARE p AS {without_windows(select)}")
    except duckdb.ParserException:
        return
    except duckdb.BinderException as error:
        # types are the engine's affair, keys are ours
        if "must appear in the GROUP BY" in str(error):
            with pytest.raises(QueryError, match="must be in GROUP BY or inside an aggregate"):
                bound_select(select)
        return
    check(database, select)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT src, dst, bytes, info FROM packets WHERE bytes > 1 OR src = 'A'",
        "SELECT h.*, o.*, bytes FROM packets p, hosts h, owners o WHERE src = ip",
        "SELECT bytes % 2 AS b, COUNT(*) AS n FROM packets GROUP BY b HAVING n > 1 AND b = 1",
        "SELECT CASE WHEN bytes > 2 THEN 'big' END AS size, SUM(bytes) / COUNT(*) FROM packets GROUP BY size",
        "SELECT 1 + bytes / 2 * 3 AS x, max(dst) FROM packets GROUP BY bytes / 2",
        "SELECT src FROM packets WHERE bytes > 3 UNION ALL SELECT f.src FROM flows f, hosts WHERE ip = src",
        "SELECT COUNT(*) FROM flows JOIN hosts ON src = ip JOIN owners ON ip < country GROUP BY country",
        "SELECT info.port + p.info.port AS x FROM packets p GROUP BY p.info.port",
    ],
)
def test_queries_as_users_write_them_give_their_rows(
    database: duckdb.DuckDBPyConnection, select: str
) -> None:
    check(database, select)
