"""Visit rules: which operators of an eddy a tuple may visit next, given those it has visited.

A history is a bitmap of visited operators. In the eddy of a join, a tuple starts as if it had visited the
window of its own side; it may visit a window once a predicate links it to a visited one, and a placed
predicate once the columns that it reads are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.model.joins import aliases_of
from headgate.model.operator import ByTruth, ByValue, Eddy, JoinEddy


@dataclass(frozen=True)
class VisitRules:
    """The operators (*steps*) of an eddy by name; ``plans`` and ``needs`` are by the side of the tuple."""

    names: tuple[str, ...]
    pools: tuple[str, ...]
    probes: int
    """Number of steps that probe windows; they come first, in the order of the sides."""
    plans: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]
    """For every step, the bitmap of the steps that must precede it."""

    @property
    def full(self) -> int:
        """The history of a finished tuple."""
        return (1 << len(self.names)) - 1

    def first(self, side: int) -> int:
        """The history of a new tuple."""
        return 1 << side if self.probes else 0

    def eligible(self, side: int, done: int) -> list[int]:
        needs = self.needs[side]
        return [step for step, need in enumerate(needs) if not done >> step & 1 and not need & ~done]

    def visited(self, side: int, done: int) -> list[str]:
        """The names of the steps in a history, without the window of the tuple's own side."""
        done &= ~self.first(side)
        return [name for step, name in enumerate(self.names) if done >> step & 1]

    def histories(self, side: int) -> Iterator[int]:
        """All histories of unfinished tuples, in the order of their lengths."""
        level = {self.first(side)}
        while level:
            yield from sorted(level)
            after = {done | 1 << step for done in level for step in self.eligible(side, done)}
            level = after - {self.full}

    def before(self, side: int) -> tuple[tuple[str, str], ...]:
        """The needs as pairs of names, without the window of the tuple's own side."""
        return tuple(
            (first, self.names[step])
            for step in self.others(side)
            for first in self.visited(side, self.needs[side][step])
        )

    def others(self, side: int) -> list[int]:
        """The steps that tuples of a side must visit."""
        return [step for step in range(len(self.names)) if not self.first(side) >> step & 1]


def visit_rules(eddy: Eddy) -> VisitRules:
    """The rules of an eddy; without probes, all steps commute."""
    names = tuple(f"{eddy.name}.{number}" for number in range(len(eddy.steps)))
    pools = tuple(step.pool for step in eddy.steps)
    if not isinstance(eddy, JoinEddy):
        return VisitRules(names, pools, 0, (eddy.name,), ((0,) * len(names),))
    aliases = [probe.alias for probe in eddy.probes]
    read = []
    for predicate in eddy.predicates:
        verdict = predicate.verdict
        assert not isinstance(verdict, ByValue), f"{predicate} is evaluated above the join"
        compared = verdict.if_true if isinstance(verdict, ByTruth) else verdict.other
        used = set().union(*(aliases_of(e, aliases) for e in (*predicate.arguments, compared)))
        read.append(sum(1 << side for side, alias in enumerate(aliases) if alias in used))
    needs = []
    for side in range(len(aliases)):
        linked = [0 if parent is None else 1 << parent for parent in probe_parents(eddy, side)]
        needs.append((*linked, *read))
    plans = tuple(f"{eddy.name}.{alias}" for alias in aliases)
    return VisitRules(names, pools, len(aliases), plans, tuple(needs))


def probe_parents(eddy: JoinEddy, side: int) -> list[int | None]:
    """For every window, the side whose columns tuples of ``side`` probe it with.

    None for the side itself, and where no predicate links two sides: then all tuples of the window match.
    """
    aliases = [probe.alias for probe in eddy.probes]
    pairs = {frozenset(aliases_of(p, aliases)) for p in eddy.matches}
    parents: list[int | None] = [None] * len(aliases)
    left = [other for other in range(len(aliases)) if other != side]
    reached = [side]
    while left:
        for known in reached:
            for other in [o for o in left if frozenset({aliases[known], aliases[o]}) in pairs]:
                parents[other] = known
                left.remove(other)
                reached.append(other)
        if left:
            reached.append(left.pop(0))
    return parents
