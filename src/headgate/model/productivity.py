"""Shedding by productivity: how many tuples of other windows the key of a tuple is expected to match.

The keys in a window are counted by the bucket of their hash, so that a table of counts has the same size
whatever the keys are. It states how often the keys of a bucket occur, as a multiple of the mean of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headgate.model.expression import Expression
from headgate.model.joins import WindowJoin, aliases_of
from headgate.model.operator import Operator

PRODUCTIVITY = "productivity()"
"""The utility by which the tuples of all streams that a query joins are ranked."""
KEY_BUCKETS = 256

# by the name of its key: a multiple of the mean for every bucket
KeyTables = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class JoinKey:
    """One side of an equality between two sides of a join; ``text`` is over the columns of its own side."""

    join: str
    side: int
    text: str

    @property
    def table(self) -> str:
        """The name of the table that counts it."""
        return f"{self.join}.{self.side}: {self.text}"


@dataclass(frozen=True)
class KeyMatch:
    """A key of a stream's tuples, over the columns of the stream, and the table that states what it meets."""

    text: str
    table: str


def equal_keys(join: WindowJoin) -> Iterator[tuple[JoinKey, JoinKey]]:
    """The equalities between two sides, in both directions."""
    aliases = [side.alias for side in join.sides]
    for predicate in join.predicates:
        tree = predicate.tree.unnest()
        if not isinstance(tree, exp.EQ):
            continue
        keys = []
        for side in (Expression(tree.left), Expression(tree.right)):
            read = aliases_of(side, aliases)
            if len(read) == 1:
                keys.append(JoinKey(join.name, aliases.index(read.pop()), side.text))
        if len({key.side for key in keys}) == 2:
            yield keys[0], keys[1]
            yield keys[1], keys[0]


# by stream: for each side of a join that reads it, the keys that have to match
Matches = dict[str, list[tuple[KeyMatch, ...]]]


def key_matches(operators: Mapping[str, Operator]) -> Matches:
    """What decides how many matches a tuple of each stream finds in window joins."""
    found: Matches = {}
    for join in (o for o in operators.values() if isinstance(o, WindowJoin)):
        by_side: dict[int, list[KeyMatch]] = {}
        for own, other in equal_keys(join):
            prefix = f"{join.sides[own.side].alias}__"
            by_side.setdefault(own.side, []).append(KeyMatch(_over_stream(own.text, prefix), other.table))
        for side, matches in by_side.items():
            found.setdefault(join.sides[side].stream, []).append(tuple(matches))
    return found


def _over_stream(text: str, prefix: str) -> str:
    """A key over the columns of a side as one over those of its stream."""
    key = Expression.parse(text)
    columns = {name: exp.column(name.removeprefix(prefix), quoted=True) for name in key.columns}
    return key.over(columns).text
