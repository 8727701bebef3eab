"""SELECT: items, sources with windows, conditions, grouping."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.cql.clauses import at_clause, refuse_clause
from headgate.cql.conditions import conjuncts
from headgate.cql.expressions import scalar, scalar_without_aggregates
from headgate.cql.spark_sql import alias_offset, parse_tree
from headgate.cql.statement import FromItem, Name, ScalarExpression, Select, SelectItem, Star
from headgate.cql.tokens import Cursor, Token, span_of
from headgate.cql.windows import parse_window
from headgate.cql.wording import one_line
from headgate.errors import QueryError, Span


def parse_select(cursor: Cursor) -> Select:
    """Read one SELECT, up to what follows its last clause."""
    _refuse_other_queries(cursor)
    first = cursor.expect("SELECT").span
    items = _items(cursor)
    cursor.expect("FROM", " and the streams to select from")
    sources, conditions = _from(cursor)
    if cursor.accept("WHERE"):
        conditions += conjuncts(_expression(cursor, "a condition after WHERE"), "WHERE")
    group_by = _group_by(cursor)
    having = _having(cursor, group_by, items)
    refuse_clause(cursor)
    return Select(items, sources, tuple(conditions), group_by, having, cursor.since(first))


def _refuse_other_queries(cursor: Cursor) -> None:
    if cursor.at("WITH"):
        raise cursor.fail("WITH before SELECT is not supported; name the streams in FROM")
    if cursor.at("(") and cursor.word(1) == "SELECT":
        raise cursor.fail("a SELECT in parentheses is not supported; leave the parentheses out")


def _expression(cursor: Cursor, what: str) -> list[Token]:
    tokens = cursor.stretch(at_clause)
    if not tokens:
        raise cursor.expected(what)
    return tokens


def _items(cursor: Cursor) -> tuple[SelectItem | Star, ...]:
    if cursor.at("DISTINCT"):
        raise cursor.fail("SELECT DISTINCT is not supported; GROUP BY the columns instead")
    cursor.accept("ALL")
    items = [_item(cursor)]
    while cursor.accept(","):
        items.append(_item(cursor))
    return tuple(items)


def _item(cursor: Cursor) -> SelectItem | Star:
    tokens = _expression(cursor, "an expression in SELECT")
    if len(tokens) == 1 and tokens[0].word == "*":
        return Star(None, tokens[0].span)
    if len(tokens) == 3 and tokens[0].is_name and [token.word for token in tokens[1:]] == [".", "*"]:
        return Star(_name(tokens[0]), span_of(tokens))
    expression, alias = _split_alias(tokens)
    return SelectItem(scalar(expression), alias)


def _name(token: Token) -> Name:
    return Name(token.value, token.span)


def _split_alias(tokens: Sequence[Token]) -> tuple[Sequence[Token], Name | None]:
    if tokens[-1].word == "AS":
        raise QueryError("expected a name after AS; write AS name", tokens[-1].span)
    if len(tokens) > 2 and tokens[-2].word == "AS":
        if not tokens[-1].is_name:
            raise QueryError(f"{tokens[-1].shown} is no name; write AS name or AS `name`", tokens[-1].span)
        return tokens[:-2], _name(tokens[-1])
    if len(tokens) > 1 and tokens[-1].is_name and _is_implicit_alias(tokens):
        return tokens[:-1], _name(tokens[-1])
    return tokens, None


def _is_implicit_alias(tokens: Sequence[Token]) -> bool:
    # only a parser can tell "a b" from "INTERVAL 5 DAYS"
    try:
        return alias_offset(parse_tree(tokens, allow_alias=True)) == tokens[-1].span.start
    except QueryError:
        # the expression without alias shall report this, after the checks with better messages
        return False


def _from(cursor: Cursor) -> tuple[tuple[FromItem, ...], list[ScalarExpression]]:
    sources = [_from_item(cursor)]
    conditions: list[ScalarExpression] = []
    while True:
        if cursor.accept(","):
            sources.append(_from_item(cursor))
        elif cursor.accept("JOIN") or cursor.accept("INNER", "JOIN"):
            sources.append(_from_item(cursor))
            conditions += _on(cursor)
        else:
            refuse_clause(cursor)
            _refuse_duplicates(sources)
            return tuple(sources), conditions


def _on(cursor: Cursor) -> list[ScalarExpression]:
    if cursor.at("USING"):
        raise cursor.fail("USING is not supported; write ON a.key = b.key")
    refuse_clause(cursor)
    cursor.expect("ON", " and a condition after JOIN")
    return conjuncts(_expression(cursor, "a condition after ON"), "ON")


def _refuse_duplicates(sources: Sequence[FromItem]) -> None:
    aliases: set[str] = set()
    for source in sources:
        alias = source.alias.text.lower()
        if alias in aliases:
            message = f"{one_line(source.alias.text)} is in FROM twice; give each an alias of its own with AS"
            raise QueryError(message, source.alias.span)
        aliases.add(alias)


def _from_item(cursor: Cursor) -> FromItem:
    if cursor.at("("):
        raise cursor.fail("a subquery in FROM is not supported; name its streams in FROM")
    source = cursor.name("a stream or relation in FROM")
    if cursor.at("."):
        raise cursor.fail("names of streams have no dots; write one name, or put it into backquotes")
    if cursor.at("("):
        raise cursor.fail("a function in FROM is not supported; name a stream or relation")
    window = parse_window(cursor) if cursor.at("[") else None
    alias = _alias(cursor) or source
    if window is None and cursor.at("["):
        window = parse_window(cursor)
    if cursor.at("["):
        raise cursor.fail("a stream has one window; leave the second out")
    return FromItem(source, window, alias)


def _alias(cursor: Cursor) -> Name | None:
    if cursor.accept("AS"):
        return cursor.name("an alias after AS")
    token = cursor.current
    if token is None or not token.is_name or at_clause(cursor):
        return None
    return cursor.name("an alias")


def _group_by(cursor: Cursor) -> tuple[ScalarExpression, ...]:
    if not cursor.accept("GROUP BY"):
        return ()
    expressions = [_group(cursor)]
    while cursor.accept(","):
        expressions.append(_group(cursor))
    return tuple(expressions)


def _group(cursor: Cursor) -> ScalarExpression:
    if cursor.word() in ("ROLLUP", "CUBE", "GROUPING SETS") and cursor.word(1) == "(":
        raise cursor.fail(f"{cursor.word()} is not supported; write one query for each grouping")
    tokens = _expression(cursor, "an expression after GROUP BY")
    if len(tokens) == 1 and tokens[0].word == "ALL":
        raise QueryError("GROUP BY ALL is not supported; name the columns to group by", tokens[0].span)
    return scalar_without_aggregates(tokens, "GROUP BY")


def _having(
    cursor: Cursor, group_by: tuple[ScalarExpression, ...], items: tuple[SelectItem | Star, ...]
) -> ScalarExpression | None:
    if not cursor.at("HAVING"):
        return None
    word: Span = cursor.take().span
    having = scalar(_expression(cursor, "a condition after HAVING"))
    selected = [item.expression for item in items if isinstance(item, SelectItem)]
    if not group_by and not any(expression.aggregates for expression in [having, *selected]):
        raise QueryError("HAVING without GROUP BY or an aggregate; write the condition in WHERE", word)
    return having
