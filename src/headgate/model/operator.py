"""Operators: settings only. Engines know how to run them."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.window import TimeWindow, Window


@dataclass(frozen=True)
class StreamInput:
    """Tuples straight from a stream, its ``columns`` renamed to ``alias__column``."""

    stream: str
    alias: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.stream if self.alias == self.stream else f"{self.stream} AS {self.alias}"


@dataclass(frozen=True)
class OperatorInput:
    """The output of another operator."""

    operator: str

    def __str__(self) -> str:
        return self.operator


Input = StreamInput | OperatorInput


@dataclass(frozen=True)
class Select:
    """Passes on the tuples for which every predicate holds."""

    name: str
    input: Input
    predicates: tuple[Expression, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The one input."""
        return (self.input,)

    def __str__(self) -> str:
        return f"select {' AND '.join(p.text for p in self.predicates)}"


@dataclass(frozen=True)
class ByTruth:
    """What a predicate is worth for each truth that its function may return."""

    if_true: Expression
    if_false: Expression
    if_null: Expression


@dataclass(frozen=True)
class ByComparison:
    """What a function returns stands to the left of ``comparison``, and ``other`` to the right."""

    comparison: str
    other: Expression


@dataclass(frozen=True)
class PlacedPredicate:
    """A predicate that calls a function; the call takes a slot of a pool."""

    text: str
    function: str
    arguments: tuple[Expression, ...]
    verdict: ByTruth | ByComparison
    # a checkpoint outlives a move to another pool
    pool: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.text} ON {self.pool}"


@dataclass(frozen=True)
class Eddy:
    """Passes on the tuples for which every placed predicate holds, asked in any order."""

    name: str
    input: Input
    predicates: tuple[PlacedPredicate, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The one input."""
        return (self.input,)

    @property
    def steps(self) -> tuple[PlacedProbe | PlacedPredicate, ...]:
        """All that a tuple visits, in the order of the bits of its history."""
        return self.predicates

    def __str__(self) -> str:
        return f"eddy {', '.join(map(str, self.steps))}"


@dataclass(frozen=True)
class PlacedProbe:
    """Looks up a tuple's partners in the window of one side of a join, in a slot of a pool."""

    alias: str
    window: TimeWindow
    order: tuple[int, int]
    pool: str = field(repr=False)

    def __str__(self) -> str:
        return f"probe {self.alias} ON {self.pool}"


@dataclass(frozen=True)
class JoinEddy(Eddy):
    """Takes every tuple of a window update to the windows of all other sides, and asks placed predicates.

    There is a probe for every side, in the order of the sides. ``matches`` are the predicates of the join;
    each is asked as soon as all it looks at is there.
    """

    matches: tuple[Expression, ...]
    probes: tuple[PlacedProbe, ...]

    @property
    def steps(self) -> tuple[PlacedProbe | PlacedPredicate, ...]:
        """Probes come first."""
        return (*self.probes, *self.predicates)

    def __str__(self) -> str:
        on = " AND ".join(p.text for p in self.matches) or "TRUE"
        return f"{super().__str__()}, join ON {on}"


@dataclass(frozen=True)
class RelationJoin:
    """Joins each tuple with a stored relation, whose columns become ``alias__column``."""

    name: str
    input: Input
    relation: str
    alias: str
    columns: tuple[str, ...]
    predicates: tuple[Expression, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The one streaming input."""
        return (self.input,)

    def __str__(self) -> str:
        on = " AND ".join(p.text for p in self.predicates) or "TRUE"
        return f"join relation {self.relation} ON {on}"


@dataclass(frozen=True)
class JoinSide:
    """One input of a window join.

    ``stream`` and ``window`` say whose tuples expire when. ``order`` breaks ties between equal
    timestamps: streams in order of their declaration, then aliases in order of FROM.
    """

    input: Input
    alias: str
    stream: str
    window: Window
    order: tuple[int, int]


@dataclass(frozen=True)
class WindowUpdate:
    """Keeps the windows of a join, and passes every tuple on, in timestamp order."""

    name: str
    sides: tuple[JoinSide, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """One input a side."""
        return tuple(side.input for side in self.sides)

    def __str__(self) -> str:
        return f"window update {', '.join(f'{side.alias} {side.window}' for side in self.sides)}"


@dataclass(frozen=True)
class WindowJoin(WindowUpdate):
    """Keeps windows too, and joins every arriving tuple with those of the other sides at that instant."""

    predicates: tuple[Expression, ...]

    def __str__(self) -> str:
        sides = ", ".join(f"{side.alias} {side.window}" for side in self.sides)
        on = " AND ".join(p.text for p in self.predicates) or "TRUE"
        return f"window join {sides} ON {on}"


@dataclass(frozen=True)
class Aggregate:
    """Aggregates groups over a window of one stream.

    With a slide: every group at each boundary. Without: each tuple emits its group's new value.
    The output has the columns of ``keys`` and of ``aggregates``.
    """

    name: str
    input: Input
    stream: str
    alias: str
    window: Window
    keys: tuple[NamedExpression, ...]
    aggregates: tuple[AggregateExpression, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The one input."""
        return (self.input,)

    def __str__(self) -> str:
        by = f" BY {', '.join(k.expression.text for k in self.keys)}" if self.keys else ""
        return f"aggregate {', '.join(map(str, self.aggregates))}{by} {self.window}"


@dataclass(frozen=True)
class Project:
    """Computes the select list: the last operator of every branch of a query."""

    name: str
    input: Input
    items: tuple[NamedExpression, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The one input."""
        return (self.input,)

    def __str__(self) -> str:
        return f"project {', '.join(map(str, self.items))}"


@dataclass(frozen=True)
class Synthetic:
    """An operator known by its figures alone: it can be simulated, not run.

    With several ``inputs`` it takes what is there; if ``ordered``, in timestamp order over all of them.
    """

    name: str
    inputs: tuple[Input, ...]
    ordered: bool = False

    def __str__(self) -> str:
        return f"{'ordered ' if self.ordered else ''}operator over {', '.join(map(str, self.inputs))}"


Operator = Select | Eddy | RelationJoin | WindowUpdate | Aggregate | Project | Synthetic


def is_ordered(operator: Operator) -> bool:
    """Whether the operator takes the tuples of all its inputs in timestamp order."""
    return isinstance(operator, WindowUpdate) or (isinstance(operator, Synthetic) and operator.ordered)
