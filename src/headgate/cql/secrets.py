"""Options that are no one else's business, and texts of statements without them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from headgate.cql.tokens import Cursor, Token, span_of
from headgate.errors import QueryError, Span

HIDDEN = "***"
_KEY = re.compile(r"secret|passw|token|credential|access.?key|jaas", re.IGNORECASE)
_INSIDE = re.compile(r"passw\w*=|://[^/@\s]*@", re.IGNORECASE)


def is_secret(key: str, value: str) -> bool:
    """Whether an option is a password, or has one inside."""
    return bool(_KEY.search(key) or _INSIDE.search(value))


def without_secrets(text: str) -> str:
    """The text with stars in place of secret options; of a text that cannot be read, nothing is shown."""
    try:
        hidden = list(_secrets(Cursor(text, "sql")))
    except QueryError:
        return HIDDEN
    for span in reversed(hidden):
        text = f"{text[: span.start]}'{HIDDEN}'{text[span.end :]}"
    return text


def _secrets(cursor: Cursor) -> Iterator[Span]:
    while cursor.current is not None:
        word = cursor.take().word
        if word == "OPTIONS" and cursor.accept("("):
            yield from _secret_values(cursor)
        elif word in ("FROM", "INTO"):
            yield from _secret_path(cursor)


def _secret_path(cursor: Cursor) -> Iterator[Span]:
    """The text behind the format of a source or sink, which is its option path."""
    _taken_name(cursor)
    path: list[Token] = []
    while (token := cursor.current) is not None and token.is_string:
        path.append(cursor.take())
    yield from _secret("path", path)


def _secret_values(cursor: Cursor) -> Iterator[Span]:
    """The values of ``key value, key = value)`` that are secrets; a doubled quote makes two tokens of one."""
    while cursor.current is not None:
        key = _taken_name(cursor)
        if not cursor.accept("="):
            cursor.accept("==")
        yield from _secret(key, cursor.stretch())
        if cursor.accept(")"):
            break
        if cursor.current is not None:
            cursor.expect(",")


def _taken_name(cursor: Cursor) -> str:
    """The parts of a name, with dots between them."""
    parts: list[str] = []
    while (token := cursor.current) is not None and token.word not in (",", ")"):
        parts.append(cursor.take().value)
        if not cursor.accept("."):
            break
    return ".".join(parts)


def _secret(key: str, value: Sequence[Token]) -> Iterator[Span]:
    if value and is_secret(key, "".join(token.value for token in value)):
        yield span_of(value)
