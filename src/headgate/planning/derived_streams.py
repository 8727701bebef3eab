"""What a query reads besides what is declared: derived streams, subqueries and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql import syntax
from headgate.cql.syntax import Select
from headgate.cql.tokens import one_line
from headgate.errors import QueryError
from headgate.model.expression import TIMESTAMP_US, Expression, NamedExpression, column_of
from headgate.model.network import (
    Column,
    QueryDefinition,
    RelationDefinition,
    Schema,
    SinkDefinition,
    StreamDefinition,
)
from headgate.model.sql_tree import column_tree
from headgate.model.window import Window
from headgate.planning.bind import Branch, bound_branches
from headgate.planning.catalog import Catalog
from headgate.planning.instants import in_common, instants_of
from headgate.planning.logical import DerivedPlan, Node, Project, StreamScan
from headgate.planning.select_list import TIMESTAMP
from headgate.planning.source_columns import unknown_source
from headgate.planning.stored_subqueries import is_stored, relation_of

# plans are trees, and Python goes no further down than 1000 calls
_DEEPEST = 64


class Derived:
    """The derived streams that a query reads, each bound once, when it is first read.

    ``owner`` is the query: it is part of the names of its subqueries.
    """

    def __init__(self, owner: str, catalog: Catalog) -> None:
        self._owner = owner
        self._catalog = catalog
        self._local: dict[tuple[str, tuple[Select, ...]], str] = {}
        self._open: list[str] = []
        self._instants: dict[str, Mapping[str, int]] = {}
        self.plans: dict[str, DerivedPlan] = {}
        """By name, each behind those that it reads."""

    def find(self, item: syntax.FromItem) -> StreamDefinition | RelationDefinition | None:
        """The derived stream or relation that is meant; None if there is none of that name."""
        view = self._catalog.find_view(item.source.text)
        if (item.branches or view is not None) and is_stored(item, self._catalog):
            return self._stored(item, view)
        if item.is_value:
            raise _changing_value(item, self._catalog)
        if item.branches:
            name, branches = self._name_of(item.source.text, item.branches, self._reader), item.branches
        elif view is not None:
            # within views, it belongs to the query or stream that reads them
            owner = next((one for one in reversed(self._open) if "." not in one), self._owner)
            name, branches = self._name_of(view.name.text, view.branches, owner, owner), view.branches
        elif (declared := self._catalog.find_derived(item.source.text)) is not None:
            name, branches = declared.name.text, declared.branches
        else:
            return None
        if name in self._open:
            # subqueries and views have names within those that read them
            names = [one.rpartition(".")[2] for one in (*self._open[self._open.index(name) :], name)]
            what = "streams" if view is None else "views"
            raise QueryError(
                f"{what} read each other: {' -> '.join(names)}; break the cycle", item.source.span
            )
        plan = self.plans.get(name) or self.bind(syntax.Name(name, item.source.span), branches)
        return StreamDefinition(name, "derived", plan.schema, timestamp=TIMESTAMP)

    def _stored(self, item: syntax.FromItem, view: cql.CreateView | None) -> RelationDefinition:
        """A subquery or view that reads stored relations alone."""
        if view is None or item.branches:
            name = self._name_of(item.source.text, item.branches, self._reader)
            return relation_of(name, item.branches, self._catalog)
        return relation_of(view.name.text, view.branches, self._catalog)

    def bind(self, name: syntax.Name, branches: tuple[Select, ...]) -> DerivedPlan:
        if len(self._open) == _DEEPEST:
            message = f"this is the {_DEEPEST + 1}th SELECT that reads the next one"
            raise QueryError(f"{message}; join some of them in one SELECT", name.span)
        self._open.append(name.text)
        own = [Branch(select, self._catalog, self) for select in branches]
        bound = bound_branches(branches, own, self)
        self._open.pop()
        columns = tuple(
            Column(item.name, kind) for item, kind in zip(bound[0].items, own[0].types, strict=True)
        )
        schema = Schema((Column(TIMESTAMP, own[0].timestamp_type), *columns))
        query = QueryDefinition(name.text, (), SinkDefinition("stream"))
        self.plans[name.text] = DerivedPlan(query, bound, schema=schema)
        triples = zip(bound, branches, own, strict=True)
        self._instants[name.text] = in_common([instants_of(one, s, b.scope) for one, s, b in triples])
        return self.plans[name.text]

    def instants(self, name: str) -> Mapping[str, int]:
        """Columns that tell the timestamps of a derived stream, by how much later they are."""
        return self._instants.get(name, {})

    def joined(
        self, join: Node, read: Iterable[Expression], window: Window, alias: str = "joined"
    ) -> tuple[StreamScan, dict[str, exp.Expr]]:
        """The results of a join as a stream, and its columns in place of those that expressions read."""
        name = self._free_name("joined", self._reader)
        used = dict.fromkeys(c for one in read for c in one.columns if c != TIMESTAMP_US)
        items = tuple(NamedExpression(column, Expression(column_tree(column))) for column in used)
        schema = Schema(tuple(Column(column, "?") for column in used))
        query = QueryDefinition(name, (), SinkDefinition("stream"))
        self.plans[name] = DerivedPlan(query, (Project(join, items),), schema=schema)
        renamed: dict[str, exp.Expr] = {column: column_tree(column_of(alias, column)) for column in used}
        return StreamScan(name, alias, tuple(used), window, is_derived=True), renamed

    @property
    def _reader(self) -> str:
        """What is being bound; a derived stream is the same for all queries."""
        return self._open[-1] if self._open else self._owner

    def _name_of(self, wanted: str, branches: tuple[Select, ...], owner: str, reader: str = "") -> str:
        """The name of a subquery, or of a view for one ``reader``."""
        if (reader, branches) not in self._local:
            self._local[reader, branches] = self._free_name(wanted, owner)
        return self._local[reader, branches]

    def _free_name(self, wanted: str, owner: str) -> str:
        """A name for a subquery that no other one has."""
        number, name = 1, f"{owner}.{wanted}"
        while name in self.plans or name in self._local.values():
            number += 1
            name = f"{owner}.{wanted}_{number}"
        return name


def _changing_value(item: syntax.FromItem, catalog: Catalog) -> QueryError:
    """The message for a subquery in place of a value that reads a stream, or what is not declared."""
    while item.branches:
        sources = (one for select in item.branches for one in select.sources)
        item = next(one for one in sources if not is_stored(one, catalog))
    name = item.source
    is_view = catalog.find_view(name.text) is not None
    if not is_view and catalog.find(name.text) is None and catalog.find_derived(name.text) is None:
        return unknown_source(name, catalog)
    what = f"{one_line(name.text)} {'reads' if is_view else 'is'} a stream"
    hint = "join it in FROM, s [NOW], (SELECT AVG(x) AS mean FROM s [RANGE 1 HOUR]) AS m [ROWS 1]"
    return QueryError(f"a subquery in place of a value reads stored relations, and {what}; {hint}", name.span)
