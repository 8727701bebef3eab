"""Placed operators: each with a capacity of its own, visited in any order that its plan allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headgate.errors import SetupError, known_names
from headgate.routing.plans import AnyOrder, Paths

RoutingPlan = AnyOrder | Paths

# all that share one freely divided resource
SHARED = "shared"


@dataclass(frozen=True)
class PlacedOperator:
    """An operator; every tuple takes ``per_tuple`` of a resource: its own, its node's or the shared one."""

    name: str
    per_tuple: float
    selectivity: float | Mapping[str, float] = 1.0
    resource: float | None = None
    node: str | None = None

    def selectivity_of(self, source: str) -> float:
        """Results per tuple that comes from a source."""
        if isinstance(self.selectivity, Mapping):
            return self.selectivity[source]
        return self.selectivity


@dataclass(frozen=True)
class RoutingNetwork:
    """Sources, placed operators and plans; cannot be built with an operator nobody reaches or serves."""

    rates: Mapping[str, float | None]
    """Tuples a second of every source; None where only ratios of optimal routing are asked for."""
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
            raise SetupError(
                "total_resource is used by no operator; leave out the resource of those that share"
            )

    def _check_plan(self, plan: RoutingPlan) -> None:
        if plan.source not in self.rates:
            known = known_names(list(self.rates))
            raise SetupError(f"plans.{plan.name}.source = {plan.source!r} is no source; known: {known}")
        for name in plan.operators:
            if name not in self.operators:
                known = known_names(list(self.operators))
                raise SetupError(
                    f"plans.{plan.name} names an operator {name!r} that there is not; known: {known}"
                )
            selectivity = self.operators[name].selectivity
            if isinstance(selectivity, Mapping) and plan.source not in selectivity:
                raise SetupError(
                    f"operators.{name}.selectivity says nothing about source {plan.source}, "
                    f"which plans.{plan.name} sends there; add {plan.source} = 0.5"
                )

    def _check_resource(self, operator: PlacedOperator) -> None:
        if operator.node is not None and operator.node not in self.nodes:
            known = known_names(list(self.nodes))
            raise SetupError(f"operators.{operator.name}.node = {operator.node!r} is no node; known: {known}")
        if operator.node is not None and operator.resource is not None:
            raise SetupError(
                f"operators.{operator.name} has a node and a resource of its own; keep one of them"
            )
        if operator.node is None and operator.resource is None and self.total_resource is None:
            raise SetupError(
                f"operators.{operator.name}.resource is missing; write a number above 0, "
                "or total_resource at the top for a resource that operators share"
            )

    def server_of(self, operator: str) -> str:
        """What serves an operator: itself, its node, or the shared resource."""
        placed = self.operators[operator]
        if placed.resource is not None:
            return placed.name
        return SHARED if placed.node is None else f"node {placed.node}"

    @cached_property
    def servers(self) -> dict[str, float]:
        """The resource of every server."""
        found: dict[str, float] = {}
        for name, operator in self.operators.items():
            resource = operator.resource
            if resource is None:
                resource = self.total_resource if operator.node is None else self.nodes[operator.node]
            assert resource is not None
            found[self.server_of(name)] = resource
        return found

    def shares(self) -> dict[str, float]:
        """The part of every source in the total rate; equal parts where no rates are given."""
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
        """Tuples a second of all sources together."""
        rates = [rate for rate in self.rates.values() if rate is not None]
        return sum(rates) if rates else None
