"""Networks of placed operators, each with its own capacity, and the orders in which tuples may visit them.

A *state* identifies a history: for ``AnyOrder`` the bitmap of visited operators, for ``Paths`` a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError, known_names
from headgate.model.profile import in_sequence

Moves = tuple[tuple[str, int], ...]

_MOST_STATES = 1 << 17
# bits of a bitmap of 64, without the sign
MOST_OPERATORS = 62


@dataclass(frozen=True)
class AnyOrder:
    """All operators in any order, except that of each pair in ``before`` the first precedes the second."""

    name: str
    source: str
    operators: tuple[str, ...]
    before: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_operators(self.name, "any_order", self.operators)
        if self.before and len(self.operators) > MOST_OPERATORS:
            many = f"plans.{self.name}.any_order has {len(self.operators)} operators"
            raise SetupError(f"{many}; with before, write {MOST_OPERATORS} at most")
        for pair in self.before:
            for operator in pair:
                if operator not in self.operators:
                    where = f"plans.{self.name}.before"
                    raise SetupError(f"{where} names {operator!r}, which is not in any_order")
        try:
            TopologicalSorter(self._firsts).prepare()
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise SetupError(f"plans.{self.name}.before forms a cycle: {circle}; break it") from None

    @cached_property
    def _firsts(self) -> dict[str, set[str]]:
        return {op: {first for first, then in self.before if then == op} for op in self.operators}

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """For every operator, the bitmap of the operators that must precede it."""
        bit = {operator: 1 << place for place, operator in enumerate(self.operators)}
        return tuple(sum(bit[first] for first in self._firsts[operator]) for operator in self.operators)

    def moves(self, state: int) -> Moves:
        """The operators that a tuple of this history is ready for, and its history after each."""
        return tuple(
            (operator, state | 1 << place)
            for place, (operator, need) in enumerate(zip(self.operators, self.needs, strict=True))
            if not state >> place & 1 and need & ~state == 0
        )

    def done(self, state: int) -> tuple[str, ...]:
        return tuple(op for place, op in enumerate(self.operators) if state >> place & 1)

    def cheapest(self, costs: Mapping[str, float], selectivities: Mapping[str, float]) -> tuple[str, ...]:
        """The order of least cost per tuple; ``costs`` are per tuple that reaches an operator."""
        if not self.before:
            return tuple(sorted(self.operators, key=lambda op: -_rank(costs[op], selectivities[op])))
        # dynamic programming over histories, from the full to the empty one: remaining cost per tuple
        own = np.array([(costs[operator], selectivities[operator]) for operator in self._sorted])
        remaining, best = np.zeros(1), list[NDArray[np.int64]]()
        for is_ready, after in reversed(self._levels):
            through = np.where(is_ready, own[:, :1] + own[:, 1:] * remaining[after], np.inf)
            best.append(through.argmin(axis=0))
            remaining = through.min(axis=0)
        order, at = [], 0
        for choices, (_, after) in zip(reversed(best), self._levels, strict=True):
            order.append(self._sorted[choices[at]])
            at = after[choices[at], at]
        return tuple(order)

    @property
    def _sorted(self) -> list[str]:
        """Of operators that are equally good, the first by name is chosen."""
        return sorted(self.operators)

    @cached_property
    def _levels(self) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
        """For histories of each length but the full one: ready operators, and positions after each.

        Rows are operators by name, columns are histories; positions are those among the longer histories.
        """
        places = [self.operators.index(operator) for operator in self._sorted]
        bits = np.array([1 << place for place in places])[:, None]
        needs = np.array([self.needs[place] for place in places])[:, None]
        states, count, found = np.zeros(1, np.int64), 0, []
        for _ in self.operators:
            is_ready = (states & bits == 0) & (states & needs == needs)
            longer = np.unique((states | bits)[is_ready])
            count += len(states)
            if count + len(longer) > _MOST_STATES:
                raise SetupError(
                    f"plans.{self.name}: {len(self.operators)} operators with so few order constraints have "
                    f"over {_MOST_STATES:,} histories; add to before, or leave it out"
                )
            after = np.where(is_ready, np.searchsorted(longer, states | bits), 0)
            found.append((is_ready, after))
            states = longer
        return found


def _rank(cost: float, selectivity: float) -> float:
    """Tuples dropped per unit of cost; of two adjacent operators, the one with the higher rank goes first."""
    dropped = 1.0 - selectivity
    if cost > 0:
        return dropped / cost
    return 0.0 if dropped == 0 else float("inf") if dropped > 0 else float("-inf")


@dataclass(frozen=True)
class Paths:
    """A list of orders; each tuple follows one of them."""

    name: str
    source: str
    paths: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise SetupError(f'plans.{self.name}.paths is empty; write [["op1", "op2"]]')
        for path in self.paths:
            _check_operators(self.name, "paths", path)
            if self.paths.count(path) > 1:
                raise SetupError(f"plans.{self.name}.paths names {list(path)} twice; keep one of them")
            for other in self.paths:
                if path != other and path == other[: len(path)]:
                    raise SetupError(
                        f"plans.{self.name}.paths: {list(path)} is the beginning of {list(other)}; "
                        "a path ends where nothing is left to visit"
                    )

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(operator for path in self.paths for operator in path))

    @cached_property
    def states(self) -> list[tuple[frozenset[str], Moves]]:
        """Visited operators and moves of every state.

        Histories that agree in what was visited and in how they may continue are one state.
        """
        first = frozenset[str](), frozenset(self.paths)
        found, numbers = [first], {first: 0}
        states: list[tuple[frozenset[str], Moves]] = []
        for done, endings in found:
            moves = []
            for operator in dict.fromkeys(path[0] for path in sorted(endings) if path):
                after = done | {operator}, frozenset(path[1:] for path in endings if path[:1] == (operator,))
                if after not in numbers:
                    numbers[after] = len(found)
                    found.append(after)
                moves.append((operator, numbers[after]))
            states.append((done, tuple(moves)))
        return states

    def moves(self, state: int) -> Moves:
        return self.states[state][1]

    def done(self, state: int) -> tuple[str, ...]:
        return tuple(op for op in self.operators if op in self.states[state][0])

    def cheapest(self, costs: Mapping[str, float], selectivities: Mapping[str, float]) -> tuple[str, ...]:
        """The path of least cost per tuple; ``costs`` are per tuple that reaches an operator."""

        def cost(path: tuple[str, ...]) -> float:
            return in_sequence((costs[operator], selectivities[operator]) for operator in path)[0]

        return min(self.paths, key=cost)


def _check_operators(plan: str, key: str, operators: Sequence[str]) -> None:
    if not operators:
        raise SetupError(f'plans.{plan}.{key} is empty; write ["op1", "op2"]')
    for operator in operators:
        if operators.count(operator) > 1:
            raise SetupError(f"plans.{plan}.{key} names {operator!r} twice; a tuple visits an operator once")


RoutingPlan = AnyOrder | Paths

SHARED = "shared"
"""Server of all operators that share one freely divided resource."""


@dataclass(frozen=True)
class PlacedOperator:
    """An operator; a tuple consumes ``per_tuple`` of its own resource, its node's, or the shared one."""

    name: str
    per_tuple: float
    selectivity: float | Mapping[str, float] = 1.0
    resource: float | None = None
    node: str | None = None

    def selectivity_of(self, source: str) -> float:
        return self.selectivity[source] if isinstance(self.selectivity, Mapping) else self.selectivity


