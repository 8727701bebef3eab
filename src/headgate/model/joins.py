"""Joins with stored relations and between windows of streams: settings only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headgate.model.expression import Expression
from headgate.model.operator_inputs import Input, Unary, conjunction
from headgate.model.window import TimeWindow, Window


def kind_of_join(join: str) -> str:
    """What sets a join of SQL apart from an inner one, as a word before its name."""
    return "" if join == "JOIN" else f"{join.split()[-2].lower()} "


@dataclass(frozen=True)
class RelationJoin(Unary):
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
