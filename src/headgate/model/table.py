"""Results that change: the first rows of partitions, and how a table of current rows is computed.

The state of a table is kept from tick to tick; its rows are computed from the state by steps of SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.model.expression import TIMESTAMP_US, AggregateExpression, Expression, NamedExpression
from headgate.model.sql_tree import column_tree

RANK = "r0"
"""The plan column with the rank of a row."""

CHANGE = "change"
"""The column with the kind of a change."""


@dataclass(frozen=True)
class SortKey:
    """An expression to order by. NULL is the least value, as in Spark, unless stated otherwise."""

    expression: Expression
    is_descending: bool = False
    nulls: str = ""

    def __str__(self) -> str:
        direction = " DESC" if self.is_descending else ""
        return f"{self.expression.text}{direction}{f' NULLS {self.nulls}' if self.nulls else ''}"


@dataclass(frozen=True)
class Ranking:
    """The rows of each partition whose rank is ``rows`` at most; ``function`` gives the rank."""

    function: str
    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    rows: int

    @property
    def expressions(self) -> Iterator[Expression]:
        yield from self.keys
        yield from (key.expression for key in self.order)

    def over(self, trees: Mapping[str, exp.Expr]) -> Ranking:
        """The ranking with the columns of these names replaced."""
        return self.changed(lambda one: one.over(trees))

    def changed(self, change: Callable[[Expression], Expression]) -> Ranking:
        """The ranking with every expression changed."""
        order = tuple(replace(key, expression=change(key.expression)) for key in self.order)
        return replace(self, keys=tuple(map(change, self.keys)), order=order)

    def __str__(self) -> str:
        by = f"PARTITION BY {', '.join(key.text for key in self.keys)} " if self.keys else ""
        order = f"ORDER BY {', '.join(map(str, self.order))}"
        return f"{self.function}() OVER ({by}{order}) <= {self.rows}"


@dataclass(frozen=True)
class Groups:
    """Group keys and aggregates: of tuples, one row of partial aggregates each, or of the rows of a table."""

    keys: tuple[NamedExpression, ...]
    aggregates: tuple[AggregateExpression, ...]

    @property
    def expressions(self) -> Iterator[Expression]:
        """What is evaluated for each tuple or row."""
        yield from (key.expression for key in self.keys)
        yield from (argument for call in self.aggregates for argument in call.arguments)

    def over(self, trees: Mapping[str, exp.Expr]) -> Groups:
        """The groups with the columns of these names replaced."""
        return self.changed(lambda one: one.over(trees))

    def changed(self, change: Callable[[Expression], Expression]) -> Groups:
        """The groups with every expression changed."""
        keys = tuple(replace(key, expression=change(key.expression)) for key in self.keys)
        return Groups(keys, tuple(call.changed(change) for call in self.aggregates))

    def __str__(self) -> str:
        by = f" BY {', '.join(key.expression.text for key in self.keys)}" if self.keys else ""
        return f"{', '.join(map(str, self.aggregates)) or 'groups'}{by}"


@dataclass(frozen=True)
class RankedState:
    """The first rows of every partition, with the plan columns that later steps read."""

    columns: tuple[str, ...]
    ranking: Ranking

    @property
    def expressions(self) -> Iterator[Expression]:
        yield from self.ranking.expressions
        yield from (Expression(column_tree(column)) for column in self.columns)

    def __str__(self) -> str:
        return str(self.ranking)


class LastRowsState(RankedState):
    """The tuples that a window by rows holds: the last of a stream, or of each key."""

    def __str__(self) -> str:
        keys = ", ".join(key.text for key in self.ranking.keys)
        return f"tuples [{keys and f'PARTITION BY {keys} '}ROWS {self.ranking.rows}]"


@dataclass(frozen=True)
class Held:
    """The tuples of the last ``range_us``, with the plan columns of what is computed from each of them."""

    read: tuple[Expression, ...]
    range_us: int

    @property
    def columns(self) -> tuple[str, ...]:
        found = dict.fromkeys(column for one in self.read for column in one.columns)
        return tuple(column for column in found if column not in (TIMESTAMP_US, RANK))

    @property
    def expressions(self) -> Iterator[Expression]:
        yield from (one for one in self.read if RANK not in one.columns)

    def __str__(self) -> str:
        return f"tuples [RANGE {self.range_us / 1e6:g} s]"


@dataclass(frozen=True)
class Where:
    """The rows for which every predicate holds."""

    predicates: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"where {' AND '.join(predicate.text for predicate in self.predicates)}"


@dataclass(frozen=True)
class Ranked:
    """The first rows of every partition."""

    ranking: Ranking

    def __str__(self) -> str:
        return f"rank {self.ranking}"


@dataclass(frozen=True)
class Named:
    """A select list."""

    items: tuple[NamedExpression, ...]

    def __str__(self) -> str:
        return f"select {', '.join(map(str, self.items))}"


State = Groups | RankedState | Held
Step = Where | Groups | Ranked | Named


def table_text(state: State, steps: Iterable[Step]) -> str:
    """A state and the steps over it, a line each."""
    lines = (f"\n  then {'group ' if isinstance(step, Groups) else ''}{step}" for step in steps)
    return f"table of {state}{''.join(lines)}"
