"""Operators: settings only. Engines know how to run them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.table import Ranking, State, Step, table_text
from headgate.model.window import TimeWindow, Window


@dataclass(frozen=True)
class Start:
    """Where a query begins that joins a running network: it sees tuples from a timestamp on.

    ``epoch`` counts the changes of the network: queries of different epochs share no operator, even if they
    begin at the same timestamp.
    """

    us: int
    epoch: int


@dataclass(frozen=True)
class StreamInput:
    """Tuples straight from a stream, its ``columns`` renamed to ``alias__column``."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    # no part of fingerprints, which old checkpoints have without it
    since: Start | None = field(default=None, repr=False)
    """None for all tuples."""

    def __str__(self) -> str:
        return aliased(self.stream, self.alias)


@dataclass(frozen=True)
class OperatorInput:
    """The output of another operator."""

    operator: str

    def __str__(self) -> str:
        return self.operator


@dataclass(frozen=True)
class DerivedInput(OperatorInput):
    """Tuples of a derived stream: results of a query, their ``columns`` renamed to ``alias__column``."""

    stream: str
    alias: str
    columns: tuple[str, ...]
    since: Start | None = field(default=None, repr=False)
    """None for all tuples."""

    def __str__(self) -> str:
        return aliased(self.stream, self.alias)


Input = StreamInput | OperatorInput


def aliased(name: str, alias: str) -> str:
    return name if alias == name else f"{name} AS {alias}"


def conjunction(predicates: Iterable[Expression]) -> str:
    return " AND ".join(p.text for p in predicates) or "TRUE"


def kind_of_join(join: str) -> str:
    """What sets a join of SQL apart from an inner one, as a word before its name."""
    return "" if join == "JOIN" else f"{join.split()[-2].lower()} "


@dataclass(frozen=True)
class _Unary:
    """An operator with one streaming input."""

    name: str
    input: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Select(_Unary):
    """Passes on the tuples for which every predicate holds."""

    predicates: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"select {conjunction(self.predicates)}"


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
class Eddy(_Unary):
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
class RelationJoin(_Unary):
    """Joins each tuple with a stored relation, whose columns become ``alias__column``."""

    relation: str
    alias: str
    columns: tuple[str, ...]
    predicates: tuple[Expression, ...]

    join: ClassVar[str] = "JOIN"
    """How SQL writes it."""

    def __str__(self) -> str:
        return f"{self.join.lower()} relation {self.relation} ON {conjunction(self.predicates)}"


class LeftRelationJoin(RelationJoin):
    """Keeps tuples without a match, with NULL for the columns of the relation."""

    join = "LEFT JOIN"


class SemiRelationJoin(RelationJoin):
    """Passes on the tuples that have a match, once."""

    join = "LEFT SEMI JOIN"


class AntiRelationJoin(RelationJoin):
    """Passes on the tuples that have no match."""

    join = "LEFT ANTI JOIN"


@dataclass(frozen=True)
class JoinSide:
    """One input of a window join; ``order`` (of stream and alias, as declared) breaks ties of timestamps."""

    input: Input
    alias: str
    stream: str
    window: Window
    order: tuple[int, int]


@dataclass(frozen=True)
class WindowUpdate:
    """Maintains the windows of a join, and passes every tuple on, in timestamp order."""

    name: str
    sides: tuple[JoinSide, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return tuple(side.input for side in self.sides)

    def __str__(self) -> str:
        return f"window update {self._windows()}"

    def _windows(self) -> str:
        return ", ".join(f"{side.alias} {side.window}" for side in self.sides)


@dataclass(frozen=True)
class WindowJoin(WindowUpdate):
    """Joins every arriving tuple with the windows of the other sides at that instant."""

    predicates: tuple[Expression, ...]

    join: ClassVar[str] = "JOIN"
    """How SQL writes it."""
    shown: ClassVar[tuple[int, ...] | None] = None
    """The sides whose columns results have; None for all of them."""

    def __str__(self) -> str:
        return f"{kind_of_join(self.join)}window join {self._windows()} ON {conjunction(self.predicates)}"


class OuterWindowJoin(WindowJoin):
    """A join of two windows that also depends on which tuples have no match.

    The windows of ``preserved`` sides are time windows: a tuple has had its last chance of a match at an
    instant of its own timestamp.
    """

    preserved: ClassVar[tuple[int, ...]] = (0,)

    def longer_us(self, side: int) -> int:
        """How long after its tuples have left the window of a side a tuple of the other one may be due."""
        others = (self.sides[other].window for other in self.preserved if other != side)
        return max((window.reach_us for window in others if isinstance(window, TimeWindow)), default=0)


class LeftWindowJoin(OuterWindowJoin):
    """Emits matches, and tuples of the left side without one, with NULL for the columns of the right."""

    join = "LEFT JOIN"


class RightWindowJoin(OuterWindowJoin):
    """The same with the sides exchanged."""

    join = "RIGHT JOIN"
    preserved = (1,)


class FullWindowJoin(OuterWindowJoin):
    """Emits matches, and tuples of both sides without one."""

    join = "FULL JOIN"
    preserved = (0, 1)


class SemiWindowJoin(OuterWindowJoin):
    """Emits each tuple of the left side once: when it first matches."""

    join = "LEFT SEMI JOIN"
    shown = (0,)


class AntiWindowJoin(OuterWindowJoin):
    """Emits the tuples of the left side that find no match."""

    join = "LEFT ANTI JOIN"
    shown = (0,)


@dataclass(frozen=True)
class Aggregate(_Unary):
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
class Top(_Unary):
    """Passes on the first rows of every instant: of each partition of the results of a window."""

    ranking: Ranking

    def __str__(self) -> str:
        return f"top {self.ranking}"


@dataclass(frozen=True)
class Table(_Unary):
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
class Project(_Unary):
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
class Number(_Unary):
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


def aliases_of(predicate: Expression, aliases: Sequence[str]) -> set[str]:
    found = set()
    for column in predicate.columns:
        owners = [alias for alias in aliases if column.startswith(f"{alias}__")]
        found.add(max(owners, key=len))
    return found


def connected_order(operator: WindowJoin) -> list[int]:
    """Sides in order of FROM, but each one linked by a predicate to those before it where possible."""
    aliases = [side.alias for side in operator.sides]
    links = [aliases_of(predicate, aliases) for predicate in operator.predicates]
    left = list(range(1, len(aliases)))
    order = [0]
    while left:
        known = {aliases[i] for i in order}
        linked = [i for i in left if any(aliases[i] in link and link & known for link in links)]
        order.append(left.pop(left.index(linked[0] if linked else left[0])))
    return order
