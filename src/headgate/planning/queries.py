"""Bind queries and derived streams: their SELECTs, sinks and quality of service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from headgate.cql.statement import CreateQuery, CreateView, DeriveStream
from headgate.cql.syntax import FromItem, Name
from headgate.errors import QueryError
from headgate.model.network import QueryDefinition, Schema
from headgate.planning.bind import Branch, bound_branches
from headgate.planning.catalog import Catalog
from headgate.planning.derived_streams import Derived
from headgate.planning.logical import DerivedPlan, LogicalPlan, Project
from headgate.planning.query_settings import sink_of, with_service
from headgate.planning.retention import check_ends
from headgate.planning.stored_subqueries import is_stored, relation_of
from headgate.planning.table_plans import bind_table, changes_of


def bind(query: CreateQuery, catalog: Catalog) -> LogicalPlan:
    """The query as a plan with WHERE above all joins; a QueryError points at what is wrong."""
    with _depth_limited(query.name):
        return _bound(query, catalog)


def _bound(query: CreateQuery, catalog: Catalog) -> LogicalPlan:
    derived = Derived(query.name.text, catalog)
    sink = sink_of(query.sink, catalog.known_sinks)
    if sink.mode != "append":
        table = bind_table(query, catalog, derived)
        branches: tuple[Project, ...] = (table if sink.is_latest else changes_of(table, query),)
    else:
        own = [Branch(select, catalog, derived) for select in query.branches]
        branches = bound_branches(query.branches, own, derived)
    definition = QueryDefinition(query.name.text, (), sink)
    plan = LogicalPlan(definition, branches, derived=tuple(derived.plans.values()))
    plan = with_service(plan, query.settings, catalog.known_functions)
    check_ends((*plan.derived, plan))
    return plan


def selected_columns(selected: DeriveStream | CreateView, catalog: Catalog) -> Schema:
    """The columns of a derived stream or a view; with the timestamp, if it reads a stream."""
    with _depth_limited(selected.name):
        if not is_stored_view(selected, catalog):
            return bind_stream(selected, catalog).schema
        columns = relation_of(selected.name.text, selected.branches, catalog).schema
    assert columns is not None
    return columns


@contextmanager
def _depth_limited(name: Name) -> Iterator[None]:
    """Binding goes down into what a SELECT reads: views and WITH clauses may read each other in turn."""
    try:
        yield
    except RecursionError:
        message = f"{name.text} reads too many SELECTs one through the other; join some of them in one SELECT"
        raise QueryError(message, name.span) from None


def is_stored_view(selected: DeriveStream | CreateView, catalog: Catalog) -> bool:
    """Whether it is a view that reads stored relations alone."""
    item = FromItem(selected.name, None, selected.name)
    return isinstance(selected, CreateView) and is_stored(item, catalog)


def bind_stream(stream: DeriveStream | CreateView, catalog: Catalog) -> DerivedPlan:
    """A derived stream or a view as a plan, with those that it reads."""
    derived = Derived(stream.name.text, catalog)
    own = derived.bind(stream.name, stream.branches)
    others = tuple(plan for name, plan in derived.plans.items() if name != stream.name.text)
    check_ends((*others, own))
    return replace(own, derived=others)
