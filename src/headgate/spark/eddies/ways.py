"""Which steps of an eddy a tuple may take next, by what it has done.

A history is a bitmap. In the eddy of a join, the tuple of a side begins as if it had visited its own window;
it can go on to a window that a predicate links to what it has, and ask a predicate whose columns it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.model.joining import aliases_of
from headgate.model.operator import ByTruth, Eddy, JoinEddy, PlacedPredicate


@dataclass(frozen=True)
class Ways:
    """The steps by name; ``plans`` and ``needs`` are by the side that a tuple comes from."""

    names: tuple[str, ...]
    pools: tuple[str, ...]
    probes: int
    """So many of the first steps look into windows, those of the sides in their order."""
    plans: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]
    """For every step, the bitmap of those that must be done before it."""

    @property
    def full(self) -> int:
        """The history of a tuple that is through."""
        return (1 << len(self.names)) - 1

    def first(self, side: int) -> int:
        """The history that a tuple begins with."""
        return 1 << side if self.probes else 0

    def ready(self, side: int, done: int) -> list[int]:
        """The steps that may be next."""
        needs = self.needs[side]
        return [step for step, need in enumerate(needs) if not done >> step & 1 and not need & ~done]

    def visited(self, side: int, done: int) -> list[str]:
        """The names of a history's steps."""
        done &= ~self.first(side)
        return [name for step, name in enumerate(self.names) if done >> step & 1]

    def histories(self, side: int) -> Iterator[int]:
        """All that a tuple can have on its way."""
        level = {self.first(side)}
        while level:
            yield from sorted(level)
            after = {done | 1 << step for done in level for step in self.ready(side, done)}
            level = after - {self.full}

    def before(self, side: int) -> tuple[tuple[str, str], ...]:
        """The needs as pairs of names, without the window that the tuple comes from."""
        own = self.first(side)
        return tuple(
            (first, self.names[step])
            for step in self.others(side)
            for first in self.visited(side, self.needs[side][step] & ~own)
        )

    def others(self, side: int) -> list[int]:
        """The steps that tuples of a side have to take."""
        return [step for step in range(len(self.names)) if not self.first(side) >> step & 1]


def ways_of(eddy: Eddy) -> Ways:
    """The ways of an eddy; without probes, all steps commute."""
    names = tuple(f"{eddy.name}.{number}" for number in range(len(eddy.steps)))
    pools = tuple(step.pool for step in eddy.steps)
    if not isinstance(eddy, JoinEddy):
        return Ways(names, pools, 0, (eddy.name,), ((0,) * len(names),))
    aliases = [probe.alias for probe in eddy.probes]
    asked = [_bits(aliases, aliases_of_placed(p, aliases)) for p in eddy.predicates]
    needs = []
    for side in range(len(aliases)):
        linked = [0 if parent is None else 1 << parent for parent in parents(eddy, side)]
        needs.append((*linked, *asked))
    plans = tuple(f"{eddy.name}.{alias}" for alias in aliases)
    return Ways(names, pools, len(aliases), plans, tuple(needs))


def parents(eddy: JoinEddy, side: int) -> list[int | None]:
    """For every side, the one whose tuple its window is looked up with, for tuples that come from ``side``.

    None for the side itself, and where no predicate links two sides: then all tuples of the window match.
    """
    aliases = [probe.alias for probe in eddy.probes]
    pairs = {frozenset(aliases_of(p, aliases)) for p in eddy.matches}
    found: list[int | None] = [None] * len(aliases)
    left = [other for other in range(len(aliases)) if other != side]
    reached = [side]
    while left:
        for known in reached:
            for other in [o for o in left if frozenset({aliases[known], aliases[o]}) in pairs]:
                found[other] = known
                left.remove(other)
                reached.append(other)
        if left:
            reached.append(left.pop(0))
    return found


def aliases_of_placed(predicate: PlacedPredicate, aliases: Sequence[str]) -> set[str]:
    """The sides whose columns a placed predicate reads."""
    verdict = predicate.verdict
    told = verdict.if_true if isinstance(verdict, ByTruth) else verdict.other
    return set().union(*(aliases_of(e, aliases) for e in (*predicate.arguments, told)))


def _bits(aliases: Sequence[str], some: set[str]) -> int:
    return sum(1 << place for place, alias in enumerate(aliases) if alias in some)
