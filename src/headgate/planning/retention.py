"""How long joins keep tuples of unbounded streams: WITH (retention = '1 h'), and joins that need an end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headgate.errors import QueryError, Span
from headgate.model.joins import kind_of_join
from headgate.model.window import TimeWindow, UnboundedWindow
from headgate.planning.logical import (
    DerivedPlan,
    LogicalPlan,
    Node,
    Project,
    StreamScan,
    WindowJoin,
    nodes,
    scans,
)


def with_retention(plan: LogicalPlan, retention_us: int, span: Span) -> LogicalPlan:
    """The plan with unbounded windows of joins that keep tuples no longer than so long."""
    window = TimeWindow(retention_us)

    def change(_: str, __: Project, node: Node) -> Node:
        if not isinstance(node, WindowJoin):
            return node
        return replace(node, inputs=tuple(_within(side, window) for side in node.inputs))

    bounded = plan.rewritten(change)
    # its own subqueries too, but not the streams that others read
    own = f"{plan.query.name}."
    derived = (one.rewritten(change) if one.query.name.startswith(own) else one for one in plan.derived)
    bounded = replace(bounded, derived=tuple(derived))
    if bounded == plan:
        message = "retention is for [UNBOUNDED] streams of joins that no condition bounds"
        raise QueryError(f"{message}, and this query has none; leave it out", span)
    return bounded


def _within(side: Node, window: TimeWindow) -> Node:
    if isinstance(side, StreamScan) and isinstance(side.window, UnboundedWindow):
        return replace(side, window=window)
    return side


def check_ends(plans: Iterable[LogicalPlan]) -> None:
    """Reject an outer join that never knows of a tuple that it has no match."""
    found = ((plan, node) for plan in plans for branch in plan.branches for node in nodes(branch))
    for plan, join in ((plan, node) for plan, node in found if isinstance(node, WindowJoin)):
        for scan in (scan for side in join.preserved for scan in scans(side)):
            if isinstance(scan, StreamScan) and isinstance(scan.window, UnboundedWindow):
                kind = kind_of_join(join.operator.join).strip().upper()
                message = f"a tuple of {scan.alias} [UNBOUNDED] may still find a match in {kind} JOIN"
                # a derived stream belongs to no query that could say it
                retention = "" if isinstance(plan, DerivedPlan) else ", WITH (retention = '1 h')"
                hint = f"write [RANGE 1 HOUR]{retention} or a condition on both timestamps"
                raise QueryError(f"{message}; {hint}", next((p.span for p in join.predicates), None))
