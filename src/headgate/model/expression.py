"""Scalar expressions of Spark SQL over the columns of a tuple."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from headgate.errors import QueryError, Span
from headgate.model.sql_tree import field_of, read_tree, replace_nodes, tree_key, write_tree

_MERGEABLE = ("COUNT", "SUM", "AVG", "MIN", "MAX")
# sqlglot counts these among functions, but they are operators
_OPERATORS = (exp.Connector, exp.Cast, exp.Case, exp.If)


TIMESTAMP_US = "$ts"
"""The plan column with the timestamp of a tuple, in microseconds."""

_INTEGERS = {
    **{name: name for name in ("tinyint", "smallint", "int", "bigint")},
    **{"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"},
}


def time_text(micros: str, kind: str) -> str:
    """SQL that turns microseconds into a stream's own type of timestamp; numbers are seconds."""
    kind = kind.strip().lower()
    if kind in ("timestamp", "timestamp_ltz", "date"):
        return f"timestamp_micros({micros})"
    if kind == "timestamp_ntz":
        return f"CAST(timestamp_micros({micros}) AS TIMESTAMP_NTZ)"
    if kind in _INTEGERS:
        return f"CAST({micros} div 1000000L AS {_INTEGERS[kind]})"
    return f"CAST({micros} / 1000000 AS {kind})"


def column_of(alias: str, name: str) -> str:
    """Name of a source's column in a plan: unique over all sources of the query."""
    return f"{alias}__{name}"


@dataclass(frozen=True, eq=False, repr=False)
class Expression:
    """A tree whose columns are plan columns; ``span`` points at what the user wrote.

    Expressions are equal if they differ only in blanks, case and quotes. ``pool`` is where the function is
    placed that it calls, if it calls one. The tree is never changed.
    """

    tree: exp.Expr
    span: Span | None = None
    pool: str | None = None

    @staticmethod
    def parse(text: str, span: Span | None = None) -> Expression:
        try:
            tree = read_tree(exp.Condition, Spark().tokenize(text), text)
        except (SqlglotError, RecursionError):
            tree = None
        if tree is None:
            raise QueryError(f"{' '.join(text.split())} is not a Spark SQL expression", span)
        return Expression(replace_nodes(tree, _plan_column), span)

    @cached_property
    def text(self) -> str:
        """Spark SQL, on one line."""
        return write_tree(self.tree)

    @cached_property
    def key(self) -> str:
        """The text in one case and with all names quoted: equal for equal expressions."""
        return tree_key(self.tree)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.name for column in self.tree.find_all(exp.Column, bfs=False)))

    @cached_property
    def functions(self) -> frozenset[str]:
        """The functions that it calls, in lower case."""
        calls = [call for call in self.tree.find_all(exp.Func) if not isinstance(call, _OPERATORS)]
        return frozenset(
            call.name.lower() if isinstance(call, exp.Anonymous) else call.sql_name().lower()
            for call in calls
        )

    def over(self, trees: Mapping[str, exp.Expr]) -> Expression:
        """The expression with the columns of these names replaced."""
        return self.replace(lambda node: trees.get(node.name) if isinstance(node, exp.Column) else None)

    def replace(self, change: Callable[[exp.Expr], exp.Expr | None]) -> Expression:
        """The expression with nodes replaced, from the top down, for which ``change`` has another tree."""
        return Expression(replace_nodes(self.tree, change), self.span, self.pool)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        # part of the fingerprint of checkpoints
        return f"Expression(text={self.text!r}, columns={self.columns!r})"


def _plan_column(node: exp.Expr) -> exp.Expr | None:
    """To sqlglot ``a.b`` is a column of a table; in a plan it is a field of a column."""
    if not isinstance(node, exp.Column) or len(node.parts) == 1:
        return None
    first, *fields = node.parts
    return field_of(exp.Column(this=first), fields)


@dataclass(frozen=True)
class NamedExpression:
    """A select item: the name of the result column and how to compute it."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.expression} AS {self.name}"


@dataclass(frozen=True, repr=False)
class AggregateExpression:
    """``function(argument, others)`` over a window, in the plan column ``name``; COUNT(*) has no argument."""

    name: str
    function: str
    argument: Expression | None
    distinct: bool = False
    others: tuple[Expression, ...] = ()

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What is evaluated for each tuple."""
        return self.others if self.argument is None else (self.argument, *self.others)

    @property
    def is_mergeable(self) -> bool:
        """Whether values of parts of a window can be merged, so that its tuples need not be kept."""
        return self.function in _MERGEABLE and not self.distinct

    @property
    def is_collected(self) -> bool:
        """Whether its value can be computed from the values of the argument, collected part by part."""
        if self.distinct:
            return self.function == "COUNT"
        return self.function in ("COLLECT_LIST", "COLLECT_SET")

    def over(self, trees: Mapping[str, exp.Expr]) -> AggregateExpression:
        """The aggregate with the columns of these names replaced in its arguments."""
        return self.changed(lambda argument: argument.over(trees))

    def changed(self, change: Callable[[Expression], Expression]) -> AggregateExpression:
        """The aggregate with every argument changed."""
        argument = None if self.argument is None else change(self.argument)
        return replace(self, argument=argument, others=tuple(map(change, self.others)))

    def __str__(self) -> str:
        inner = ", ".join(argument.text for argument in self.arguments) or "*"
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{inner})"

    def __repr__(self) -> str:
        # part of the fingerprint of checkpoints, which are older than further arguments
        others = f", others={self.others!r}" if self.others else ""
        first = f"name={self.name!r}, function={self.function!r}, argument={self.argument!r}"
        return f"AggregateExpression({first}, distinct={self.distinct!r}{others})"
