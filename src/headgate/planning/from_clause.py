"""FROM: its streams, relations and windows, and the columns that expressions refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from sqlglot import exp

from headgate.cql.statement import ColumnReference, FromItem, JoinKind, ScalarExpression, Select
from headgate.errors import QueryError, Span, known_names
from headgate.model import operator as physical
from headgate.model.expression import TIMESTAMP_US, Expression, column_of, time_text
from headgate.model.network import Column, RelationDefinition, Schema, StreamDefinition
from headgate.model.sql_tree import column_tree, field_of, replace_nodes
from headgate.model.window import (
    HopWindow,
    RowWindow,
    SessionWindow,
    TimeWindow,
    UnboundedWindow,
    Window,
    is_emitted_whole,
)
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Node, RelationJoin, RelationScan, StreamScan, WindowJoin
from headgate.planning.type_check import TypeCheck
from headgate.planning.types import Type

START, END = "window_start", "window_end"
_RELATION_JOINS = {
    JoinKind.INNER: physical.RelationJoin,
    JoinKind.LEFT: physical.LeftRelationJoin,
    JoinKind.SEMI: physical.SemiRelationJoin,
    JoinKind.ANTI: physical.AntiRelationJoin,
}
MOST_JOINED = 14
"""Streams of one join: the optimiser computes rates of all their subsets."""


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

    def check_time(self) -> None:
        """Reject a window that GROUP BY makes of another column than the timestamp."""
        time = self.item.window.time if self.item.window is not None else None
        if time is not None and not self.is_timestamp(self.column(time)):
            own = self._timestamp or "none: declare it with OPTIONS (timestamp 'column')"
            message = f"{time.span.excerpt} is not the timestamp of {self.alias}, which is {own}"
            raise QueryError(message, time.span)

    def _window_key(self, key: ColumnReference) -> str:
        own = (self.alias.lower(), self.item.source.text.lower())
        if key.qualifier and key.qualifier.lower() not in own:
            columns = ", ".join(self.schema.names)
            message = f"PARTITION BY takes columns of {self.alias} alone; columns: {columns}"
            raise QueryError(message, key.span)
        return self.column(key).name

    def shows(self, name: str) -> bool:
        """Whether a column without an alias may be one of its own; USING takes that of the left side."""
        return not self.is_hidden and name.lower() not in {one.text.lower() for one in self.item.using}

    @property
    def is_hidden(self) -> bool:
        """Whether it only decides which tuples pass."""
        return self.item.join in (JoinKind.SEMI, JoinKind.ANTI)

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
    def type(self) -> Type:
        own = Type.declared(self.column.type)
        return own if self.field is None else own.field(self.field)

    @property
    def tree(self) -> exp.Expr:
        fields = [] if self.field is None else [exp.to_identifier(self.field, quoted=True)]
        return field_of(column_tree(column_of(self.source.alias, self.column.name)), fields)


@dataclass(frozen=True)
class WindowBound:
    """``window_start`` or ``window_end`` of the half-open window that a result is about."""

    name: str
    window: HopWindow | SessionWindow
    timestamp_type: str
    in_join: bool

    @property
    def type(self) -> Type:
        return Type.declared(self.timestamp_type)

    @property
    def is_first_tuple(self) -> bool:
        """Whether it is the timestamp of the first tuple of the window."""
        return self.name == START and isinstance(self.window, SessionWindow)

    @property
    def tree(self) -> exp.Expr:
        """An aggregate's results have the end of their window as timestamp; those of a join lie inside."""
        ts = f"`{TIMESTAMP_US}`"
        if isinstance(self.window, SessionWindow):
            return self.over(ts)
        length = f"{self.window.range_us}L"
        start = f"{ts} - pmod({ts}, {length})" if self.in_join else f"{ts} - {length}"
        end = f"{ts} - pmod({ts}, {length}) + {length}" if self.in_join else ts
        return self.over(f"({start if self.name == START else end})")

    def over(self, micros: str) -> exp.Expr:
        """The bound, given in microseconds, in the type of the stream's timestamps."""
        return Expression.parse(time_text(micros, self.timestamp_type)).tree


class DerivedStreams(Protocol):
    """The derived streams that a query may read."""

    def find(self, item: FromItem) -> StreamDefinition | None:
        """The derived stream that is meant; None if there is none of that name."""


