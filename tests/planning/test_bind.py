from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.planning.support import bound, bound_select, catalog_of

from headgate.cql import CreateQuery, ScalarExpression, parse
from headgate.errors import QueryError, Span
from headgate.model.network import SinkDefinition
from headgate.planning.bind import bind
from headgate.planning.logical import Aggregate, LogicalPlan
from headgate.planning.matching import find_keys
from headgate.planning.text import on_one_line, signature


def parsed_query(text: str) -> CreateQuery:
    [query] = parse(text, "case")
    assert isinstance(query, CreateQuery)
    return query


def grouped_by(select: str, *keys: str) -> LogicalPlan:
    """The plan of a SELECT with these keys, whatever the parser thinks of them."""
    query = parsed_query(f"CREATE QUERY q AS {select}")
    group_by = tuple(ScalarExpression(key, Span(key, 0, len(key)), ()) for key in keys)
    branch = replace(query.branches[0], group_by=group_by)
    return bind(replace(query, branches=(branch,)), catalog_of())


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


def test_an_alias_twice_is_refused() -> None:
    query = parsed_query("CREATE QUERY q AS SELECT 1 AS x FROM packets [NOW] AS p, flows [NOW] AS f")
    branch = query.branches[0]
    first, second = branch.sources
    twice = replace(branch, sources=(first, replace(second, alias=first.alias)))
    with pytest.raises(QueryError, match="p is in FROM twice; write flows AS another_name"):
        bind(replace(query, branches=(twice,)), catalog_of())


def test_settings_and_sink_are_kept_with_units() -> None:
    text = """CREATE QUERY q WITH (latency = '500 ms', memory = '1 KB', overload = 'SHED', quality = 'false')
      AS SELECT src FROM packets INTO parquet OPTIONS (Path 'x', maxRecordsPerFile 5)"""
    [plan] = bound(text)
    assert (plan.latency_s, plan.memory_bytes, plan.overload) == (0.5, 1024, "shed")
    assert plan.sink == SinkDefinition("parquet", (("Path", "x"), ("maxRecordsPerFile", "5")))


def test_a_query_without_into_keeps_its_results_in_memory() -> None:
    plan = bound_select("SELECT src FROM packets")
    assert plan.sink == SinkDefinition("memory")
    assert (plan.latency_s, plan.memory_bytes, plan.overload) == (None, None, "backpressure")


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
    ("left", "right"),
    [("a+ b", "A +b"), ("f( `A` )", "F(`a`)"), ("a -- x\n + /* y */ b", "a + b")],
)
def test_spellings_of_one_expression_are_equal(left: str, right: str) -> None:
    assert signature(left) == signature(right)


@pytest.mark.parametrize(
    ("left", "right"), [("'a'", "'A'"), ("'a b'", "'a  b'"), ("a b", "ab"), ("1.0", "10"), (r"r'\'", r"'\''")]
)
def test_different_expressions_are_not_equal(left: str, right: str) -> None:
    assert signature(left) != signature(right)


def test_blanks_inside_of_strings_and_names_stay() -> None:
    assert on_one_line(" `a  b`\n=   'c  \\'  d' ") == "`a  b` = 'c  \\'  d'"


def test_literals_that_span_lines_are_escaped() -> None:
    assert on_one_line("x = 'a\nb\tc\x1bd'") == r"x = 'a\nb\tc\u001bd'"
    # behind a backslash a newline stands for itself; in a raw string the backslash does
    assert on_one_line("'a\\\nb'") == r"'a\nb'"
    assert on_one_line("r'a\\d\nb'") == r"'a\\d\nb'"


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
        ("CAST(a AT TIME ZONE 'x' AS DATE)", "a AT TIME ZONE 'x'"),
        ("p.end * 2 + 1", "p.end * 2"),
    ],
)
def test_a_key_is_found_where_it_is_an_operand(text: str, key: str) -> None:
    [match] = find_keys(text, [key])
    assert text[match.start : match.end] == key


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
        ("x || a AT TIME ZONE 'x'", "a AT TIME ZONE 'x'"),
        ("p.end + 1 * 2", "p.end + 1"),
        ("'a + b'", "a + b"),
    ],
)
def test_a_key_is_not_found_where_others_bind_tighter(text: str, key: str) -> None:
    assert find_keys(text, [key]) == []


def test_the_longest_key_is_taken() -> None:
    matches = find_keys("f(a + b) + a + b", ["a", "f(a + b)", "a + b"])
    assert [(match.start, match.end, match.key) for match in matches] == [(0, 8, 1), (11, 12, 0)]
