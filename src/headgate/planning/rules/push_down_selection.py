"""Selections move towards the streams.

A window is taken over the stream as declared, so a selection below it does not make it reach further back.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.model import joins
from headgate.model.expression import Expression
from headgate.planning import logical
from headgate.planning.logical import LogicalPlan, Node
from headgate.planning.plan_statistics import Context

Predicates = tuple[Expression, ...]


def push_down_selection(plan: LogicalPlan, context: Context) -> LogicalPlan:
    """Move each conjunct of WHERE to its stream, to the relation join or to the window join it belongs to."""
    del context
    return replace(plan, branches=tuple(replace(b, input=_pushed(b.input, ())) for b in plan.branches))


def _pushed(node: Node, predicates: Predicates) -> Node:
    """The lowest nodes that have all columns of the predicates filter by them."""
    if isinstance(node, logical.Filter):
        return _pushed(node.input, node.predicates + predicates)
    if isinstance(node, logical.Scan):
        return _filtered(node, predicates)
    if isinstance(node, (logical.Aggregate, logical.Top, logical.Project)):
        # HAVING stays above its aggregate, and nothing passes a ranking
        return _filtered(replace(node, input=_pushed(node.input, ())), predicates)
    if isinstance(node, logical.WindowJoin) and node.preserved:
        return _into_outer_join(node, predicates)
    if isinstance(node, logical.Values):
        own = tuple(p for p in predicates if not {call.name for call in node.calls}.isdisjoint(p.columns))
        return _filtered(replace(node, input=_pushed(node.input, _without(predicates, own))), own)
    if isinstance(node, logical.WindowJoin):
        return _into_window_join(node, predicates)
    if isinstance(node, logical.Explode):
        own = tuple(p for p in predicates if not node.rows.plan_columns.keys().isdisjoint(p.columns))
        return _filtered(replace(node, input=_pushed(node.input, _without(predicates, own))), own)
    return _into_relation_join(node, predicates)


def _into_relation_join(join: logical.RelationJoin, predicates: Predicates) -> Node:
    own = tuple(p for p in predicates if not join.relation.plan_columns.keys().isdisjoint(p.columns))
    if join.operator is not joins.RelationJoin:
        # where it finds no match, WHERE sees NULL
        return _filtered(replace(join, input=_pushed(join.input, _without(predicates, own))), own)
    below = _pushed(join.input, _without(predicates, own))
    # a pool evaluates tuples, not pairs that may become one
    placed = tuple(p for p in own if p.pool is not None)
    joined = replace(join, input=below, predicates=join.predicates + _without(own, placed))
    return _filtered(joined, placed)


def _into_window_join(join: logical.WindowJoin, predicates: Predicates) -> Node:
    across = predicates
    sides = []
    for side in join.inputs:
        # a predicate without columns holds for all tuples or none: it moves to every side
        own = tuple(p for p in predicates if logical.plan_columns(side).issuperset(p.columns))
        if join.pools:
            # placed probes and placed predicates commute: they meet in one eddy
            own = tuple(p for p in own if p.pool is None)
        own = _movable(own, side)
        sides.append(_pushed(side, own))
        across = _without(across, own)
    placed = tuple(p for p in across if p.pool is not None)
    joined = replace(join, inputs=tuple(sides), predicates=join.predicates + _without(across, placed))
    return _filtered(joined, placed)


def _into_outer_join(join: logical.WindowJoin, predicates: Predicates) -> Node:
    """Conditions of WHERE go below a side that is preserved alone, conditions of ON below the other one."""
    above, on, sides = predicates, join.predicates, []
    for side in join.inputs:
        columns = logical.plan_columns(side)
        if side not in join.preserved:
            own = tuple(p for p in on if columns.issuperset(p.columns))
            on = _without(on, own)
        elif len(join.preserved) == 1:
            own = _movable(tuple(p for p in above if columns.issuperset(p.columns)), side)
            above = _without(above, own)
        else:
            # a tuple of the other side may be emitted without this one
            own = ()
        sides.append(_pushed(side, own))
    return _filtered(replace(join, inputs=tuple(sides), predicates=on), above)


def _movable(predicates: Predicates, side: Node) -> Predicates:
    """Those that may go below the window of a side of a join."""
    is_counted = logical.stream_below(side).counts_derived
    return tuple(p for p in predicates if not (is_counted and p.pool is not None))


def _without(predicates: Predicates, others: Predicates) -> Predicates:
    return tuple(p for p in predicates if p not in others)


def _filtered(node: Node, predicates: Predicates) -> Node:
    return logical.Filter(node, predicates) if predicates else node
