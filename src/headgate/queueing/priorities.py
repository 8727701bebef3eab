"""A pool of processors under static priorities: Cobham's waiting times, composed along paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from headgate.model.operator import Input, OperatorInput, StreamInput
from headgate.queueing.delay import Delay, fixed, order_delay
from headgate.queueing.faults import WrongFigure
from headgate.queueing.figures import PathFigures, PlanFigures, put_together
from headgate.queueing.models import check_load, check_processors, waiting_share
from headgate.queueing.plan import Plan
from headgate.queueing.work import Work, thinned, together, work_of

Edge = tuple[str, str]
"""From a stream or operator to an operator."""


@dataclass(frozen=True)
class ByPriority:
    """Operators of the lowest ``levels`` go first; a tuple in service is not interrupted.

    A tuple that comes to an operator of the same or a lower level than the one it leaves goes on at once.
    Where the level rises it waits, as a class of Cobham's formula. That tuples come there as a Poisson
    stream, and that waits do not depend on each other, is an approximation.
    """

    levels: Mapping[str, int]
    processors: int = 1

    def __post_init__(self) -> None:
        check_processors(self.processors)

    def with_processors(self, processors: int) -> ByPriority:
        """The same with another number of processors."""
        return ByPriority(self.levels, processors)

    def figures(self, plan: Plan) -> PlanFigures:
        """All figures; raises ``Overloaded`` where queues grow without end."""
        for name in plan.network.operators:
            if name not in self.levels:
                raise WrongFigure(f"operator {name} has no priority; give every operator a level")
        check_load(plan.load, self.processors)
        waits = _Classes.of(plan, self.levels, self.processors).waits()
        paths = tuple(
            PathFigures(query, path, _along(plan, path, waits))
            for query in plan.network.queries
            for path in plan.paths_of(query)
        )
        delays = {name: _before(plan, name, waits) for name in plan.network.operators}
        return put_together(plan, plan.load / self.processors, delays, paths)


def _along(plan: Plan, path: tuple[str, ...], waits: Mapping[Edge, Delay]) -> Delay:
    """All waits and services on a path; it begins at the stream that its first operator waits longest for."""
    total = order_delay(plan.order_waits(path)) or fixed(0.0)
    first = [waits[edge] for edge in _edges(plan, path[0]) if edge in waits]
    total += max(first, key=lambda delay: delay.mean_s)
    for edge in pairwise(path):
        total += waits.get(edge, fixed(0.0))
    return total + fixed(sum(plan.seconds(name) for name in path))


def _before(plan: Plan, name: str, waits: Mapping[Edge, Delay]) -> Delay:
    """The wait before an operator over all of its inputs, and its service."""
    mean_s = squared = none = total = 0.0
    for source in dict.fromkeys(plan.network.operators[name].inputs):
        wait, rate = waits.get((str_of(source), name), fixed(0.0)), plan.rate_from(source, name)
        total += rate
        mean_s += rate * wait.mean_s
        squared += rate * (wait.var_s + wait.mean_s**2)
        none += rate * wait.chance_none
    served = fixed(plan.seconds(name))
    if total == 0:
        return served
    mean_s /= total
    return Delay(mean_s, max(0.0, squared / total - mean_s**2), 0.0, none / total) + served


def str_of(source: Input) -> str:
    """The name of an input."""
    return source.operator if isinstance(source, OperatorInput) else source.stream


def _edges(plan: Plan, operator: str) -> list[Edge]:
    return [(str_of(source), operator) for source in plan.network.operators[operator].inputs]


@dataclass(frozen=True)
class _Classes:
    """Where tuples wait, by what they come from: copies of one tuple come at once."""

    plan: Plan
    levels: Mapping[str, int]
    processors: int
    cuts: frozenset[Edge]
    groups: tuple[tuple[float, tuple[Edge, ...]], ...]
    work: Mapping[str, Work]

    @staticmethod
    def of(plan: Plan, levels: Mapping[str, int], processors: int) -> _Classes:
        """A class begins at a stream, and where the level rises."""
        rates: dict[str, float] = {}
        groups: dict[str, list[Edge]] = {}
        for name, operator in plan.network.operators.items():
            for source in dict.fromkeys(operator.inputs):
                if not isinstance(source, OperatorInput) or levels[source.operator] < levels[name]:
                    place = str_of(source)
                    groups.setdefault(place, []).append((place, name))
                    from_stream = isinstance(source, StreamInput)
                    # of what a stream brings, a query may drop some
                    rates[place] = plan.rates[place] if from_stream else plan.rate_from(source, name)
        cuts = frozenset(edge for edges in groups.values() for edge in edges)
        return _Classes(
            plan,
            levels,
            processors,
            cuts,
            tuple((rates[place], tuple(edges)) for place, edges in groups.items()),
            {
                name: thinned(work, plan.kept_by(name) if plan.leaf_rate(name) else 1.0)
                for name, work in work_of(plan, cuts).items()
            },
        )

    def waits(self) -> dict[Edge, Delay]:
        """The wait of every class."""
        return {edge: self._wait(edge, edges) for _, edges in self.groups for edge in edges}

    def _wait(self, edge: Edge, together_with: tuple[Edge, ...]) -> Delay:
        """Cobham's mean and the second moment with it; then the tuple's own copies that go first."""
        plan, k, level = self.plan, self.processors, self.levels[edge[1]]
        before, up_to = self._load(level - 1), self._load(level)
        # less urgent work is left after the operator that is under way
        second, third = (self._under_way(level, power) for power in (2, 3))
        second_before, second_up_to = self._squares(level - 1, 2), self._squares(level, 2)
        second, third = second + second_up_to, third + self._squares(level, 3)
        idle_before, idle = 1 - before, 1 - up_to
        mean_s = second / (2 * idle_before * idle)
        squared = (
            third / (3 * idle_before**2 * idle)
            + second * second_up_to / (2 * idle_before**2 * idle**2)
            + second * second_before / (2 * idle_before**3 * idle)
        )
        share = waiting_share(k, plan.load / k)
        mean_s, squared = share * mean_s, share * squared
        wait = Delay(mean_s, max(0.0, squared - mean_s**2), 0.0, max(0.0, 1 - share * plan.load / k))
        first = [e for e in together_with if self.levels[e[1]] < level and e != edge] if k == 1 else []
        copies_s = sum(p * s for e in first for p, s in self.work[e[1]])
        return wait + fixed(copies_s / idle_before)

    def _squares(self, level: int, power: int) -> float:
        """Work of up to a level that comes at once, to a power, a second."""
        total = 0.0
        for rate, edges in self.groups:
            urgent = [self.work[reader] for _, reader in edges if self.levels[reader] <= level]
            if urgent:
                total += rate * sum(p * (s / self.processors) ** power for p, s in together(urgent))
        return total

    def _load(self, level: int) -> float:
        """Utilisation by classes of up to a level, with all that goes on at once behind them."""
        return sum(
            rate * sum(p * s for p, s in self.work[reader]) / self.processors
            for rate, edges in self.groups
            for _, reader in edges
            if self.levels[reader] <= level
        )

    def _under_way(self, level: int, power: int) -> float:
        """Services of classes above a level, to a power, a second: operator by operator."""
        total = 0.0
        for rate, edges in self.groups:
            for edge in edges:
                if self.levels[edge[1]] > level:
                    kept = self.plan.kept_by(edge[1]) if edge[0] in self.plan.rates else 1.0
                    total += rate * kept * self._services(edge[1], power)
        return total

    def _services(self, operator: str, power: int) -> float:
        own = (self.plan.seconds(operator) / self.processors) ** power
        further = sum(
            self._services(reader, power)
            for reader in self.plan.network.readers(operator)
            if (operator, reader) not in self.cuts
        )
        return own + self.plan.profile[operator].selectivity * further