@dataclass(frozen=True)
class RoutingNetwork:
    """Sources, placed operators and plans; every operator is reached by a plan and has a resource."""

    rates: Mapping[str, float | None]
    """Tuples per second of every source; None where only the ratios of an optimal routing are needed."""
    operators: Mapping[str, PlacedOperator]
    plans: Mapping[str, RoutingPlan]
    max_queue: float = 10_000.0
    nodes: Mapping[str, float] = field(default_factory=dict)
    total_resource: float | None = None

    def __post_init__(self) -> None:
        for plan in self.plans.values():
            self._check_plan(plan)
        reached = {name for plan in self.plans.values() for name in plan.operators}
        for operator in self.operators.values():
            if operator.name not in reached:
                raise SetupError(f"operators.{operator.name} is in no plan; name it in one or leave it out")
            self._check_resource(operator)
        for source in self.rates:
            if not any(plan.source == source for plan in self.plans.values()):
                raise SetupError(f"sources.{source} feeds no plan; name it in one or leave it out")
        if self.total_resource is not None and SHARED not in self.servers:
            mend = "leave out the resource of those that share"
            raise SetupError(f"total_resource is used by no operator; {mend}")

    def _check_plan(self, plan: RoutingPlan) -> None:
        if plan.source not in self.rates:
            known = known_names(list(self.rates))
            raise SetupError(f"plans.{plan.name}.source = {plan.source!r} is not a source; known: {known}")
        for name in plan.operators:
            if name not in self.operators:
                known = known_names(list(self.operators))
                raise SetupError(f"plans.{plan.name} names the unknown operator {name!r}; known: {known}")
            selectivity = self.operators[name].selectivity
            if isinstance(selectivity, Mapping) and plan.source not in selectivity:
                raise SetupError(
                    f"operators.{name}.selectivity has no value for source {plan.source}, "
                    f"whose tuples plans.{plan.name} sends there; add {plan.source} = 0.5"
                )

    def _check_resource(self, operator: PlacedOperator) -> None:
        where, node = f"operators.{operator.name}", operator.node
        if node is not None and node not in self.nodes:
            known = known_names(list(self.nodes))
            raise SetupError(f"{where}.node = {node!r} is not a node; known: {known}")
        if node is not None and operator.resource is not None:
            raise SetupError(f"{where} has both a node and a resource; keep one of them")
        if node is None and operator.resource is None and self.total_resource is None:
            raise SetupError(
                f"{where}.resource is missing; write a number above 0, "
                "or total_resource at the top for a resource that operators share"
            )

    def server_of(self, operator: str) -> str:
        """The server of an operator: the operator itself, its node, or the shared resource."""
        placed = self.operators[operator]
        if placed.resource is not None:
            return placed.name
        return SHARED if placed.node is None else f"node {placed.node}"

    @cached_property
    def servers(self) -> dict[str, float]:
        resources = {f"node {name}": resource for name, resource in self.nodes.items()}
        resources |= {SHARED: self.total_resource or 0.0}
        servers = {self.server_of(name): placed.resource for name, placed in self.operators.items()}
        return {name: resources[name] if own is None else own for name, own in servers.items()}

    def shares(self) -> dict[str, float]:
        """Share of every source in the total rate; equal shares where no rates are given."""
        known = {name: rate for name, rate in self.rates.items() if rate is not None}
        if not known:
            return {name: 1.0 / len(self.rates) for name in self.rates}
        for name in self.rates:
            if name not in known:
                raise SetupError(f"sources.{name}.rate is missing; other sources have one")
        total = sum(known.values())
        if total <= 0:
            raise SetupError("the rates of the sources sum to 0; at least one must be above 0")
        return {name: rate / total for name, rate in known.items()}

    @property
    def total_rate(self) -> float | None:
        """Tuples per second of all sources together."""
        rates = [rate for rate in self.rates.values() if rate is not None]
        return sum(rates) if rates else None
