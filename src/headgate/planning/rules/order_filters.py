"""Predicates of a selection are asked by rank: those first that take away most for what they cost."""

from __future__ import annotations

from dataclasses import replace

from headgate.model.expression import Expression
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
from headgate.planning.predicates import forms_of, shown
from headgate.planning.statistics import Asked, Missing, Written


def order_filters(plan: LogicalPlan, statistics: Written) -> LogicalPlan:
    """Sort the predicates of every selection by cost / (1 - selectivity); those without figures stay last."""
    branches = (replace(b, input=_ordered(b.input, b, statistics)) for b in plan.branches)
    return replace(plan, branches=tuple(branches))


def _ordered(node: Node, top: Project, statistics: Written) -> Node:
    if isinstance(node, Filter):
        predicates = sorted(node.predicates, key=lambda p: _rank(p, top, statistics))
        return Filter(_ordered(node.input, top, statistics), tuple(predicates))
    if isinstance(node, WindowJoin):
        return replace(node, inputs=tuple(_ordered(side, top, statistics) for side in node.inputs))
    if isinstance(node, (RelationJoin, Aggregate, Project)):
        return replace(node, input=_ordered(node.input, top, statistics))
    return node


def _rank(predicate: Expression, top: Project, statistics: Written) -> float:
    own, missing = tuple(scans(top)), Missing()
    [known] = statistics.selections([Asked(shown(predicate, own), forms_of(predicate, own), "")], missing)
    return float("inf") if missing.what else known.rank
