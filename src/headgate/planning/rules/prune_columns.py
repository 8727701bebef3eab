"""Scans read the columns that are used."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from headgate.planning import logical
from headgate.planning.logical import LogicalPlan, Node
from headgate.planning.plan_statistics import Context

AnyScan = TypeVar("AnyScan", bound=logical.Scan)


def prune_columns(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """Scans keep the columns that expressions above them read; window keys are read from the stream."""
    del context

    def change(_: str, top: logical.Project, node: Node) -> Node:
        if isinstance(node, logical.RelationJoin):
            return replace(node, relation=_pruned(node.relation, top))
        return _pruned(node, top) if isinstance(node, logical.Scan) else node

    return plan.rewritten(change)


def _pruned(scan: AnyScan, top: logical.Project) -> AnyScan:
    read = {column for expression in logical.expressions(top) for column in expression.columns}
    return replace(scan, columns=tuple(name for column, name in scan.plan_columns.items() if column in read))
