"""Rules of the optimizer: one file, one function and one case file each; all of the same signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from headgate.planning.logical import LogicalPlan
from headgate.planning.plan_statistics import Context
from headgate.planning.rules.order_filters import order_filters
from headgate.planning.rules.prune_columns import prune_columns
from headgate.planning.rules.push_down_selection import push_down_selection
from headgate.planning.rules.scale_aggregates import scale_aggregates

Rule = Callable[[LogicalPlan, Context], LogicalPlan]
Plan = TypeVar("Plan", bound=LogicalPlan)

# columns are pruned last, when predicates have reached their place
RULES: tuple[Rule, ...] = (scale_aggregates, push_down_selection, order_filters, prune_columns)


def optimize(plan: Plan, context: Context | None = None) -> Plan:
    """The plan after every rule; without statistics, predicates keep the order in which they were written.

    Runs plan without statistics: a checkpoint outlives a change of the predicate order, which the engine
    therefore keeps beside the network.
    """
    optimized: LogicalPlan = plan
    for rule in RULES:
        optimized = rule(optimized, context or Context())
    derived = tuple(optimize(stream, context) for stream in plan.derived)
    # rules change what a plan consists of, not what it is
    return cast(Plan, replace(optimized, derived=derived))
