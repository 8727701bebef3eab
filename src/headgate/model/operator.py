"""Operators: settings only. Engines know how to run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.joins import RelationJoin, WindowJoin, WindowUpdate
from headgate.model.operator_inputs import Input, Unary, conjunction
from headgate.model.table import Ranking, State, Step, table_text
from headgate.model.window import TimeWindow, Window


@dataclass(frozen=True)
class Select(Unary):
    """Passes on the tuples for which every predicate holds."""

    predicates: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"select {conjunction(self.predicates)}"


@dataclass(frozen=True)
class Explode(Unary):
    """Passes on every tuple with each of the rows that a call gives for it, such as the elements of an array.

    ``columns`` of the rows become ``alias__column``.
    """

    alias: str
    columns: tuple[str, ...]
    call: Expression
    is_outer: bool
    """Whether a tuple without rows is passed on, with NULLs."""

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """What is evaluated for a tuple."""
        return tuple(Expression(one.copy(), self.call.span) for one in self.call.tree.expressions)

    def __str__(self) -> str:
        return f"{'outer ' if self.is_outer else ''}rows of {self.call}"


@dataclass(frozen=True)
class ByTruth:
    """The value of a predicate for each truth value that its function can return."""

    if_true: Expression
    if_false: Expression
    if_null: Expression


@dataclass(frozen=True)
class ByComparison:
    """The function's result is the left side of ``comparison``, and ``other`` the right side."""

    comparison: str
    other: Expression


@dataclass(frozen=True)
class ByValue:
    """The function's result becomes a column, and the tuple passes."""

    column: str


@dataclass(frozen=True)
class PlacedPredicate:
    """A predicate that calls a function; the call takes a slot of a pool."""

    text: str
    function: str
    arguments: tuple[Expression, ...]
    verdict: ByTruth | ByComparison | ByValue
    # a checkpoint outlives a move to another pool
    pool: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.text} ON {self.pool}"


@dataclass(frozen=True)
class Eddy(Unary):
    """Passes on the tuples for which every placed predicate holds, evaluated in any order.

    What functions return by value is added as columns.
    """

    predicates: tuple[PlacedPredicate, ...]

    @property
    def steps(self) -> tuple[PlacedProbe | PlacedPredicate, ...]:
        """The probes and predicates that a tuple visits, in the order of the bits of its history."""
        return self.predicates

    def __str__(self) -> str:
        return f"eddy {', '.join(map(str, self.steps))}"


@dataclass(frozen=True)
class PlacedProbe:
    """Looks up the matches of a tuple in the window of one side of a join; takes a slot of a pool."""

    alias: str
    window: TimeWindow
    order: tuple[int, int]
    pool: str = field(repr=False)

    def __str__(self) -> str:
        return f"probe {self.alias} ON {self.pool}"


@dataclass(frozen=True)
class JoinEddy(Eddy):
    """Probes the windows of all other sides with every tuple of a window update; evaluates placed predicates.

    There is a probe for every side, in the order of the sides. ``matches`` are the predicates of the join;
    each is evaluated as soon as all sides that it reads are joined.
    """

    matches: tuple[Expression, ...]
    probes: tuple[PlacedProbe, ...]

    @property
    def steps(self) -> tuple[PlacedProbe | PlacedPredicate, ...]:
        return (*self.probes, *self.predicates)

    def __str__(self) -> str:
        return f"{super().__str__()}, join ON {conjunction(self.matches)}"


@dataclass(frozen=True)
class Aggregate(Unary):
    """Aggregates groups over a window of one stream.

    With a slide: every group at each boundary. Without: each tuple emits its group's new value.
    The output has the columns of ``keys`` and of ``aggregates``.
    """

    stream: str
    alias: str
    window: Window
    keys: tuple[NamedExpression, ...]
    aggregates: tuple[AggregateExpression, ...]

    def __str__(self) -> str:
        by = f" BY {', '.join(k.expression.text for k in self.keys)}" if self.keys else ""
        return f"aggregate {', '.join(map(str, self.aggregates))}{by} {self.window}"


