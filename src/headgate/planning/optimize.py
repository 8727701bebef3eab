"""Optimize: an ordered tuple of rules, each a function from plan to plan."""

from __future__ import annotations

from collections.abc import Callable

from headgate.planning.logical import LogicalPlan
from headgate.planning.rules.prune_columns import prune_columns
from headgate.planning.rules.push_down_selection import push_down_selection
from headgate.planning.rules.scale_aggregates import scale_aggregates

Rule = Callable[[LogicalPlan], LogicalPlan]

# columns are pruned last, when predicates stand where they stay
RULES: tuple[Rule, ...] = (scale_aggregates, push_down_selection, prune_columns)


def optimize(plan: LogicalPlan, rules: tuple[Rule, ...] = RULES) -> LogicalPlan:
    """The plan after every rule."""
    for rule in rules:
        plan = rule(plan)
    return plan
