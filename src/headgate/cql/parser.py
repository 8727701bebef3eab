"""CQL text to statements: CREATE STREAM, RELATION, QUERY, FUNCTION and POOL, ALTER POOL, PLACE."""

from __future__ import annotations

from collections.abc import Callable

from headgate.cql.columns import parse_columns
from headgate.cql.pools import alter_pool, create_function, create_pool, place
from headgate.cql.select import parse_select
from headgate.cql.settings import parse_settings
from headgate.cql.statement import (
    CreateQuery,
    CreateRelation,
    CreateStream,
    Name,
    Select,
    SinkClause,
    Statement,
)
from headgate.cql.tokens import Cursor, new_name, tokenise
from headgate.errors import QueryError, Span


def parse(text: str, origin: str = "<cql>") -> list[Statement]:
    """Read all statements of a text; ``origin`` (a file name, say) goes into error messages."""
    cursor = tokenise(text, origin)
    statements: list[Statement] = []
    while cursor.current is not None:
        if cursor.accept(";"):
            continue
        statements.append(_statement(cursor))
        if not cursor.at_end:
            raise cursor.expected("';' at the end of the statement")
    if not statements:
        raise cursor.fail("there is no statement here; write CREATE STREAM, CREATE RELATION or CREATE QUERY")
    return statements


def _statement(cursor: Cursor) -> Statement:
    if cursor.at("PLACE"):
        return place(cursor, cursor.take().span)
    read = _STATEMENTS.get((cursor.word(0), cursor.word(1)))
    if read is None:
        raise _unknown_statement(cursor)
    first = cursor.take().span
    cursor.take()
    return read(cursor, first)


def _unknown_statement(cursor: Cursor) -> QueryError:
    wanted = "CREATE STREAM, CREATE RELATION or CREATE QUERY"
    if cursor.at("CREATE"):
        cursor.take()
        if cursor.at_end:
            return cursor.expected(wanted)
        found = cursor.current.shown if cursor.current else ""
        return cursor.fail(f"expected {wanted}, found CREATE {found}")
    if cursor.at("ALTER"):
        return cursor.fail("only pools can be altered; write ALTER POOL name SLOTS n")
    if cursor.at("SELECT"):
        return cursor.fail(f"expected {wanted}, found 'SELECT'; write CREATE QUERY name AS SELECT ...")
    return cursor.expected(wanted)


def _create_stream(cursor: Cursor, first: Span) -> CreateStream:
    name = new_name(cursor, "stream")
    columns = parse_columns(cursor)
    source_format = _format(cursor, "FROM")
    options = parse_settings(cursor, "OPTIONS")
    return CreateStream(name, columns, source_format, options, cursor.since(first))


def _create_relation(cursor: Cursor, first: Span) -> CreateRelation:
    name = new_name(cursor, "relation")
    columns = parse_columns(cursor)
    source_format = _format(cursor, "FROM")
    options = parse_settings(cursor, "OPTIONS")
    return CreateRelation(name, columns, source_format, options, cursor.since(first))


def _create_query(cursor: Cursor, first: Span) -> CreateQuery:
    name = new_name(cursor, "query")
    settings = parse_settings(cursor, "WITH")
    cursor.expect("AS", " and a SELECT")
    branches = _branches(cursor)
    sink = _sink(cursor)
    return CreateQuery(name, settings, branches, sink, cursor.since(first))


def _format(cursor: Cursor, clause: str) -> Name:
    cursor.expect(clause, " and a format, such as kafka or parquet")
    first = cursor.name(f"a format after {clause}, such as kafka or parquet")
    text = first.text
    # a format can be the class name of a data source
    while cursor.accept("."):
        text += f".{cursor.name('the rest of the format').text}"
    return Name(text, cursor.since(first.span))


def _branches(cursor: Cursor) -> tuple[Select, ...]:
    branches = [parse_select(cursor)]
    while cursor.at("UNION"):
        if cursor.word(1) != "ALL":
            raise cursor.fail("UNION would have to drop duplicates for ever; write UNION ALL")
        cursor.accept("UNION", "ALL")
        branches.append(parse_select(cursor))
    if not cursor.at_end and not cursor.at("INTO"):
        raise cursor.expected(f"{_possible_clauses(branches[-1])}, UNION ALL, INTO or ';'")
    return tuple(branches)


def _possible_clauses(select: Select) -> str:
    """The clauses that could still have followed this SELECT."""
    if select.having:
        return "AND"
    if select.group_by:
        return "',', HAVING"
    return "AND, GROUP BY" if select.conjuncts else "',', JOIN, WHERE, GROUP BY"


def _sink(cursor: Cursor) -> SinkClause | None:
    if not cursor.at("INTO"):
        return None
    token = cursor.current
    sink_format = _format(cursor, "INTO")
    options = parse_settings(cursor, "OPTIONS")
    return SinkClause(sink_format, options, cursor.since(token.span if token else sink_format.span))


_STATEMENTS: dict[tuple[str, str], Callable[[Cursor, Span], Statement]] = {
    ("CREATE", "STREAM"): _create_stream,
    ("CREATE", "RELATION"): _create_relation,
    ("CREATE", "QUERY"): _create_query,
    ("CREATE", "FUNCTION"): create_function,
    ("CREATE", "POOL"): create_pool,
    ("ALTER", "POOL"): alter_pool,
}
