"""Column definitions: ``(name TYPE, ...)`` with Spark's types, nested ones too."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from headgate.cql.statement import ColumnDefinition
from headgate.cql.tokens import Cursor, Token, never_closed, span_of
from headgate.cql.wording import one_line
from headgate.errors import QueryError, known_names

# the first words of type names: what is inside of a nested type, Spark checks
_TYPE_WORDS = (
    "ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT GEOGRAPHY GEOMETRY INT "
    "INTEGER INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP TIMESTAMP_LTZ "
    "TIMESTAMP_NTZ TINYINT VARCHAR VARIANT VOID"
)
_TYPES = tuple(_TYPE_WORDS.split())


def parse_columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Read the columns in parentheses, if there are any."""
    if not cursor.at("("):
        return ()
    opener = cursor.take()
    columns = [_column(cursor, opener)]
    while cursor.accept(","):
        columns.append(_column(cursor, opener))
    cursor.expect(")", " or ',' after the column")
    _refuse_duplicates(columns)
    return tuple(columns)


def _column(cursor: Cursor, opener: Token) -> ColumnDefinition:
    name = cursor.name("a column name")
    tokens = _type(cursor, opener)
    if not tokens:
        raise cursor.expected(f"a type for column {one_line(name.text)}, such as STRING")
    if tokens[0].word not in _TYPES:
        close = get_close_matches(tokens[0].word, _TYPES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known types: {known_names(_TYPES)}"
        message = f"unknown type {tokens[0].shown}; {hint}"
        raise QueryError(message, tokens[0].span)
    return ColumnDefinition(name, span_of(_nullable(tokens)).excerpt)


def _type(cursor: Cursor, opener: Token) -> list[Token]:
    """All tokens up to the comma or parenthesis after the type; ``<`` and ``>`` are brackets here."""
    tokens: list[Token] = []
    open_angles: list[Token] = []
    while True:
        tokens += cursor.stretch(lambda place: place.word() in ("<", ">"))
        if cursor.at("<"):
            open_angles.append(cursor.take())
        elif open_angles and cursor.at(">"):
            open_angles.pop()
            cursor.take()
        elif open_angles and cursor.at(","):
            cursor.take()
        else:
            break
        tokens.append(cursor.previous)
    if open_angles:
        raise QueryError("'<' is never closed; add '>'", open_angles[-1].span)
    if cursor.at_end:
        raise never_closed(opener)
    return tokens


def _nullable(tokens: Sequence[Token]) -> Sequence[Token]:
    # streams carry nulls whatever a schema says, in Spark too
    return tokens[:-2] if [token.word for token in tokens[-2:]] == ["NOT", "NULL"] else tokens


def _refuse_duplicates(columns: Sequence[ColumnDefinition]) -> None:
    names: set[str] = set()
    for column in columns:
        if column.name.text.lower() in names:
            message = f"column {one_line(column.name.text)} is there twice; rename one of them"
            raise QueryError(message, column.name.span)
        names.add(column.name.text.lower())
