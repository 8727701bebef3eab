"""Selections go to where their columns first meet.

A window is over the stream as declared, so a selection below it never lets a join reach further back.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.model.expression import Expression
from headgate.planning.logical import (
    Filter,
    LogicalPlan,
    Node,
    RelationJoin,
    RelationScan,
    StreamScan,
    WindowJoin,
    plan_columns,
)
from headgate.planning.predicates import is_volatile

Predicates = tuple[Expression, ...]


def push_down_selection(plan: LogicalPlan) -> LogicalPlan:
    """Move each conjunct of WHERE to its stream, to the relation join or to the window join it belongs to."""
    return plan.with_inputs(_rewritten)


def _rewritten(node: Node) -> Node:
    if isinstance(node, Filter):
        return _pushed(node.input, node.predicates)
    return _pushed(node, ())


def _pushed(node: Node, predicates: Predicates) -> Node:
    if isinstance(node, Filter):
        return _pushed(node.input, node.predicates + predicates)
    if isinstance(node, RelationJoin):
        # drawn once a result, not once a tuple of each input
        kept = tuple(p for p in predicates if is_volatile(p))
        return _filtered(_into_relation_join(node, _without(predicates, kept)), kept)
    if isinstance(node, WindowJoin):
        kept = tuple(p for p in predicates if is_volatile(p))
        return _filtered(_into_window_join(node, _without(predicates, kept)), kept)
    if isinstance(node, (StreamScan, RelationScan)):
        return _filtered(node, predicates)
    # HAVING stays above its aggregate
    return _filtered(replace(node, input=_rewritten(node.input)), predicates)


def _into_relation_join(join: RelationJoin, predicates: Predicates) -> Node:
    own_columns = plan_columns(join.relation)
    own = tuple(p for p in predicates if own_columns.intersection(p.columns))
    below = _pushed(join.input, _without(predicates, own))
    # a pool is asked about tuples, not about pairs that may become one
    placed = tuple(p for p in own if p.pool is not None)
    joined = RelationJoin(below, join.relation, join.predicates + _without(own, placed))
    return _filtered(joined, placed)


def _into_window_join(join: WindowJoin, predicates: Predicates) -> Node:
    across = predicates
    sides = []
    for side in join.inputs:
        # a predicate without columns holds for all tuples or for none: it goes to every side
        own = tuple(p for p in predicates if plan_columns(side).issuperset(p.columns))
        if join.pools:
            # placed probes and placed predicates commute: they meet in one eddy
            own = tuple(p for p in own if p.pool is None)
        sides.append(_pushed(side, own))
        across = _without(across, own)
    placed = tuple(p for p in across if p.pool is not None)
    joined = replace(join, inputs=tuple(sides), predicates=join.predicates + _without(across, placed))
    return _filtered(joined, placed)


def _without(predicates: Predicates, others: Predicates) -> Predicates:
    return tuple(p for p in predicates if p not in others)


def _filtered(node: Node, predicates: Predicates) -> Node:
    return Filter(node, predicates) if predicates else node
