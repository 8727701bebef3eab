"""Rows that are computed from each tuple, by explode and the like, as a source of FROM."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headgate.cql.syntax import Generator
from headgate.cql.tokens import repeated
from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.network import Column, RelationDefinition, Schema
from headgate.planning.types import Type

FORMAT = "rows"
"""The format of what stands for them among stored relations."""


def rows_of(generator: Generator, argument: Type) -> RelationDefinition:
    """The rows with their columns; ``argument`` is the type of what they are made of."""
    what = " ".join(generator.argument.text.split())
    if argument.kind not in (None, "a", "p"):
        message = f"{generator.function} takes an array or a map, and {what} is {argument}"
        raise QueryError(
            f"{message}; write split(text, ',') for the parts of a text", generator.argument.span
        )
    if twice := repeated(generator.columns):
        message = f"two columns of {generator.function} are called {twice.text}; rename one of them"
        raise QueryError(message, twice.span)
    function = _function(generator, argument, what)
    if function == "inline" and (argument.kind == "p" or argument.element.kind not in (None, "r")):
        message = f"the fields of structs are columns, and {what} is {argument}; write explode({what})"
        raise QueryError(message, generator.argument.span)
    known = _columns(function, argument, len(generator.columns))
    names = [name.text for name in generator.columns] or [column.name for column in known]
    if not names:
        message = f"the fields of {what} are not known; name them, as in inline({what}) t AS a, b"
        raise QueryError(message, generator.span)
    if known and len(names) != len(known):
        own = ", ".join(column.name for column in known)
        written = f"AS ({own})" if generator.is_item else f"t AS {own}"
        message = f"{function} gives {len(known)} columns of {what}, not {len(names)}"
        raise QueryError(f"{message}; write {function}({what}) {written}", generator.columns[0].span)
    types = [column.type for column in known] or ["?"] * len(names)
    columns = (Column(name, kind) for name, kind in zip(names, types, strict=True))
    return RelationDefinition(function, FORMAT, Schema(tuple(columns)))


def call_of(function: str, argument: Expression, generator: Generator) -> Expression:
    """The call, as Spark has it, over columns of a plan."""
    call = exp.Anonymous(this=function, expressions=[argument.tree.copy()])
    return Expression(call, generator.span)


def _function(generator: Generator, argument: Type, what: str) -> str:
    """The function of Spark: UNNEST gives the fields of structs if there are names for several."""
    if generator.function != "unnest":
        return generator.function
    if len(generator.columns) < 2 or argument.kind == "p":
        return "explode"
    if argument.kind is None:
        message = f"whether {what} is a map or an array of structs is not known"
        hint = f"write explode({what}) for its keys and values, or inline({what}) for its fields"
        raise QueryError(f"{message}; {hint}", generator.argument.span)
    return "inline"


def _columns(function: str, argument: Type, names: int) -> Sequence[Column]:
    """The columns by the names that Spark gives them; none if they are not known."""
    element = argument.element
    if function == "inline":
        return [Column(name, str(element.field(name))) for name in element.fields]
    place = [Column("pos", "INT")] if function == "posexplode" else []
    if argument.kind == "p":
        return [*place, Column("key", str(argument.key)), Column("value", str(element))]
    is_perhaps_map = argument.kind is None and names == len(place) + 2
    return [] if is_perhaps_map else [*place, Column("col", str(element))]
