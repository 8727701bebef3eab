"""FROM: its streams, relations and windows, and the columns that expressions refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.cql.statement import ColumnReference, FromItem, ScalarExpression, Select
from headgate.errors import QueryError, Span, known_names
from headgate.model.expression import TIMESTAMP_US, Expression, column_of, time_text
from headgate.model.network import Column, RelationDefinition, Schema, StreamDefinition
from headgate.model.sql_tree import column_tree, field_of, replace_nodes
from headgate.model.window import HopWindow, RowWindow, TimeWindow, UnboundedWindow, Window
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Node, RelationJoin, RelationScan, StreamScan, WindowJoin

START, END = "window_start", "window_end"


@dataclass(frozen=True)
class Source:
    """A stream or relation in FROM, with its columns known."""

    item: FromItem
    definition: StreamDefinition | RelationDefinition
    schema: Schema

    @property
    def alias(self) -> str:
        """Its name in the query: the alias as written, or its own name as declared."""
        written = self.item.alias.text
        return self.definition.name if written.lower() == self.definition.name.lower() else written

    @property
    def window(self) -> Window:
        """The window of a stream; without one, all tuples so far."""
        written = self.item.window
        if written is None:
            return UnboundedWindow()
        if written.keys and isinstance(written.window, RowWindow):
            return replace(written.window, keys=tuple(dict.fromkeys(map(self._window_key, written.keys))))
        return written.window

    def _window_key(self, key: ColumnReference) -> str:
        own = (self.alias.lower(), self.item.source.text.lower())
        if key.qualifier and key.qualifier.lower() not in own:
            columns = ", ".join(self.schema.names)
            message = f"PARTITION BY takes columns of {self.alias} alone; columns: {columns}"
            raise QueryError(message, key.span)
        return self.column(key).name

    def column(self, reference: ColumnReference) -> Column:
        found = self.schema.find(reference.name)
        if found is None:
            problem = f"{self.alias} has no column {reference.name}"
            raise QueryError(f"{problem}; columns: {', '.join(self.schema.names)}", reference.span)
        return found

    @property
    def _timestamp(self) -> str | None:
        return self.definition.timestamp if isinstance(self.definition, StreamDefinition) else None

    def is_timestamp(self, column: Column) -> bool:
        return self._timestamp is not None and self._timestamp.lower() == column.name.lower()

    @property
    def timestamp_type(self) -> str:
        """The type of its timestamps; that of the time of arrival if it declares none."""
        column = None if self._timestamp is None else self.schema.find(self._timestamp)
        return "TIMESTAMP" if column is None else column.type


@dataclass(frozen=True)
class BoundColumn:
    """A resolved reference: a column of a source, or a field of such a column."""

    source: Source
    column: Column
    field: str | None = None

    @property
    def name(self) -> str:
        return self.column.name if self.field is None else self.field

    @property
    def tree(self) -> exp.Expr:
        fields = [] if self.field is None else [exp.to_identifier(self.field, quoted=True)]
        return field_of(column_tree(column_of(self.source.alias, self.column.name)), fields)


@dataclass(frozen=True)
class WindowBound:
    """``window_start`` or ``window_end`` of the half-open window that a result is about."""

    name: str
    window: HopWindow
    timestamp_type: str
    in_join: bool

    @property
    def tree(self) -> exp.Expr:
        """An aggregate's results have the end of their window as timestamp; those of a join lie inside."""
        ts, length = f"`{TIMESTAMP_US}`", f"{self.window.range_us}L"
        start = f"{ts} - pmod({ts}, {length})" if self.in_join else f"{ts} - {length}"
        end = f"{ts} - pmod({ts}, {length}) + {length}" if self.in_join else ts
        bound = start if self.name == START else end
        return Expression.parse(time_text(f"({bound})", self.timestamp_type)).tree


