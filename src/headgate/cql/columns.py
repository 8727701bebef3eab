"""Columns of CREATE STREAM and CREATE RELATION: names, types, computed columns, the primary key."""

from __future__ import annotations

from headgate.cql.expressions import scalar_without_aggregates
from headgate.cql.statement import ColumnDefinition
from headgate.cql.syntax import Name, ScalarExpression
from headgate.cql.tokens import (
    Cursor,
    Token,
    never_closed,
    one_line,
    outside_brackets,
    partners,
    repeated,
    span_of,
)
from headgate.errors import QueryError, known_names, suggestion

# the first words of type names; Spark checks the inside of nested types
_TYPE_WORDS = (
    "ARRAY BIGINT BINARY BOOLEAN BYTE CHAR CHARACTER DATE DEC DECIMAL DOUBLE FLOAT GEOGRAPHY GEOMETRY INT "
    "INTEGER INTERVAL LONG MAP NUMERIC REAL SHORT SMALLINT STRING STRUCT TIME TIMESTAMP TIMESTAMP_LTZ "
    "TIMESTAMP_NTZ TINYINT VARCHAR VARIANT VOID"
)
_TYPES = tuple(_TYPE_WORDS.split())


class ColumnReader(Cursor):
    """Reads the columns that a statement declares."""

    def columns(self) -> tuple[tuple[ColumnDefinition, ...], tuple[Name, ...]]:
        """Columns, and the primary key."""
        if not self.at("("):
            return (), ()
        opener = self.take()
        keys: list[Name] = []
        read = self.several(lambda: self._column_or_key(opener, keys))
        columns = tuple(column for column in read if column is not None)
        self.expect(")", " or ',' after the column")
        names = {column.name.text.lower() for column in columns}
        for key in keys:
            if columns and key.text.lower() not in names:
                known = known_names([column.name.text for column in columns])
                raise QueryError(f"unknown column {key.text}; columns: {known}", key.span)
        if twice := repeated([column.name for column in columns]):
            raise QueryError(
                f"column {one_line(twice.text)} is declared twice; rename one of them", twice.span
            )
        return columns, tuple(keys)

    def _column_or_key(self, opener: Token, keys: list[Name]) -> ColumnDefinition | None:
        """A column, or PRIMARY KEY, whose columns are added to ``keys``."""
        first = self.span
        column, is_key = None, self.accept("PRIMARY KEY")
        if not is_key:
            column = self._column(opener)
            is_key = self.accept("PRIMARY KEY")
        if is_key and keys:
            raise QueryError("there is one primary key; write PRIMARY KEY (a, b) for several columns", first)
        if is_key and column is not None:
            keys.append(column.name)
        elif is_key:
            self.expect("(", " and columns after PRIMARY KEY")
            keys += self.several(lambda: self.name("a column in PRIMARY KEY"))
            self.expect(")", " after the columns of PRIMARY KEY")
            # as Flink writes it: it is not enforced
            self.accept("NOT", "ENFORCED")
        return column

    def _column(self, opener: Token) -> ColumnDefinition:
        if self.at("WATERMARK", "FOR"):
            raise self.fail("a watermark is an option; write OPTIONS (timestamp 'ts', watermark '5 s')")
        name = self.name("a column name")
        tokens, computed = self._type_and_expression(self._type(opener))
        if not tokens:
            raise self.expected(f"a type for column {one_line(name.text)}, such as STRING")
        if tokens[0].word not in _TYPES:
            hint = suggestion(tokens[0].word, _TYPES, f"known types: {known_names(_TYPES)}")
            raise QueryError(f"unknown type {tokens[0].shown}; {hint}", tokens[0].span)
        if [token.word for token in tokens[-2:]] == ["NOT", "NULL"]:
            # as in Spark, streams may carry nulls whatever the schema states
            tokens = tokens[:-2]
        return ColumnDefinition(name, span_of(tokens).excerpt, computed)

    def _type_and_expression(self, tokens: list[Token]) -> tuple[list[Token], ScalarExpression | None]:
        """The tokens of a type, and what a column is computed from: ``DOUBLE AS (price * n)``."""
        place = next((i for i in outside_brackets(tokens) if tokens[i].word == "AS"), None)
        if place is None:
            return tokens, None
        written = tokens[place + 1 :]
        if len(written) < 3 or written[0].word != "(" or partners(written)[0] != len(written) - 1:
            message = "a column is computed by an expression in parentheses; write AS (price * 2)"
            raise QueryError(message, span_of(written or tokens[place : place + 1]))
        return tokens[:place], scalar_without_aggregates(written[1:-1], "a column")

    def _type(self, opener: Token) -> list[Token]:
        """All tokens up to the comma or parenthesis after the type; ``<`` and ``>`` are brackets here."""
        tokens: list[Token] = []
        open_angles: list[Token] = []
        while True:
            tokens += self.stretch(lambda: self.word() in ("<", ">", "PRIMARY KEY"))
            if self.at("<"):
                open_angles.append(self.take())
            elif open_angles and self.accept(">"):
                open_angles.pop()
            elif not (open_angles and self.accept(",")):
                break
            tokens.append(self.previous)
        if open_angles:
            raise QueryError("'<' is never closed; add '>'", open_angles[-1].span)
        if self.at_end:
            raise never_closed(opener)
        return tokens
