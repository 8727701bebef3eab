"""Bind: a statement's names to what the catalog knows, giving the first logical plan."""

from __future__ import annotations

from dataclasses import replace

from headgate.cql.statement import CreateQuery, ScalarExpression, Select
from headgate.errors import QueryError
from headgate.model.expression import Expression, NamedExpression
from headgate.planning.catalog import Catalog
from headgate.planning.grouping import Grouping, check_one_stream, is_aggregate
from headgate.planning.logical import Aggregate, Filter, LogicalPlan, Node, Project
from headgate.planning.matching import has_or
from headgate.planning.placements import Placements
from headgate.planning.placing import marked, refuse
from headgate.planning.scope import Scope
from headgate.planning.select_list import check_names, select_list
from headgate.planning.service import service_of, sink_of
from headgate.planning.sources import check_windows, from_clause, scope_of
from headgate.planning.utility import utility_of


def bind(query: CreateQuery, catalog: Catalog) -> LogicalPlan:
    """The query as a plan with WHERE above all joins; a QueryError says what is wrong with it, and where."""
    service = service_of(query.settings)
    branches = _same_columns(query, [_branch(select, catalog) for select in query.branches])
    return LogicalPlan(
        query=query.name.text,
        branches=branches,
        sink=sink_of(query.sink, catalog.known_sinks),
        latency_s=service.latency_s,
        memory_bytes=service.memory_bytes,
        overload=service.overload,
        quality=service.quality,
        utility=None if service.utility is None else utility_of(service.utility, branches),
    )


def _branch(select: Select, catalog: Catalog) -> Project:
    aggregated = is_aggregate(select)
    scope = scope_of(select, catalog)
    if aggregated:
        check_one_stream(select, scope)
    check_windows(scope, aggregated)
    node = _filtered(from_clause(scope, catalog.placements), select.conjuncts, scope, catalog.placements)
    if aggregated:
        return _aggregated(select, scope, node, catalog.placements)
    if select.having is not None:
        raise QueryError("HAVING needs GROUP BY or an aggregate; write WHERE", select.having.span)
    items = select_list(select, scope, False, lambda item: refuse(scope.bind(item), catalog.placements))
    return Project(node, items)


def _aggregated(select: Select, scope: Scope, node: Node, placements: Placements) -> Project:
    grouping = Grouping(select, scope)
    items = select_list(select, scope, True, lambda item: refuse(grouping.bind_item(item), placements))
    having = None if select.having is None else refuse(grouping.bind_having(select.having), placements)
    for key in grouping.keys:
        refuse(key.expression, placements)
    for call in grouping.aggregates:
        if call.argument is not None:
            refuse(call.argument, placements)
    node = Aggregate(node, grouping.keys, grouping.aggregates)
    return Project(node if having is None else Filter(node, (_conjunct(having),)), items)


def _filtered(
    node: Node, conjuncts: tuple[ScalarExpression, ...], scope: Scope, placements: Placements
) -> Node:
    if not conjuncts:
        return node
    return Filter(node, tuple(marked(_conjunct(scope.bind(c)), placements) for c in conjuncts))


def _conjunct(predicate: Expression) -> Expression:
    """The predicate so that it can stand beside others with AND between them."""
    return replace(predicate, text=f"({predicate.text})") if has_or(predicate.text) else predicate


def _same_columns(query: CreateQuery, branches: list[Project]) -> tuple[Project, ...]:
    """The branches, all with the names of the first."""
    first = branches[0]
    check_names(first.items)
    for select, branch in zip(query.branches, branches, strict=True):
        if len(branch.items) != len(first.items):
            message = f"columns of this SELECT: {len(branch.items)}, of the first: {len(first.items)}"
            raise QueryError(f"{message}; UNION ALL needs as many in each", select.span)
    return tuple(replace(branch, items=_renamed(branch, first)) for branch in branches)


def _renamed(branch: Project, first: Project) -> tuple[NamedExpression, ...]:
    pairs = zip(branch.items, first.items, strict=True)
    return tuple(NamedExpression(named.name, item.expression) for item, named in pairs)
