"""Operators: settings only. Engines know how to run them."""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.window import Window


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

    def __str__(self) -> str:
        return f"eddy {', '.join(map(str, self.predicates))}"


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
class WindowJoin:
    """Joins every arriving tuple with the other sides' windows at that instant."""

    name: str
    sides: tuple[JoinSide, ...]
    predicates: tuple[Expression, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """One input a side."""
        return tuple(side.input for side in self.sides)

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


Operator = Select | Eddy | RelationJoin | WindowJoin | Aggregate | Project | Synthetic


def is_ordered(operator: Operator) -> bool:
    """Whether the operator takes the tuples of all its inputs in timestamp order."""
    return isinstance(operator, WindowJoin) or (isinstance(operator, Synthetic) and operator.ordered)
