"""What holds for every query: nothing is lost, and every operator finds the columns that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from tests.planning.queries import aggregate_selects, plain_selects
from tests.planning.support import bound_select, catalog_of

from headgate.errors import InternalError, QueryError
from headgate.model import joins, operator_inputs
from headgate.model import operator as physical
from headgate.model.expression import Expression, column_of
from headgate.model.network import Network
from headgate.planning.logical import Filter, LogicalPlan, Node, RelationJoin, WindowJoin, plan_columns, scans
from headgate.planning.lower import describe, lower
from headgate.planning.plan_statistics import Context
from headgate.planning.rules import optimize, prune_columns, push_down_selection


def nodes(plan: LogicalPlan) -> Iterator[Node]:
    pending: list[Node] = list(plan.branches)
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.inputs)


def predicates(plan: LogicalPlan) -> set[str]:
    joined = (n for n in nodes(plan) if isinstance(n, (Filter, WindowJoin, RelationJoin)))
    return {predicate.text for node in joined for predicate in node.predicates}


@given(plain_selects())
def test_pushing_loses_no_conjunct_and_adds_none(select: str) -> None:
    plan = bound_select(select)
    assert predicates(push_down_selection(plan, Context())) == predicates(plan)


@given(plain_selects())
def test_pushing_leaves_nothing_above_the_joins(select: str) -> None:
    pushed = push_down_selection(bound_select(select), Context())
    filters = [node for node in nodes(pushed) if isinstance(node, Filter)]
    assert all(len(list(scans(node))) == 1 for node in filters)


@pytest.mark.slow
@given(plain_selects())
def test_every_predicate_stands_where_its_columns_are(select: str) -> None:
    for node in nodes(push_down_selection(bound_select(select), Context())):
        if isinstance(node, (Filter, WindowJoin, RelationJoin)):
            for predicate in node.predicates:
                assert plan_columns(node).issuperset(predicate.columns)


@given(plain_selects())
def test_pruning_keeps_what_is_read_and_nothing_else(select: str) -> None:
    plan = prune_columns(bound_select(select), Context())
    [project] = plan.branches
    read = {column for item in project.items for column in item.expression.columns}
    for node in nodes(plan):
        if isinstance(node, (Filter, WindowJoin, RelationJoin)):
            read.update(column for predicate in node.predicates for column in predicate.columns)
    assert plan_columns(project) == read


@given(plain_selects())
def test_optimizing_twice_is_optimizing_once(select: str) -> None:
    plan = optimize(bound_select(select))
    assert optimize(plan) == plan


@given(plain_selects())
def test_every_plain_query_becomes_a_network_whose_operators_find_their_columns(select: str) -> None:
    check_lowered(bound_select(select))


@pytest.mark.slow
@given(aggregate_selects())
def test_every_aggregate_that_binds_becomes_a_network_whose_operators_find_their_columns(select: str) -> None:
    try:
        plan = bound_select(select)
    except QueryError as error:
        reasons = "must be in GROUP BY or inside an aggregate", "cannot be applied to", "cannot be compared"
        assert any(reason in error.message for reason in reasons)
        return
    check_lowered(plan)


def check_lowered(plan: LogicalPlan) -> None:
    for candidate in (plan, optimize(plan)):
        network = lower([candidate], catalog_of())
        for operator in network.operators.values():
            readable = read_columns(network, operator)
            assert readable.issuperset(used_columns(operator)), operator
        assert "q.project" in describe(network)


def read_columns(network: Network, operator: physical.Operator) -> set[str]:
    columns: set[str] = set()
    for source in operator.inputs:
        if isinstance(source, operator_inputs.StreamInput):
            columns.update(column_of(source.alias, name) for name in source.columns)
        else:
            columns.update(given_columns(network, network.operators[source.operator]))
    if isinstance(operator, joins.RelationJoin):
        columns.update(column_of(operator.alias, name) for name in operator.columns)
    return columns


def given_columns(network: Network, operator: physical.Operator) -> set[str]:
    if isinstance(operator, physical.Aggregate):
        return {key.name for key in operator.keys} | {call.name for call in operator.aggregates}
    if isinstance(operator, physical.Project):
        raise InternalError("nothing reads a project")
    return read_columns(network, operator)


def used_columns(operator: physical.Operator) -> set[str]:
    expressions: Iterable[Expression | None]
    if isinstance(operator, physical.Project):
        expressions = [item.expression for item in operator.items]
    elif isinstance(operator, physical.Aggregate):
        expressions = [
            *(k.expression for k in operator.keys),
            *(call.argument for call in operator.aggregates),
        ]
    else:
        expressions = operator.predicates
    return {column for expression in expressions if expression for column in expression.columns}