class Scope:
    """The sources of one SELECT by alias; aliases and columns are case-insensitive."""

    def __init__(self, select: Select, catalog: Catalog, derived: DerivedStreams) -> None:
        self._catalog = catalog
        self._derived = derived
        self._is_aggregate = select.is_aggregate
        self._joining: Source | None = None
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
        definition = self._derived.find(item) or self._catalog.find(name.text)
        if definition is None or definition.schema is None:
            if self._catalog.is_query(name.text):
                message = f"{name.text} is a query; FROM takes streams and relations, so read what it writes"
                raise QueryError(message, name.span)
            known = known_names([*self._catalog.names("stream"), *self._catalog.relations])
            raise QueryError(f"unknown stream or relation {name.text}; known: {known}", name.span)
        if isinstance(definition, RelationDefinition) and item.window is not None:
            written = " ".join(item.window.span.excerpt.split())
            message = f"{name.text} is a stored relation and has no window; remove {written}"
            raise QueryError(message, item.window.span)
        return Source(item, definition, definition.schema)

    def _check_streams(self, select: Select) -> None:
        """Reject a FROM without streams, and windows that the join or the select list cannot use."""
        self._check_joins()
        if not self.streams:
            names = ", ".join(item.source.text for item in select.sources)
            message = f"FROM has only stored relations ({names}); join them with a stream"
            raise QueryError(message, select.sources[0].source.span)
        if len(self.streams) > MOST_JOINED:
            message = f"a join of {len(self.streams)} streams has too many orders; join {MOST_JOINED} at most"
            raise QueryError(message, self.streams[MOST_JOINED].item.source.span)
        if len(self.streams) > 1 and select.is_aggregate:
            self._check_aggregated_join(select)
        for source in self.streams:
            source.check_time()
        for source in self.streams if len(self.streams) > 1 else ():
            name, window = source.item.source, source.item.window
            if window is None:
                message = f"{name.text} needs a window in a join, e.g. {name.text} [RANGE 10 SECONDS]"
                raise QueryError(f"{message}, or [UNBOUNDED] to keep all tuples", name.span)
            if isinstance(window.window, SessionWindow):
                message = f"sessions cannot be joined; write {name.text} [RANGE 10 SECONDS]"
                raise QueryError(message, window.span)
            if isinstance(window.window, HopWindow) and not window.window.is_tumbling:
                message = f"a tuple is in several of these windows; write {name.text} [TUMBLE 10 SECONDS]"
                raise QueryError(message, window.span)
        written = self.streams[0].item.window
        is_whole = written is not None and is_emitted_whole(written.window)
        if written and is_whole and len(self.streams) == 1 and not select.summarizes_windows:
            is_hop = isinstance(written.window, (HopWindow, SessionWindow))
            what = "a window that is emitted as a whole" if is_hop else "SLIDE"
            message = f"{what} has no effect without an aggregate or a join of streams; remove it"
            raise QueryError(message, written.span)

    def _check_aggregated_join(self, select: Select) -> None:
        """What is joined is aggregated over a window that all streams have in common."""
        windows = {source.window for source in self.streams if source.item.window is not None}
        whole = all(
            isinstance(w, UnboundedWindow) or (isinstance(w, HopWindow) and w.is_tumbling) for w in windows
        )
        if len(windows) == 1 and whole:
            return
        spans = [*(call.span for call in select.aggregates), *(key.span for key in select.group_by)]
        message = "an aggregate over a join needs the same [TUMBLE 10 SECONDS] or [UNBOUNDED] for all streams"
        hint = "or make the join a stream, CREATE STREAM pairs AS SELECT ..., and aggregate that"
        raise QueryError(f"{message}; {hint}", spans[0])

    def joined(self) -> Node:
        streams = tuple(
            StreamScan(s.definition.name, s.alias, s.schema.names, s.window) for s in self.streams
        )
        node: Node = streams[0] if len(streams) == 1 else WindowJoin(streams, pools=self._probe_pools())
        for relation in self.sources:
            if relation not in self.streams:
                scan = RelationScan(relation.definition.name, relation.alias, relation.schema.names)
                with self._in_join_of(relation):
                    on = tuple(conjunct(self.condition(condition)) for condition in relation.item.on)
                kind = _RELATION_JOINS[relation.item.join]
                own = (*on, *self._equal(relation)) if kind is not physical.RelationJoin else ()
                node = RelationJoin(node, scan, own, kind)
        return node

    @contextmanager
    def _in_join_of(self, source: Source) -> Iterator[None]:
        """Names are those of ON: columns of the source are among them, whatever the join shows of it."""
        self._joining = source
        yield
        self._joining = None

    def inner_conditions(self) -> Iterator[Expression]:
        """The conditions of USING, for joins whose conditions are like those of WHERE."""
        for source in self.sources:
            if source.item.join is JoinKind.INNER:
                yield from self._equal(source)

    def _equal(self, source: Source) -> Iterator[Expression]:
        """The columns of USING, equal on both sides."""
        before = self.sources[: self.sources.index(source)]
        for name in source.item.using:
            own = source.column(ColumnReference(source.alias, name.text, name.span))
            others = [other for other in before if other.schema.find(name.text)]
            if not others:
                message = f"{name.text} is no column of {' or '.join(other.alias for other in before)}"
                raise QueryError(f"{message}; USING takes columns of both sides", name.span)
            left = others[0].column(ColumnReference(others[0].alias, name.text, name.span))
            sides = BoundColumn(others[0], left).tree, BoundColumn(source, own).tree
            yield Expression(exp.EQ(this=sides[0].copy(), expression=sides[1].copy()), name.span)

    def _check_joins(self) -> None:
        """Reject joins that are neither inner nor of a stream with a stored relation."""
        for source in self.sources:
            join, name = source.item.join, source.item.source
            if join is JoinKind.INNER:
                continue
            if source in self.streams:
                message = f"{join.value} with a stream is not supported: its match may come later"
                raise QueryError(f"{message}; write JOIN, or {join.value} with a stored relation", name.span)
            if join in (JoinKind.RIGHT, JoinKind.FULL):
                message = f"{join.value} would have to know which rows of {name.text} never find a match"
                raise QueryError(f"{message}; write LEFT JOIN", name.span)

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
        if self._is_spark_window(reference):
            name = f"window_{name}"
        elif name not in (START, END) or any(source.schema.find(name) for source in self.sources):
            return None
        windows = {s.window for s in self.streams}
        [window, *others] = windows
        if not isinstance(window, (HopWindow, SessionWindow)) or others:
            message = f"{reference.span.excerpt} needs TUMBLE, HOP or SESSION, the same for all streams"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", reference.span)
        types = {s.timestamp_type.lower() for s in self.streams}
        kind = self.streams[0].timestamp_type if len(types) == 1 else "TIMESTAMP"
        return WindowBound(name, window, kind, in_join=len(self.streams) > 1 and not self._is_aggregate)

    def _is_spark_window(self, reference: ColumnReference) -> bool:
        """Whether it is ``window.start`` or ``window.end`` of a window that GROUP BY makes."""
        names = reference.qualifier is not None and reference.qualifier.lower() in (
            "window",
            "session_window",
        )
        is_made = any(s.item.window is not None and s.item.window.time is not None for s in self.streams)
        return is_made and names and reference.name.lower() in ("start", "end")

    def bind(self, expression: ScalarExpression) -> Expression:
        self.type_of(expression)
        return self._bound(expression)

    def condition(self, expression: ScalarExpression) -> Expression:
        """A term of WHERE or ON."""
        self.type_check(expression).condition(expression.tree)
        return self._bound(expression)

    def _bound(self, expression: ScalarExpression) -> Expression:
        trees = {reference.span.start: self._found(reference).tree for reference in expression.columns}
        return Expression(over_text(expression.tree, trees), expression.span)

    def type_of(self, expression: ScalarExpression) -> Type:
        """The type of an expression, as far as it is known; a QueryError at what cannot be meant."""
        return self.type_check(expression).type_of(expression.tree)

    def type_check(
        self, expression: ScalarExpression, others: Mapping[int, Type] = MappingProxyType({})
    ) -> TypeCheck:
        """The check of an expression; ``others`` are types of names that are no columns, by their offsets."""
        starts = {reference.span.start: reference for reference in expression.columns}
        own = {start: self._found(r).type for start, r in starts.items() if start not in others}
        return TypeCheck(self._catalog.known_functions, {**own, **others}, expression.span)

    def _found(self, reference: ColumnReference) -> BoundColumn | WindowBound:
        return self.window_bound(reference) or self.resolve(reference)

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
            if source.is_hidden and source is not self._joining:
                message = f"{source.alias} is only compared with in {source.item.join.value}"
                raise QueryError(f"{message}; its columns are known in ON alone", reference.span)
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
            BoundColumn(source, column)
            for source in self.sources
            if (column := source.schema.find(name)) and (source is self._joining or source.shows(name))
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
        # FILTER (WHERE ...) is part of the call before it
        call = node.this if isinstance(node, exp.Filter) else node
        return trees.get(call.meta.get("start", -1)) if isinstance(call, exp.Anonymous) else None

    return replace_nodes(tree, change)


def conjunct(predicate: Expression) -> Expression:
    """The predicate, in parentheses if AND would bind tighter."""
    tree = predicate.tree
    return replace(predicate, tree=exp.Paren(this=tree.copy())) if isinstance(tree, exp.Or) else predicate
