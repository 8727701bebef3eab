"""Aggregate functions: which are made of others, so that they do not depend on the order of tuples.

Where Spark leaves a choice - which of two rows is the first, how a list is ordered - it is by timestamp, and
by value among tuples of one timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.errors import QueryError
from headgate.model.expression import TIMESTAMP_US, Expression
from headgate.model.sql_tree import operand

_SAME = {
    "MEAN": "AVG",
    "EVERY": "BOOL_AND",
    "FIRST_VALUE": "FIRST",
    "ANY_VALUE": "FIRST",
    "LAST_VALUE": "LAST",
    "ARRAY_AGG": "COLLECT_LIST",
    "STRING_AGG": "LISTAGG",
}
_BY_TIME = f"named_struct('by', `{TIMESTAMP_US}`, 'value', x)"
_IF_ANY = f"CASE WHEN x IS NOT NULL THEN {_BY_TIME} END"
_RANKED = "CASE WHEN y IS NOT NULL THEN named_struct('by', y, 'value', x) END"


@dataclass(frozen=True)
class _Made:
    """An aggregate made of another: its function and argument, and what becomes of its value ``v``."""

    function: str
    argument: str
    value: str = "v"


_MADE = {
    ("COUNT_IF", 1): _Made("COUNT", "CASE WHEN x THEN 1 END"),
    ("BOOL_AND", 1): _Made("MIN", "x"),
    ("BOOL_OR", 1): _Made("MAX", "x"),
    ("MAX_BY", 2): _Made("MAX", _RANKED, "v.value"),
    ("MIN_BY", 2): _Made("MIN", _RANKED, "v.value"),
    ("FIRST", 1): _Made("MIN", _BY_TIME, "v.value"),
    ("LAST", 1): _Made("MAX", _BY_TIME, "v.value"),
    ("COLLECT_LIST", 1): _Made("COLLECT_LIST", _IF_ANY, "transform(array_sort(v), e -> e.value)"),
    ("COLLECT_SET", 1): _Made("COLLECT_SET", "x", "array_sort(v)"),
}
_JOINED = "CASE WHEN size(v) > 0 THEN array_join(transform({list}, e -> CAST(e AS STRING)), s) END"
_IGNORING_NULLS = {
    "FIRST": _Made("MIN", _IF_ANY, "v.value"),
    "LAST": _Made("MAX", _IF_ANY, "v.value"),
}


@dataclass(frozen=True)
class Parts:
    """A function and its arguments; ``final`` is the aggregate, in SQL over the function's value ``v``."""

    function: str
    arguments: tuple[Expression, ...]
    distinct: bool
    final: str

    def value(self, tree: exp.Expr) -> exp.Expr:
        """The value of the aggregate, given that of the function."""
        return tree if self.final == "v" else Expression.parse(self.final).over({"v": tree}).tree


def parts_of(
    function: str, arguments: Sequence[Expression], distinct: bool, condition: Expression | None
) -> Parts:
    """An aggregate by what computes it; a condition leaves values out by making them NULL."""
    name, given = _SAME.get(function, function), tuple(arguments)
    final = "v"
    made = _MADE.get((name, len(given)))
    if name in _IGNORING_NULLS and len(given) == 2:
        ignores = given[1].text.upper() == "TRUE"
        made, given = (_IGNORING_NULLS[name] if ignores else _MADE[name, 1]), given[:1]
    if name == "LISTAGG":
        return _listed(given, distinct, condition)
    if made is not None:
        name, final = made.function, made.value
        given = (_over(made.argument, given),)
    if name == "COUNT" and len(given) > 1:
        columns = [f"a{number}" for number in range(len(given))]
        known = " AND ".join(f"{column} IS NOT NULL" for column in columns)
        whole = Expression.parse(f"CASE WHEN {known} THEN struct({', '.join(columns)}) END")
        given = (whole.over({c: operand(one.tree) for c, one in zip(columns, given, strict=True)}),)
    if name == "MODE" and len(given) == 1:
        # the least of equally frequent values
        given = (*given, Expression.parse("TRUE"))
    if condition is not None:
        first, *others = given or (Expression.parse("1"),)
        # some functions insist on constants
        given = (_if(condition, first), *(_if(condition, one) if one.columns else one for one in others))
    return Parts(name, given, distinct and name not in ("MIN", "MAX"), final)


def _listed(given: tuple[Expression, ...], distinct: bool, condition: Expression | None) -> Parts:
    """The values as one text, in the order of time; distinct ones in their own."""
    found = parts_of("COLLECT_SET" if distinct else "COLLECT_LIST", given[:1], False, condition)
    separator = given[1] if len(given) > 1 else Expression.parse("''")
    if separator.columns:
        message = "the separator is a constant; write a text, as in LISTAGG(x, ',')"
        raise QueryError(message, separator.span)
    text = _JOINED.format(list=found.final)
    return replace(found, final=Expression.parse(text).over({"s": operand(separator.tree)}).text)


def parts_of_registered(
    function: str, arguments: Sequence[Expression], distinct: bool, condition: Expression | None
) -> Parts:
    """An aggregate function of the user's: called with the values of all tuples, in the order of time."""
    columns = [f"a{number}" for number in range(len(arguments))]
    trees = {column: operand(one.tree) for column, one in zip(columns, arguments, strict=True)}
    by_time = "" if distinct else f"'by', `{TIMESTAMP_US}`, "
    fields = ", ".join(f"'{column}', {column}" for column in columns)
    values = Expression(
        Expression.parse(f"named_struct({by_time}{fields})").over(trees).tree, arguments[0].span
    )
    given = values if condition is None else _if(condition, values)
    lists = ", ".join(f"transform(array_sort(v), e -> e.{column})" for column in columns)
    return Parts("COLLECT_SET" if distinct else "COLLECT_LIST", (given,), False, f"{function}({lists})")


def _over(text: str, arguments: Sequence[Expression]) -> Expression:
    trees = {letter: operand(one.tree) for letter, one in zip("xy", arguments, strict=False)}
    return Expression(Expression.parse(text).over(trees).tree, arguments[0].span)


def _if(condition: Expression, argument: Expression) -> Expression:
    """The argument where the condition holds."""
    chosen = Expression.parse("CASE WHEN c THEN x END")
    tree = chosen.over({"c": operand(condition.tree), "x": operand(argument.tree)}).tree
    return Expression(tree, argument.span or condition.span)
