"""Plans: which orders of operators a tuple may take.

A state stands for a history: for ``AnyOrder`` it is the bitmap of operators done, for ``Paths`` a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from headgate.errors import SetupError

Moves = tuple[tuple[str, int], ...]

_MOST_STATES = 1 << 17


@dataclass(frozen=True)
class AnyOrder:
    """All operators in any order, but for pairs of which one comes ``before`` the other."""

    name: str
    source: str
    operators: tuple[str, ...]
    before: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_operators(self.name, "any_order", self.operators)
        for pair in self.before:
            for operator in pair:
                if operator not in self.operators:
                    raise SetupError(
                        f"plans.{self.name}.before names {operator!r}, which is not in any_order"
                    )
        try:
            TopologicalSorter(self._firsts).prepare()
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise SetupError(f"plans.{self.name}.before forms a cycle: {circle}; break it") from None

    @cached_property
    def _firsts(self) -> dict[str, set[str]]:
        return {
            operator: {first for first, then in self.before if then == operator}
            for operator in self.operators
        }

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """For every operator, the bitmap of those that must be done before it."""
        bit = {operator: 1 << place for place, operator in enumerate(self.operators)}
        return tuple(sum(bit[first] for first in self._firsts[operator]) for operator in self.operators)

    def moves(self, state: int) -> Moves:
        """The operators that a tuple of this history is ready for, and its history after each."""
        found = []
        for place, (operator, need) in enumerate(zip(self.operators, self.needs, strict=True)):
            if not state >> place & 1 and need & ~state == 0:
                found.append((operator, state | 1 << place))
        return tuple(found)

    def done(self, state: int) -> tuple[str, ...]:
        """The operators of a history."""
        return tuple(op for place, op in enumerate(self.operators) if state >> place & 1)

    def cheapest(self, costs: Mapping[str, float], selectivities: Mapping[str, float]) -> tuple[str, ...]:
        """The order in which a tuple costs least, every operator having a cost for what reaches it."""
        if not self.before:
            return tuple(sorted(self.operators, key=lambda op: -_rank(costs[op], selectivities[op])))
        return self._cheapest_by_states(costs, selectivities)

    def _cheapest_by_states(
        self, costs: Mapping[str, float], selectivities: Mapping[str, float]
    ) -> tuple[str, ...]:
        """Histories from the fullest to the empty one: what is still to pay, per tuple there."""
        full = (1 << len(self.operators)) - 1
        to_pay: dict[int, tuple[float, str, int]] = {full: (0.0, "", full)}
        for state, moves in reversed(self._reachable):
            to_pay[state] = min(
                (costs[operator] + selectivities[operator] * to_pay[after][0], operator, after)
                for operator, after in moves
            )
        order, state = [], 0
        while state != full:
            _, operator, state = to_pay[state]
            order.append(operator)
        return tuple(order)

    @cached_property
    def _reachable(self) -> tuple[tuple[int, Moves], ...]:
        """Every history but the full one, with its moves, fewer operators first."""
        level, found = {0}, []
        for _ in self.operators:
            following: set[int] = set()
            for state in sorted(level):
                moves = self.moves(state)
                found.append((state, moves))
                following.update(after for _, after in moves)
            if len(found) + len(following) > _MOST_STATES:
                raise SetupError(
                    f"plans.{self.name}: {len(self.operators)} operators with so few order constraints have "
                    f"over {_MOST_STATES} histories; add to before, or leave it out"
                )
            level = following
        return tuple(found)


def _rank(cost: float, selectivity: float) -> float:
    """What a unit of cost takes away: adjacent operators are in the better order if the first has more."""
    gone = 1.0 - selectivity
    if cost > 0:
        return gone / cost
    return 0.0 if gone == 0 else float("inf") if gone > 0 else float("-inf")


@dataclass(frozen=True)
class Paths:
    """A list of orders, of which a tuple takes one."""

    name: str
    source: str
    paths: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise SetupError(f'plans.{self.name}.paths is empty; write [["op1", "op2"]]')
        for path in self.paths:
            _check_operators(self.name, "paths", path)
            for other in self.paths:
                if path != other and path == other[: len(path)]:
                    raise SetupError(
                        f"plans.{self.name}.paths: {list(path)} is the beginning of {list(other)}; "
                        "a path ends where nothing is left to visit"
                    )

    @property
    def operators(self) -> tuple[str, ...]:
        """All operators of any path."""
        return tuple(dict.fromkeys(operator for path in self.paths for operator in path))

    @cached_property
    def _states(self) -> list[tuple[frozenset[str], frozenset[tuple[str, ...]]]]:
        """What is done and how it may go on: histories that differ in neither are one state."""
        states = [(frozenset[str](), frozenset(self.paths))]
        for done, endings in states:
            for operator in dict.fromkeys(path[0] for path in sorted(endings) if path):
                after = done | {operator}, _after(endings, operator)
                if after not in states:
                    states.append(after)
        return states

    @cached_property
    def _moves(self) -> list[Moves]:
        numbers = {state: number for number, state in enumerate(self._states)}
        return [
            tuple(
                (operator, numbers[done | {operator}, _after(endings, operator)])
                for operator in dict.fromkeys(path[0] for path in sorted(endings) if path)
            )
            for done, endings in self._states
        ]

    @property
    def states(self) -> int:
        """How many histories there are."""
        return len(self._states)

    def moves(self, state: int) -> Moves:
        """The operators that a tuple of this history is ready for, and its history after each."""
        return self._moves[state]

    def done(self, state: int) -> tuple[str, ...]:
        """The operators of a history."""
        return tuple(op for op in self.operators if op in self._states[state][0])

    def cheapest(self, costs: Mapping[str, float], selectivities: Mapping[str, float]) -> tuple[str, ...]:
        """The path on which a tuple costs least, every operator having a cost for what reaches it."""

        def cost(path: tuple[str, ...]) -> float:
            reached, total = 1.0, 0.0
            for operator in path:
                total += reached * costs[operator]
                reached *= selectivities[operator]
            return total

        return min(self.paths, key=cost)


def _after(endings: frozenset[tuple[str, ...]], operator: str) -> frozenset[tuple[str, ...]]:
    return frozenset(path[1:] for path in endings if path and path[0] == operator)


def _check_operators(plan: str, key: str, operators: Sequence[str]) -> None:
    if not operators:
        raise SetupError(f'plans.{plan}.{key} is empty; write ["op1", "op2"]')
    for operator in operators:
        if operators.count(operator) > 1:
            raise SetupError(f"plans.{plan}.{key} names {operator!r} twice; a tuple visits an operator once")
