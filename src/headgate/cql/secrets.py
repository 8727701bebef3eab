"""Options that are no one else's business, and texts of statements without them."""

from __future__ import annotations

import re

from headgate.cql.tokens import Cursor, Token
from headgate.errors import QueryError

HIDDEN = "***"
_KEY = re.compile(r"secret|passw|token|credential|access.?key|jaas", re.IGNORECASE)
_INSIDE = re.compile(r"passw\w*=|://[^/@\s]*@", re.IGNORECASE)


def is_secret(key: str, value: str) -> bool:
    """Whether an option is a password, or has one inside."""
    return bool(_KEY.search(key) or _INSIDE.search(value))


def without_secrets(text: str) -> str:
    """The text with stars in place of secret options; of a text that cannot be read, nothing is shown."""
    try:
        cursor = Cursor(text, "sql")
    except QueryError:
        return HIDDEN
    hidden: list[Token] = []
    while cursor.current is not None:
        if cursor.take().word == "OPTIONS" and cursor.accept("("):
            hidden += _secret_values(text, cursor)
    for token in reversed(hidden):
        text = f"{text[: token.span.start]}'{HIDDEN}'{text[token.span.end :]}"
    return text


def _secret_values(text: str, cursor: Cursor) -> list[Token]:
    found: list[Token] = []
    option: list[Token] = []
    while cursor.current is not None:
        token = cursor.take()
        if token.word not in (",", ")"):
            option.append(token)
            continue
        if option:
            value = option[-1]
            key = text[option[0].span.start : value.span.start]
            found += [value] if is_secret(key, value.value) else []
        option = []
        if token.word == ")":
            break
    return found
