"""Rules of the optimizer: one file, one function and one case file each; all of the same signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from headgate.planning.logical import LogicalPlan
from headgate.planning.rules.order_filters import order_filters
from headgate.planning.rules.prune_columns import prune_columns
from headgate.planning.rules.push_down_selection import push_down_selection
from headgate.planning.rules.scale_aggregates import scale_aggregates
from headgate.planning.statistics import Context

Plan = TypeVar("Plan", bound=LogicalPlan)
Rule = Callable[[Plan, Context], Plan]

# columns are pruned last, when predicates have reached their place
RULES: tuple[Rule, ...] = (scale_aggregates, push_down_selection, order_filters, prune_columns)


def optimize(plan: Plan, context: Context | None = None) -> Plan:
    """The plan after every rule; without statistics, predicates keep the order in which they were written.

    Runs plan without statistics: a checkpoint outlives a change of the predicate order, which the engine
    therefore keeps beside the network.
    """
    for rule in RULES:
        plan = rule(plan, context or Context())
    derived = tuple(optimize(stream, context) for stream in plan.derived)
    return replace(plan, derived=derived) if derived else plan
