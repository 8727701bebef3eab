"""Predicates are evaluated by rank."""

from __future__ import annotations

from dataclasses import replace

from headgate.model.profile import order_by_rank
from headgate.planning import logical
from headgate.planning.logical import LogicalPlan, Node, scans
from headgate.planning.plan_statistics import Context, Missing, plan_predicates


def order_filters(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """Sort the predicates of every selection by rank: those first that drop most for their cost.

    Selections without statistics of every predicate keep their order.
    """
    statistics = context.statistics

    def change(prefix: str, top: logical.Project, node: Node) -> Node:
        if statistics is None or not isinstance(node, logical.Filter):
            return node
        operator = context.running(f"{prefix}.{node.role}")
        predicates = plan_predicates(node.predicates, scans(top), operator)
        known = statistics.selections(predicates, Missing())
        if len(known) < len(predicates):
            # statistics are known only for all of them together
            return node
        positions = order_by_rank([(one.seconds, one.selectivity) for one in known])
        return replace(node, predicates=tuple(node.predicates[position] for position in positions))

    return plan.rewritten(change)
