"""What holds for every text: statements or a QueryError, and spans that point at what they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.cql.parser import parse
from headgate.cql.statement import CreateQuery, Statement
from headgate.cql.syntax import AggregateCall, ColumnReference, ScalarExpression, Select, SelectItem
from headgate.cql.tokens import Token, partners
from headgate.errors import QueryError

CASE_TEXTS = [
    entry.partition("\n")[2].partition("\n----\n")[0]
    for path in sorted((Path(__file__).parent / "cases").glob("*.txt"))
    for entry in path.read_text(encoding="utf-8").split("==== ")[1:]
]

FRAGMENTS = [
    *"()[],;.*-'\"`<>=?:{}\\",
    *("--", "/*", "*/", "->", "::", "''", " ", "\n", "\0", "é", "\u2028"),
    *("SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "BETWEEN", "CASE", "WHEN", "END", "GROUP BY", "HAVING"),
    *(
        "UNION ALL",
        "INTO",
        "JOIN",
        "ON",
        "AS",
        "LEFT",
        "DISTINCT",
        "COUNT(",
        "SUM(x)",
        "OVER",
        "FILTER",
        "CAST(",
    ),
    *("[ROWS 5]", "[RANGE 1 s", "SLIDE", "PARTITION BY", "INTERVAL", "OPTIONS", "WITH", "CREATE QUERY q AS"),
    *(
        "1",
        "1.5",
        "10L",
        "x -> x",
        "CREATE STREAM s",
        "OR REPLACE",
        "DROP",
        "EXISTS",
        "SET x =",
        "DEFAULT",
        "DESCRIBE",
        "STREAMS",
        "LIMIT 1",
        "SHOW",
        "BEGIN",
        "IF",
        "ANY",
        "STRUCT<",
        "r'",
    ),
]


def expressions(select: Select) -> Iterator[ScalarExpression]:
    """All expressions of a branch, the arguments of aggregates included."""
    pending = [item.expression for item in select.items if isinstance(item, SelectItem)]
    pending += [*select.conjuncts, *select.group_by, *([select.having] if select.having else [])]
    while pending:
        expression = pending.pop()
        yield expression
        pending += [argument for call in expression.aggregates for argument in call.arguments]


def check_spans(text: str, statements: list[Statement]) -> None:
    """Every text, column and aggregate must stand where its span says."""
    for statement in statements:
        branches = statement.branches if isinstance(statement, CreateQuery) else ()
        for branch in branches:
            # columns of what expressions add to FROM stand where it is written
            added = {source.alias.text for source in branch.sources if source.is_added}
            for expression in expressions(branch):
                assert expression.text == text[expression.span.start : expression.span.end]
                parts: list[ColumnReference | AggregateCall] = [*expression.columns, *expression.aggregates]
                for part in parts:
                    assert expression.span.start <= part.span.start < part.span.end <= expression.span.end
                    if not (isinstance(part, ColumnReference) and part.qualifier in added):
                        check_part(part)
                starts = [column.span.start for column in expression.columns]
                assert starts == sorted(set(starts))


def check_part(part: ColumnReference | AggregateCall) -> None:
    """A column's span begins and ends with its names, an aggregate's with name and parenthesis."""
    written = part.span.excerpt.replace("``", "`").replace("`", "")
    if isinstance(part, AggregateCall):
        assert written.endswith(")")
    else:
        assert written.startswith((part.qualifier or part.name).replace("`", ""))
        assert written.endswith(part.name.replace("`", ""))


def check_any_text(text: str) -> None:
    """The promise: statements whose spans are right, or a one-line error with a place in the text."""
    try:
        check_spans(text, parse(text))
    except QueryError as error:
        assert error.span is not None
        assert 0 <= error.span.start <= error.span.end <= len(text)
        assert error.span.start < error.span.end or not text.strip()
        assert len(error.message.splitlines()) == 1
        assert error.detailed()


@pytest.mark.parametrize("text", CASE_TEXTS)
def test_spans_of_the_cases_point_at_what_they_name(text: str) -> None:
    check_any_text(text)


@given(st.text())
def test_any_text_gives_statements_or_a_query_error(text: str) -> None:
    check_any_text(text)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=20))
def test_any_tokens_in_a_query_give_statements_or_a_query_error(fragments: list[str]) -> None:
    check_any_text(f"CREATE QUERY q AS SELECT {' '.join(fragments)}")


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_mutated_statements_give_statements_or_a_query_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(CASE_TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        text = text[:start] + data.draw(st.sampled_from(["", *FRAGMENTS])) + text[end:]
    check_any_text(text)


NAMES = st.sampled_from(["a", "bytes", "offset", "value", "`x y`", "`it``s`", "date", "Überfluß"])
COLUMNS = st.one_of(NAMES, st.tuples(NAMES, NAMES).map(".".join)).map(lambda name: f"\N{WHITE SQUARE}{name}")
LITERALS = st.sampled_from(
    ["1", "1.5e3", "'x, y)'", "'it''s'", "NULL", "10L", "DATE '2024-01-01'", "INTERVAL 5 DAYS"]
)
SHAPES = st.sampled_from(
    [
        "({} + {})",
        "f({}, {})",
        "CASE WHEN {} THEN {} END",
        "({} BETWEEN {} AND 3)",
        "({} IN ({}, 1))",
        "transform({}, v -> v.k + {})",
        "CAST({} AS DECIMAL(10, 2)) /* {} */",
        "({}[{}].field)",
        "{}::STRING || {}",
        "DATEADD(HOUR, {}, {})",
        "EXTRACT(DAY FROM {}) -- so\n * {}",
        "named_struct('k', {}, 'l', {})",
    ]
)
MARKED = st.recursive(
    COLUMNS | LITERALS,
    lambda inner: st.tuples(SHAPES, inner, inner).map(lambda parts: parts[0].format(parts[1], parts[2])),
    max_leaves=8,
)


def marked_columns(marked: str) -> list[str]:
    """The columns of a text in which a white square stands before each."""
    names = []
    for piece in _without_comments(marked).split("\N{WHITE SQUARE}")[1:]:
        for stop in (
            " + ",
            ", ",
            ")",
            " THEN",
            " END",
            " BETWEEN",
            " AND",
            " IN",
            " AS ",
            "[",
            "]",
            "::",
            " ||",
            "\n",
        ):
            piece = piece.split(stop)[0]
        names.append(piece.strip())
    return names


def _without_comments(marked: str) -> str:
    while "/*" in marked:
        head, _, tail = marked.partition("/*")
        marked = head + tail.partition("*/")[2]
    return marked


@pytest.mark.slow
@settings(max_examples=300)
@given(MARKED.filter(lambda text: text.count("/*") < 2))
def test_the_columns_of_an_expression_are_those_that_were_put_in(marked: str) -> None:
    text = marked.replace("\N{WHITE SQUARE}", "")
    (statement,) = parse(f"CREATE QUERY q AS SELECT ({text}) AS x FROM s")
    assert isinstance(statement, CreateQuery)
    (item,) = statement.branches[0].items
    assert isinstance(item, SelectItem)
    assert item.expression.text == f"({text})"
    assert [column.span.excerpt for column in item.expression.columns] == marked_columns(marked)


@given(
    st.lists(st.sampled_from(["a = 1", "b BETWEEN 1 AND 2", "(c OR d)", "NOT e", "f IN (1, 2)"]), min_size=1)
)
def test_joined_conditions_are_split_into_what_was_joined(terms: list[str]) -> None:
    (statement,) = parse(f"CREATE QUERY q AS SELECT 1 FROM s WHERE {' AND '.join(terms)}")
    assert isinstance(statement, CreateQuery)
    assert [conjunct.text for conjunct in statement.branches[0].conjuncts] == terms


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 1500 + "a" + ")" * 1500,
        "NOT " * 1500 + "a",
        "f(" * 1500 + "a" + ")" * 1500,
        "SUM(" * 900 + "a" + ")" * 900,
    ],
    ids=["parentheses", "negations", "calls", "aggregates"],
)
def test_deep_nesting_is_refused_and_does_not_exhaust_the_stack(condition: str) -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        parse(f"CREATE QUERY q AS SELECT 1 FROM s WHERE {condition}")


@pytest.mark.parametrize(("opening", "closing"), [("NOT ", ""), ("(", ")")], ids=["negations", "parentheses"])
def test_time_grows_with_the_nesting_and_not_with_its_square(
    opening: str, closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a request may have a million characters, and other statements wait for it
    read: list[int] = []

    def counted(tokens: Sequence[Token]) -> dict[int, int]:
        read.append(len(tokens))
        return partners(tokens)

    monkeypatch.setattr("headgate.cql.subqueries.partners", counted)

    def tokens_read(depth: int) -> int:
        read.clear()
        with pytest.raises(QueryError, match="nested too deeply"):
            parse(f"CREATE QUERY q AS SELECT 1 FROM s WHERE {opening * depth}a{closing * depth}")
        return sum(read)

    assert 500 < tokens_read(500) <= 2 * tokens_read(250)


@pytest.mark.slow
def test_long_chains_are_read() -> None:
    terms = [f"a{number} = 1 + {number}" for number in range(2000)]
    (statement,) = parse(
        f"CREATE QUERY q AS SELECT {' + '.join('ab' for _ in terms)} FROM s WHERE {' AND '.join(terms)}"
    )
    assert isinstance(statement, CreateQuery)
    assert len(statement.branches[0].conjuncts) == len(terms)


def test_the_origin_goes_into_the_error() -> None:
    with pytest.raises(QueryError, match=r"^queries\.cql:2:1: expected CREATE, DROP"):
        parse("\nINSERT", origin="queries.cql")
