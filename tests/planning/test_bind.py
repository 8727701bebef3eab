from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.planning.support import bound, bound_select, catalog_of

from headgate.cql.parser import parse
from headgate.cql.statement import CreateQuery
from headgate.cql.syntax import ScalarExpression
from headgate.errors import QueryError, Span
from headgate.model.expression import Expression, NamedExpression
from headgate.model.network import SinkDefinition
from headgate.planning.grouping import over_keys
from headgate.planning.logical import Aggregate, LogicalPlan, RelationJoin
from headgate.planning.queries import bind


def parsed_query(text: str) -> CreateQuery:
    [query] = parse(text, "case")
    assert isinstance(query, CreateQuery)
    return query


def grouped_by(select: str, *keys: str) -> LogicalPlan:
    """The plan of a SELECT with these keys, whatever the parser thinks of them."""
    query = parsed_query(f"CREATE QUERY q AS {select}")
    group_by = tuple(
        ScalarExpression(key, Span(key, 0, len(key)), Expression.parse(key).tree, ()) for key in keys
    )
    branch = replace(query.branches[0], group_by=group_by)
    return bind(replace(query, branches=(branch,)), catalog_of())


def over(text: str, *keys: str) -> str:
    """The expression over columns of group keys."""
    named = [NamedExpression(f"k{number}", Expression.parse(key)) for number, key in enumerate(keys)]
    return Expression(over_keys(Expression.parse(text).tree, named)).text


def test_group_by_counts_select_items_from_one() -> None:
    plan = grouped_by("SELECT lower(src) AS s, COUNT(*) AS n, dst FROM packets", "3", "1")
    aggregate = plan.branches[0].input
    assert isinstance(aggregate, Aggregate)
    assert [key.expression.text for key in aggregate.keys] == ["`packets__dst`", "lower(`packets__src`)"]
    assert [item.expression.text for item in plan.branches[0].items] == ["`k1`", "`a0`", "`k0`"]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("0", "GROUP BY 0: the select list has items 1 to 2"),
        ("3", "GROUP BY 3: the select list has items 1 to 2"),
        ("2", r"COUNT\(\*\) is an aggregate, which GROUP BY cannot use"),
    ],
)
def test_group_by_a_number_that_is_no_key_is_refused(key: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        grouped_by("SELECT src, COUNT(*) AS n FROM packets", key)


def test_group_by_the_number_of_a_star_is_refused() -> None:
    with pytest.raises(QueryError, match=r"GROUP BY 1 is a \*; name the column"):
        grouped_by("SELECT * FROM packets", "1")


def test_settings_and_sink_are_kept_with_units() -> None:
    text = """CREATE QUERY q WITH (latency = '500 ms', memory = '1 KB', overload = 'SHED', quality = 'false')
      AS SELECT src FROM packets INTO parquet OPTIONS (Path 'x', maxRecordsPerFile 5)"""
    [plan] = bound(text)
    query = plan.query
    assert (query.latency_s, query.memory_bytes, query.overload) == (0.5, 1024, "shed")
    assert query.sink == SinkDefinition("parquet", (("path", "x"), ("maxRecordsPerFile", "5")))


def test_a_query_without_into_keeps_its_results_in_memory() -> None:
    plan = bound_select("SELECT src FROM packets")
    query = plan.query
    assert query.sink == SinkDefinition("memory")
    assert (query.latency_s, query.memory_bytes, query.overload) == (None, None, "backpressure")


def test_expressions_point_at_what_the_user_wrote() -> None:
    plan = bound_select("SELECT p.src, bytes  +  1 AS b FROM packets p")
    assert [item.expression.span.excerpt for item in plan.branches[0].items if item.expression.span] == [
        "p.src",
        "bytes  +  1",
    ]


def test_a_plan_is_json() -> None:
    plan = bound_select("SELECT src, COUNT(*) AS n FROM packets WHERE bytes > 1 GROUP BY src")
    described = json.loads(json.dumps(plan.to_json()))
    assert described["query"] == "q"
    aggregate = described["branches"][0]["inputs"][0]
    assert aggregate["does"] == "aggregate COUNT(*) AS a0 BY `packets__src` AS k0"
    assert aggregate["inputs"][0]["does"] == "filter `packets__bytes` > 1"


def test_the_layout_of_a_query_changes_nothing_but_spans() -> None:
    tidy = bound_select("SELECT p.src, bytes + 1 AS b FROM packets p WHERE lower(dst) = 'x  y'")
    messy = bound_select(
        "SELECT p . src,bytes   +\n\t1 AS b FROM packets p WHERE lower(dst)/**/ = 'x  y' -- end\n"
    )
    assert str(tidy) == str(messy)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a + b > 5", "a + b"),
        ("a + b - c", "a + b"),
        ("x OR a = 1 AND b", "a = 1 AND b"),
        ("NOT a = 1", "a = 1"),
        ("x[a + b]", "a + b"),
        ("x BETWEEN a + b AND 9", "a + b"),
        ("-f(a)", "f(a)"),
        ("1 + -a", "-a"),
        ("2 * - -a", "-a"),
        ("f(a).g", "f(a)"),
        ("f(a)::INT", "f(a)"),
        ("1 - CASE WHEN a OR b THEN 1 END", "CASE WHEN a OR b THEN 1 END"),
        ("p.end * 2 + 1", "p.end * 2"),
    ],
)
def test_a_key_is_found_where_it_is_an_operand(text: str, key: str) -> None:
    assert "`k0`" in over(text, key)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a + b * c", "a + b"),
        ("c - a + b", "a + b"),
        ("c * a / b", "a / b"),
        ("-a % b", "a % b"),
        ("NOT a OR b", "a OR b"),
        ("a + b::INT", "a + b"),
        ("a + b[0]", "a + b"),
        ("x.a", "a"),
        ("a & b << c", "a & b"),
        ("x = a IS NULL", "a IS NULL"),
        ("p.end + 1 * 2", "p.end + 1"),
        ("'a + b'", "a + b"),
    ],
)
def test_a_key_is_not_found_where_others_bind_tighter(text: str, key: str) -> None:
    assert "`k0`" not in over(text, key)


def test_the_longest_key_is_taken() -> None:
    assert over("f(a + b) + a + b", "a", "f(a + b)", "a + b") == "`k1` + `k0` + b"


def test_a_full_join_of_stored_relations_comes_before_the_value_of_a_subquery_in_where() -> None:
    """Rows without a match would lack the value otherwise; conditions of a LEFT JOIN may read it."""

    def joins(join: str) -> list[tuple[str, str]]:
        where = "WHERE a.ip > (SELECT MAX(owner) FROM owners)"
        select = f"SELECT a.ip FROM hosts a {join} owners b ON a.owner = b.owner {where}"
        plan = bound_select(f"SELECT p.src FROM packets p LEFT JOIN ({select}) AS h ON h.ip = p.src")
        below = plan.branches[0].input
        assert isinstance(below, RelationJoin) and below.relation.computed is not None
        return [(side.alias, side.join) for side in below.relation.computed.selects[0].sides]

    assert joins("FULL JOIN") == [("a", "JOIN"), ("b", "FULL JOIN"), ("scalar", "JOIN")]
    assert joins("LEFT JOIN") == [("a", "JOIN"), ("scalar", "JOIN"), ("b", "LEFT JOIN")]
