"""``OPTIONS (key 'value', ...)`` and ``WITH (key = 'value', ...)``."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from headgate.cql.statement import Name, Setting
from headgate.cql.tokens import Cursor, Token, never_closed
from headgate.cql.wording import one_line
from headgate.errors import QueryError


def parse_settings(cursor: Cursor, clause: str) -> tuple[Setting, ...]:
    """Read the settings after the word of their clause, if the clause is there."""
    if not cursor.accept(clause):
        return ()
    opener = cursor.expect("(", f" after {clause}")
    settings: dict[str, Setting] = {}
    while True:
        setting = _setting(cursor, clause)
        # Spark ignores the case of option keys, so two spellings of one key would be one option
        key = setting.key.text.lower()
        if key in settings:
            message = f"{clause} has {one_line(setting.key.text)} twice; keep one of them"
            raise QueryError(message, setting.key.span)
        settings[key] = setting
        if not cursor.accept(","):
            break
    if cursor.at_end:
        raise never_closed(opener)
    several_words = cursor.previous.kind is TokenType.NUMBER and _is_word(cursor.word())
    hint = " (a value of several words goes into quotes)" if several_words else ""
    cursor.expect(")", f" or ',' in {clause}{hint}")
    return tuple(settings.values())


def _setting(cursor: Cursor, clause: str) -> Setting:
    key = _key(cursor, clause)
    if not cursor.accept("="):
        cursor.accept("==")
    value = _value(cursor, key.text)
    return Setting(key, value, cursor.since(key.span))


def _key(cursor: Cursor, clause: str) -> Name:
    first = _key_part(cursor, clause)
    text = first.value
    while cursor.accept("."):
        text += f".{_key_part(cursor, clause).value}"
    return Name(text, cursor.since(first.span))


def _key_part(cursor: Cursor, clause: str) -> Token:
    token = cursor.current
    if token is None or not (token.is_string or token.kind is TokenType.IDENTIFIER or _is_word(token.word)):
        raise cursor.expected(f"a key in {clause}, such as path 'data/'")
    return cursor.take()


def _is_word(word: str) -> bool:
    # any word may be a key, also one that begins a clause elsewhere
    return word.replace(" ", "_").isidentifier()


def _value(cursor: Cursor, key: str) -> str:
    token = cursor.current
    if token and token.is_string:
        return _string(cursor)
    if token and token.word in ("TRUE", "FALSE"):
        return cursor.take().value.lower()
    first = cursor.take() if cursor.at("-") and cursor.ahead(1) else None
    number = cursor.current
    if number is None or number.kind is not TokenType.NUMBER:
        raise cursor.expected(f"a value for {one_line(key)}: a quoted text, a number, true or false")
    cursor.take()
    return f"-{number.span.excerpt}" if first else number.span.excerpt


def _string(cursor: Cursor) -> str:
    token = cursor.take()
    text = token.value
    # 'it''s' arrives as two strings without a gap
    while (following := cursor.current) and following.is_string and following.span.start == token.span.end:
        text += following.span.excerpt[0] + following.value
        token = cursor.take()
    return text
