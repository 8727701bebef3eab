"""Scans keep the columns that something above them reads, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from headgate.model.expression import Expression, column_of
from headgate.planning.logical import (
    Aggregate,
    Filter,
    LogicalPlan,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    StreamScan,
)

Columns = frozenset[str]
AnyScan = TypeVar("AnyScan", StreamScan, RelationScan)


def prune_columns(plan: LogicalPlan) -> LogicalPlan:
    """Drop the columns that no expression reads; keys of windows are read before, off the raw stream."""
    branches = (_pruned_project(branch) for branch in plan.branches)
    return replace(plan, branches=tuple(branches))


def _pruned_project(node: Project) -> Project:
    return replace(node, input=_pruned(node.input, _read(item.expression for item in node.items)))


def _pruned(node: Node, needed: Columns) -> Node:
    if isinstance(node, StreamScan):
        return _pruned_scan(node, needed)
    if isinstance(node, RelationScan):
        return _pruned_scan(node, needed)
    if isinstance(node, Project):
        return _pruned_project(node)
    if isinstance(node, Aggregate):
        arguments = (call.argument for call in node.aggregates if call.argument is not None)
        below = _read([*(key.expression for key in node.keys), *arguments])
        return replace(node, input=_pruned(node.input, below))
    needed = needed | _read(node.predicates)
    if isinstance(node, Filter):
        return replace(node, input=_pruned(node.input, needed))
    if isinstance(node, RelationJoin):
        return replace(node, input=_pruned(node.input, needed), relation=_pruned_scan(node.relation, needed))
    return replace(node, inputs=tuple(_pruned(side, needed) for side in node.inputs))


def _pruned_scan(scan: AnyScan, needed: Columns) -> AnyScan:
    kept = tuple(name for name in scan.columns if column_of(scan.alias, name) in needed)
    return replace(scan, columns=kept)


def _read(expressions: Iterable[Expression]) -> Columns:
    return frozenset(column for expression in expressions for column in expression.columns)
