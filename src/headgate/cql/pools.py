"""``CREATE FUNCTION``, ``CREATE POOL``, ``ALTER POOL`` and ``PLACE``."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from headgate.cql.statement import AlterPool, CreateFunction, CreatePool, Place, PlaceProbe
from headgate.cql.tokens import Cursor, new_name, span_of
from headgate.errors import QueryError, Span


def create_function(cursor: Cursor, first: Span) -> CreateFunction:
    """Read on behind CREATE FUNCTION."""
    name = new_name(cursor, "function")
    cursor.expect("AS", " and where the function is, such as 'scores.py:score'")
    token = cursor.current
    if token is None or not token.is_string:
        raise cursor.expected("where the function is, such as 'scores.py:score'")
    location = cursor.take().value
    path, colon, attribute = location.rpartition(":")
    if not path or not colon or not attribute.isidentifier():
        message = f"{token.shown} names no function; write 'file.py:function' or 'package.module:function'"
        raise QueryError(message, token.span)
    cursor.expect("RETURNS", " and the type of its results, such as BOOLEAN")
    words = cursor.stretch(lambda _: False)
    if not words:
        raise cursor.expected("the type of its results, such as BOOLEAN")
    return CreateFunction(name, location, token.span, span_of(words).excerpt, cursor.since(first))


def create_pool(cursor: Cursor, first: Span) -> CreatePool:
    """Read on behind CREATE POOL."""
    name = new_name(cursor, "pool")
    return CreatePool(name, _slots(cursor), cursor.since(first))


def alter_pool(cursor: Cursor, first: Span) -> AlterPool:
    """Read on behind ALTER POOL."""
    name = cursor.name("the name of a pool")
    return AlterPool(name, _slots(cursor), cursor.since(first))


def place(cursor: Cursor, first: Span) -> Place | PlaceProbe:
    """Read on behind PLACE."""
    if cursor.accept("PROBE", "OF"):
        stream = cursor.name("the name of a stream")
        cursor.expect("ON", " and the name of a pool")
        return PlaceProbe(stream, cursor.name("the name of a pool"), cursor.since(first))
    function = cursor.name("the name of a function or PROBE OF and that of a stream")
    cursor.expect("ON", " and the name of a pool")
    return Place(function, cursor.name("the name of a pool"), cursor.since(first))


def _slots(cursor: Cursor) -> int:
    cursor.expect("SLOTS", " and how many, as in SLOTS 4")
    token = cursor.current
    if token is None or token.kind is not TokenType.NUMBER or not token.value.isdigit():
        raise cursor.expected("a whole number of slots, as in SLOTS 4")
    cursor.take()
    if int(token.value) == 0:
        raise QueryError("a pool without slots serves nobody; write SLOTS 1 or more", token.span)
    return int(token.value)
