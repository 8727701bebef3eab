"""Names of result columns."""

from __future__ import annotations

import re

from headgate.cql.statement import AggregateCall, ScalarExpression, SelectItem
from headgate.planning.scope import BoundColumn, Scope

# every result row starts with its timestamp, which the engine adds
TIMESTAMP = "ts"


def plain_column(expression: ScalarExpression, scope: Scope) -> BoundColumn | None:
    """The column, if the expression is nothing but a column."""
    if len(expression.columns) != 1:
        return None
    [reference] = expression.columns
    whole = (reference.span.start, reference.span.end) == (expression.span.start, expression.span.end)
    return scope.resolve(reference) if whole else None


def given_name(item: SelectItem, scope: Scope) -> str | None:
    """The name that the user chose: an alias, or that of the column."""
    if item.alias is not None:
        return item.alias.text
    column = plain_column(item.expression, scope)
    if column is None:
        return None
    return column.field if column.field is not None else column.column.name


def derived_name(expression: ScalarExpression, scope: Scope) -> str:
    """A name for an expression that has none: ``COUNT(*)`` is count, ``SUM(x)`` is sum_x."""
    if len(expression.aggregates) == 1 and expression.aggregates[0].span == expression.span:
        return _call_name(expression.aggregates[0], scope)
    return _words(expression.span.excerpt) or "value"


def unique(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if others (in lower case) have it already."""
    candidate, number = name, 1
    while candidate.lower() in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _call_name(call: AggregateCall, scope: Scope) -> str:
    function = f"{call.function.lower()}_distinct" if call.distinct else call.function.lower()
    if call.argument is None:
        return function
    column = plain_column(call.argument, scope)
    argument = _words(call.argument.text) if column is None else column.field or column.column.name
    return f"{function}_{argument}" if argument else function


def _words(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")