class Scope:
    """The sources of one SELECT by alias; aliases and columns are case-insensitive."""

    def __init__(self, select: Select, catalog: Catalog) -> None:
        self._catalog = catalog
        self.sources = tuple(map(self._source, select.sources))
        self.streams = tuple(s for s in self.sources if isinstance(s.definition, StreamDefinition))
        self._by_alias = {source.item.alias.text.lower(): source for source in self.sources}
        plan_columns: set[str] = set()
        for source in self.sources:
            columns = {column_of(source.alias, name).lower() for name in source.schema.names}
            if columns & plan_columns:
                alias = source.item.alias
                raise QueryError(f"{alias.text} is too much like another alias; choose another", alias.span)
            plan_columns |= columns
        self._check_streams(select)

    def _source(self, item: FromItem) -> Source:
        name = item.source
        definition = self._catalog.find(name.text)
        if definition is None or definition.schema is None:
            if self._catalog.is_query(name.text):
                message = f"{name.text} is a query; FROM takes streams and relations, so read what it writes"
                raise QueryError(message, name.span)
            known = known_names([*self._catalog.streams, *self._catalog.relations])
            raise QueryError(f"unknown stream or relation {name.text}; known: {known}", name.span)
        if isinstance(definition, RelationDefinition) and item.window is not None:
            written = " ".join(item.window.span.excerpt.split())
            message = f"{name.text} is a stored relation and has no window; remove {written}"
            raise QueryError(message, item.window.span)
        return Source(item, definition, definition.schema)

    def _check_streams(self, select: Select) -> None:
        """Reject a FROM without streams, and windows that the join or the select list cannot use."""
        if not self.streams:
            names = ", ".join(item.source.text for item in select.sources)
            message = f"FROM has only stored relations ({names}); join them with a stream"
            raise QueryError(message, select.sources[0].source.span)
        if len(self.streams) > 1 and select.is_aggregate:
            spans = [*(call.span for call in select.aggregates), *(key.span for key in select.group_by)]
            message = "an aggregate over a join of streams is not supported; aggregate one stream"
            raise QueryError(f"{message}, or write the join's result and aggregate that", spans[0])
        for source in self.streams if len(self.streams) > 1 else ():
            name, window = source.item.source, source.item.window
            if window is None or isinstance(window.window, UnboundedWindow):
                message = f"{name.text} needs a window in a join, e.g. {name.text} [RANGE 10 SECONDS]"
                raise QueryError(message, window.span if window else name.span)
            if isinstance(window.window, HopWindow) and not window.window.is_tumbling:
                message = f"a tuple is in several of these windows; write {name.text} [TUMBLE 10 SECONDS]"
                raise QueryError(message, window.span)
        written = self.streams[0].item.window
        slides = written and isinstance(written.window, TimeWindow) and written.window.slide_us
        if written and slides and len(self.streams) == 1 and not select.summarizes_windows:
            is_hop = isinstance(written.window, HopWindow)
            what = "a window that is emitted as a whole" if is_hop else "SLIDE"
            message = f"{what} has no effect without an aggregate or a join of streams; remove it"
            raise QueryError(message, written.span)

    def joined(self) -> Node:
        streams = tuple(
            StreamScan(s.definition.name, s.alias, s.schema.names, s.window) for s in self.streams
        )
        node: Node = streams[0] if len(streams) == 1 else WindowJoin(streams, pools=self._probe_pools())
        for relation in self.sources:
            if relation not in self.streams:
                scan = RelationScan(relation.definition.name, relation.alias, relation.schema.names)
                node = RelationJoin(node, scan)
        return node

    def _probe_pools(self) -> tuple[str, ...]:
        """The pools of all probes; none, if no probe is placed."""
        names = [source.definition.name for source in self.streams]
        pools = {name: pool for name in names if (pool := self._catalog.pool_of_probe(name)) is not None}
        for source, name in zip(self.streams, names, strict=True) if pools else ():
            if name not in pools:
                message = f"the probe of {next(iter(pools))} is placed, but that of {name} is not"
                hint = f"also write PLACE PROBE OF {name} ON a pool"
                raise QueryError(f"{message}; {hint}", source.item.source.span)
            if not isinstance(source.window, TimeWindow) or isinstance(source.window, HopWindow):
                message = f"the probe of {name} is placed, and placed probes require time windows"
                raise QueryError(f"{message}; write {name} [RANGE 10 SECONDS]", source.item.source.span)
        return tuple(pools[name] for name in names) if pools else ()

    def window_bound(self, reference: ColumnReference) -> WindowBound | None:
        """The start or end of the window, unless a source has a column of that name."""
        name = reference.name.lower()
        if name not in (START, END) or any(source.schema.find(name) for source in self.sources):
            return None
        windows = {s.window for s in self.streams}
        [window, *others] = windows
        if not isinstance(window, HopWindow) or others:
            message = f"{name} needs TUMBLE or HOP, the same for all streams; write [TUMBLE 10 SECONDS]"
            raise QueryError(message, reference.span)
        types = {s.timestamp_type.lower() for s in self.streams}
        kind = self.streams[0].timestamp_type if len(types) == 1 else "TIMESTAMP"
        return WindowBound(name, window, kind, in_join=len(self.streams) > 1)

    def bind(self, expression: ScalarExpression) -> Expression:
        trees = {
            reference.span.start: (self.window_bound(reference) or self.resolve(reference)).tree
            for reference in expression.columns
        }
        return Expression(over_text(expression.tree, trees), expression.span)

    def resolve(self, reference: ColumnReference) -> BoundColumn:
        if reference.qualifier is None:
            found = self.find(reference.name, reference.span)
            if found is None:
                several = len(self.sources) > 1
                names = [
                    (f"{s.alias}." if several else "") + name for s in self.sources for name in s.schema.names
                ]
                message = f"unknown column {reference.name}; columns: {', '.join(names)}"
                raise QueryError(message, reference.span)
            return found
        source = self._by_alias.get(reference.qualifier.lower())
        if source is not None:
            return BoundColumn(source, source.column(reference))
        struct = self.find(reference.qualifier, reference.span)
        if struct is None:
            raise self._unknown_alias(reference.qualifier, reference.span)
        return replace(struct, field=reference.name)

    def plain_column(self, expression: ScalarExpression) -> BoundColumn | None:
        """The column that an expression consists of; None for any other, and for the bounds of windows."""
        if len(expression.columns) != 1 or expression.columns[0].span != expression.span:
            return None
        [reference] = expression.columns
        return self.resolve(reference) if self.window_bound(reference) is None else None

    def source(self, alias: str, span: Span) -> Source:
        found = self._by_alias.get(alias.lower())
        if found is None:
            raise self._unknown_alias(alias, span)
        return found

    def find(self, name: str, span: Span) -> BoundColumn | None:
        found = [
            BoundColumn(source, column) for source in self.sources if (column := source.schema.find(name))
        ]
        if len(found) > 1:
            candidates = " or ".join(f"{one.source.alias}.{one.column.name}" for one in found)
            raise QueryError(f"{name} is ambiguous; write {candidates}", span)
        return found[0] if found else None

    def _unknown_alias(self, alias: str, span: Span) -> QueryError:
        renamed = next((s for s in self.sources if s.item.source.text.lower() == alias.lower()), None)
        if renamed is not None:
            return QueryError(f"{alias} has the alias {renamed.alias}; write {renamed.alias}", span)
        known = known_names([source.alias for source in self.sources])
        return QueryError(f"unknown alias {alias}; known: {known}", span)


def over_text(tree: exp.Expr, trees: Mapping[int, exp.Expr]) -> exp.Expr:
    """The tree with columns and calls replaced, by their offsets in the text."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and (start := node.parts[0].meta.get("start", -1)) in trees:
            # in a.b.c.d, a and b name the column
            return field_of(trees[start], node.parts[2:])
        return trees.get(node.meta.get("start", -1)) if isinstance(node, exp.Anonymous) else None

    return replace_nodes(tree, change)
