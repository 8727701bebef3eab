"""Scalar expressions: Spark SQL text over the columns of a tuple."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.errors import Span


def column_of(alias: str, name: str) -> str:
    """Name of a source's column inside of a plan: unique over all sources of the query."""
    return f"{alias}__{name}"


@dataclass(frozen=True)
class Expression:
    """Spark SQL text whose columns are plan columns; ``span`` points at what the user wrote.

    ``pool`` is where the function is placed that it calls, if it calls one.
    """

    text: str
    columns: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    pool: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class NamedExpression:
    """A select item: the name of the result column and how to compute it."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.expression} AS {self.name}"


@dataclass(frozen=True)
class AggregateExpression:
    """``function(argument)`` over a window, kept in the plan column ``name``.

    ``argument`` is None for COUNT(*).
    """

    name: str
    function: str
    argument: Expression | None
    distinct: bool = False

    def __str__(self) -> str:
        inner = "*" if self.argument is None else self.argument.text
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{inner})"
