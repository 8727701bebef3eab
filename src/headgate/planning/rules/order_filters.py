"""Predicates of a selection are asked by rank: those first that take away most for what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    WindowJoin,
    scans,
)
from headgate.planning.predicates import Running, asked_of
from headgate.planning.statistics import Missing, Statistics


def order_filters(plan: LogicalPlan, statistics: Statistics, running: Running = str) -> LogicalPlan:
    """Sort the predicates of every selection by cost / (1 - selectivity); those without figures stay last.

    ``running`` tells which operator does the work of another, whose figures are known.
    """
    branches = (
        replace(branch, input=_Branch(name, branch, statistics, running).ordered(branch.input))
        for name, branch in plan.named_branches()
    )
    return replace(plan, branches=tuple(branches))


@dataclass(frozen=True)
class _Branch:
    name: str
    top: Project
    statistics: Statistics
    running: Running

    def ordered(self, node: Node) -> Node:
        if isinstance(node, Filter):
            return self._by_rank(replace(node, input=self.ordered(node.input)))
        if isinstance(node, WindowJoin):
            return replace(node, inputs=tuple(map(self.ordered, node.inputs)))
        if isinstance(node, (RelationJoin, Aggregate, Project)):
            return replace(node, input=self.ordered(node.input))
        return node

    def _by_rank(self, node: Filter) -> Filter:
        operator = self.running(f"{self.name}.{node.role}")
        asked = asked_of(node.predicates, tuple(scans(self.top)), operator)
        known = self.statistics.selections(asked, Missing())
        if len(known) < len(asked):
            # known as a whole: nothing tells one predicate from another
            return node
        ranks = [one.rank for one in known]
        places = sorted(range(len(ranks)), key=ranks.__getitem__)
        return replace(node, predicates=tuple(node.predicates[place] for place in places))