@dataclass(frozen=True)
class Distinct(Aggregate):
    """Emits a tuple that brings values of ``keys`` that no other tuple of the window has.

    ``aggregates`` are columns of that tuple.
    """

    def __str__(self) -> str:
        return f"distinct {', '.join(k.expression.text for k in self.keys)} {self.window}"


@dataclass(frozen=True)
class Departures(Aggregate):
    """Emits the values of ``keys`` when a tuple leaves the window."""

    def __str__(self) -> str:
        return f"departures {', '.join(k.expression.text for k in self.keys)} {self.window}"


@dataclass(frozen=True)
class Contents(Aggregate):
    """Emits the values of ``keys`` of all tuples inside the window, at each boundary."""

    def __str__(self) -> str:
        return f"contents {', '.join(k.expression.text for k in self.keys)} {self.window}"


@dataclass(frozen=True)
class Top(Unary):
    """Passes on the first rows of every instant: of each partition of the results of a window."""

    ranking: Ranking

    def __str__(self) -> str:
        return f"top {self.ranking}"


@dataclass(frozen=True)
class Table(Unary):
    """Maintains the current rows of a query whose results change, and emits all of them after a change.

    It keeps a state; ``steps`` compute the rows from it, the last of them being the select list.
    """

    state: State
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return table_text(self.state, self.steps)


class Changes(Table):
    """Emits every change of the rows of a table, with its kind."""

    def __str__(self) -> str:
        return f"changes of {super().__str__()}"


@dataclass(frozen=True)
class Project(Unary):
    """Computes the select list: the last operator of every branch of a query."""

    items: tuple[NamedExpression, ...]

    def __str__(self) -> str:
        return f"project {', '.join(map(str, self.items))}"


@dataclass(frozen=True)
class Union:
    """Passes on the tuples of several inputs with equal columns, in timestamp order."""

    name: str
    inputs: tuple[Input, ...]

    def __str__(self) -> str:
        return "union"


@dataclass(frozen=True)
class Number(Unary):
    """Numbers the tuples of a derived stream by timestamp, and those of one instant by their values."""

    def __str__(self) -> str:
        return "number"


@dataclass(frozen=True)
class Synthetic:
    """An operator that is only a profile, to be simulated; ``ordered`` if it merges inputs by timestamp."""

    name: str
    inputs: tuple[Input, ...]
    ordered: bool = False

    def __str__(self) -> str:
        return f"{'ordered ' if self.ordered else ''}operator over {', '.join(map(str, self.inputs))}"


Operator = (
    Select
    | Explode
    | Eddy
    | RelationJoin
    | WindowUpdate
    | Aggregate
    | Top
    | Table
    | Project
    | Union
    | Number
    | Synthetic
)


def expressions_of(operator: Operator) -> Iterator[Expression]:
    """The expressions that an operator evaluates, but for the verdicts of placed predicates."""
    if isinstance(operator, (Select, RelationJoin, WindowJoin)):
        yield from operator.predicates
    elif isinstance(operator, Explode):
        yield from operator.arguments
    elif isinstance(operator, Eddy):
        yield from (argument for predicate in operator.predicates for argument in predicate.arguments)
        yield from operator.matches if isinstance(operator, JoinEddy) else ()
    elif isinstance(operator, Aggregate):
        yield from (key.expression for key in operator.keys)
        yield from (argument for call in operator.aggregates for argument in call.arguments)
    elif isinstance(operator, Top):
        yield from operator.ranking.expressions
    elif isinstance(operator, Table):
        yield from operator.state.expressions
    elif isinstance(operator, Project):
        yield from (item.expression for item in operator.items)


def functions_of(operator: Operator) -> frozenset[str]:
    """The functions that an operator calls, in lower case."""
    placed = {p.function.lower() for p in operator.predicates} if isinstance(operator, Eddy) else set()
    return frozenset(placed).union(*(expression.functions for expression in expressions_of(operator)))


def is_ordered(operator: Operator) -> bool:
    """Whether the operator takes the tuples of all its inputs in timestamp order."""
    if isinstance(operator, Synthetic):
        return operator.ordered
    return isinstance(operator, (WindowUpdate, Aggregate, Top, Table, Union, Number))
