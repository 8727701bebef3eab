"""Subqueries and views over stored relations alone: relations computed from others when these are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.cql.syntax import ColumnReference, FromItem, JoinKind, Select
from headgate.errors import QueryError
from headgate.model.network import Column, RelationDefinition, Schema
from headgate.model.stored_select import StoredSelect, StoredSide
from headgate.model.table import Step, Where
from headgate.planning.bind import Branch, Clauses, check_branches
from headgate.planning.catalog import Catalog
from headgate.planning.from_clause import Scope
from headgate.planning.from_items import Source, WindowBound
from headgate.planning.grouping import RowGrouping
from headgate.planning.row_steps import distinct_rows, finished

FORMAT = "select"
"""The format of a relation that is computed from others."""
_KEEP_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)
_JOINS = {JoinKind.SEMI: "LEFT SEMI JOIN", JoinKind.ANTI: "LEFT ANTI JOIN"}


def is_stored(item: FromItem, catalog: Catalog, within: Collection[str] = ()) -> bool:
    """Whether an item of FROM is a stored relation, or a subquery or view that reads such relations alone."""
    if item.generator is not None:
        return True
    name = item.source.text.lower()
    branches = _branches(item, catalog)
    if not branches:
        return "relation" in catalog.kinds_of(name)
    own = within if item.branches else (*within, name)
    is_cycle = not item.branches and name in within
    return not is_cycle and all(is_stored(one, catalog, own) for select in branches for one in select.sources)


def _branches(item: FromItem, catalog: Catalog) -> tuple[Select, ...]:
    """The SELECTs of a subquery or a view; none for all others."""
    view = None if item.branches else catalog.find_view(item.source.text)
    return item.branches if view is None else view.branches


class StoredScope(Scope):
    """The sources of a SELECT over stored relations alone."""

    def window_bound(self, reference: ColumnReference) -> WindowBound | None:
        """Stored relations have no windows."""
        del reference
        return None

    def _check_streams(self, select: Select) -> None:
        """Reject what is for streams, and outer joins of which the order of conditions would matter."""
        names = ", ".join(source.item.source.text for source in self.sources)
        if select.window_key is not None:
            message = f"windows are for streams, and {names} is stored; group by date_trunc('minute', ts)"
            raise QueryError(message, select.window_key.span)
        if select.emission is not None:
            message = f"{select.emission.kind.value} is for streams, and {names} is stored; leave it out"
            raise QueryError(message, select.emission.span)
        if select.distinct_on:
            message = f"DISTINCT ON is for streams, and {names} is stored"
            hint = "write QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY x) = 1"
            raise QueryError(f"{message}; {hint}", select.span)
        for source in self.sources:
            if source.item.join in _KEEP_RIGHT:
                self._check_kept_side(source)

    def _check_kept_side(self, source: Source) -> None:
        join, name = source.item.join_words, source.item.source
        tests = [one.item.join_words for one in self.sources if one.item.test is not None]
        values = {one.alias for one in self.sources if one.item.is_value}
        joined = len(self.sources) - len(tests) - len(values)
        if joined > 2 or tests:
            others = f"FROM has {joined}" if joined > 2 else f"WHERE has {tests[0]}"
            message = f"{join} takes two relations, and {others}"
            what = "the others" if joined > 2 else "the join"
            raise QueryError(f"{message}; write {what} as a subquery, FROM (SELECT ...) AS x", name.span)
        for reference in (reference for condition in source.item.on for reference in condition.columns):
            if reference.qualifier in values:
                message = f"ON of {join} compares two relations, and (SELECT ...) is none"
                hint = "compute it in a subquery, FROM (SELECT ...) AS x, and compare that"
                raise QueryError(f"{message}; {hint}", reference.span)
        if source.item.using:
            column = source.item.using[0].text
            hint = f"write ON {self.sources[0].alias}.{column} = {source.alias}.{column}"
            message = f"{column} may be NULL on one side of {join}; {hint}"
            raise QueryError(message, source.item.using[0].span)


class StoredBranch(Branch):
    """Binds one SELECT over stored relations alone, whose rows have no timestamps."""

    scope_kind = StoredScope
    reserved = frozenset()


@dataclass(frozen=True)
class _Stored:
    """What a SELECT may read besides what is declared: subqueries and views over the same."""

    catalog: Catalog

    def find(self, item: FromItem) -> RelationDefinition | None:
        branches = _branches(item, self.catalog)
        return relation_of(item.source.text, branches, self.catalog) if branches else None

    def instants(self, name: str) -> Mapping[str, int]:
        """No column has a timestamp."""
        del name
        return {}


def relation_of(name: str, branches: Sequence[Select], catalog: Catalog) -> RelationDefinition:
    """What SELECTs compute from stored relations, as a relation."""
    bound = [StoredBranch(select, catalog, _Stored(catalog)) for select in branches]
    clauses = [branch.clauses(RowGrouping) for branch in bound]
    first, names = bound[0], [item.name for item in clauses[0].items]
    check_branches(branches, [one.items for one in clauses])
    selects = tuple(
        StoredSelect(_sides(branch.scope), _steps(select, own, names, catalog))
        for select, branch, own in zip(branches, bound, clauses, strict=True)
    )
    columns = (Column(name, kind) for name, kind in zip(names, first.types, strict=True))
    return RelationDefinition(name, FORMAT, Schema(tuple(columns)), selects=selects)


def _sides(scope: Scope) -> tuple[StoredSide, ...]:
    found = []
    first, *others = scope.sources
    # conditions of other joins may read the values of subqueries; RIGHT and FULL JOIN would add rows without
    is_first = all(source.item.join not in _KEEP_RIGHT for source in others)
    for source in (first, *sorted(others, key=lambda source: source.item.is_value is not is_first)):
        assert isinstance(source.definition, RelationDefinition)
        join = source.item.join
        on = scope.on_of_relation(source)
        words = _JOINS.get(join, join.value)
        if (rows := source.item.generator) is not None:
            words = "LATERAL VIEW OUTER" if rows.is_outer else "LATERAL VIEW"
        own = source.definition.selects or source.definition.name
        found.append(StoredSide(own, source.alias, source.schema.names, words, on, source.generated))
    return tuple(found)


def _steps(select: Select, clauses: Clauses, names: Sequence[str], catalog: Catalog) -> tuple[Step, ...]:
    for expression in (*clauses.predicates, *clauses.read):
        for function in sorted(expression.functions):
            if (placed := catalog.placed(function)) is not None:
                message = (
                    f"{placed[0].name} is placed on pool {placed[1]}, and stored relations do not wait for it"
                )
                raise QueryError(f"{message}; call it where the stream is joined", expression.span)
    items = tuple(replace(item, name=name) for item, name in zip(clauses.items, names, strict=True))
    steps: list[Step] = [Where(clauses.predicates)] if clauses.predicates else []
    if clauses.grouping is not None:
        steps.append(clauses.grouping)
    steps += finished(replace(clauses, items=items))
    return (*steps, *distinct_rows(items)) if select.is_distinct else tuple(steps)
