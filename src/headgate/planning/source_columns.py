"""The sources of one SELECT, and the columns that its expressions refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from sqlglot import exp

from headgate.cql.syntax import ColumnReference, FromItem, Name, ScalarExpression, Select, WindowClause
from headgate.cql.windows import SPARK_WINDOWS, WINDOW_CALLS
from headgate.errors import QueryError, Span, known_names
from headgate.model.expression import Expression, column_of
from headgate.model.network import Column, RelationDefinition, StreamDefinition
from headgate.model.window import (
    HopWindow,
    SessionWindow,
    Window,
)
from headgate.planning.catalog import Catalog
from headgate.planning.from_items import END, START, WHOLE, BoundColumn, Source, WindowBound, over_text
from headgate.planning.generated_rows import call_of, rows_of
from headgate.planning.logical import Node, StreamScan
from headgate.planning.placed_calls import in_rows
from headgate.planning.type_check import TypeCheck, check_field
from headgate.planning.types import Type


class DerivedStreams(Protocol):
    """The derived streams that a query may read."""

    def find(self, item: FromItem) -> StreamDefinition | RelationDefinition | None:
        """The derived stream or relation that is meant; None if there is none of that name."""

    def instants(self, name: str) -> Mapping[str, int]:
        """Columns that tell the timestamp of a derived stream, by how many microseconds later they are."""


class Joins(DerivedStreams, Protocol):
    """The derived streams of a query, to which a SELECT adds what it computes as a stream of its own."""

    def joined(
        self, join: Node, read: Iterable[Expression], window: Window, alias: str = "joined"
    ) -> tuple[StreamScan, dict[str, exp.Expr]]:
        """The results of a join as a stream, and its columns in place of those that expressions read."""


class SourceColumns:
    """The sources of one SELECT by alias; aliases and columns are case-insensitive."""

    def __init__(self, select: Select, catalog: Catalog, derived: DerivedStreams) -> None:
        self._catalog = catalog
        self.aggregates = catalog.aggregates
        """The aggregate functions of the user's, in lower case."""
        self._derived = derived
        self._is_aggregate = select.is_aggregate
        self._is_of_windows = select.summarizes_windows
        self._needs_window = select.summarizes_windows or select.emits_departures
        self._joining: Source | None = None
        declared = [self._source(item) for item in select.sources if item.generator is None]
        self._set(_with_window_of_key(tuple(declared), select.window_key))
        self._add_generated(select.sources)
        plan_columns: set[str] = set()
        for source in self.sources:
            columns = {column_of(source.alias, name).lower() for name in source.schema.names}
            if columns & plan_columns:
                alias = source.item.alias
                raise QueryError(f"{alias.text} is too much like another alias; choose another", alias.span)
            plan_columns |= columns
        self._check_streams(select)

    def _set(self, sources: tuple[Source, ...]) -> None:
        self.sources = sources
        self.streams = tuple(s for s in sources if isinstance(s.definition, StreamDefinition))
        self._by_alias = {source.item.alias.text.lower(): source for source in sources}

    def _add_generated(self, items: Sequence[FromItem]) -> None:
        """Rows that are computed from tuples, each from the columns of the sources before it."""
        declared, known = iter(self.sources), list[Source]()
        values = [source for source in self.sources if source.item.is_value]
        for item in items:
            if item.generator is None:
                known.append(next(declared))
                continue
            # the values of subqueries are known from the first tuple on
            self._set((*known, *(one for one in values if one not in known)))
            argument = item.generator.argument
            definition = rows_of(item.generator, self.type_of(argument))
            assert definition.schema is not None
            rows = in_rows(self.of_tuple(argument), self._catalog)
            call = call_of(definition.name, rows, item.generator)
            known.append(Source(item, definition, definition.schema, call))
        self._set(tuple(known))

    def _source(self, item: FromItem) -> Source:
        name = item.source
        definition = self._derived.find(item) or self._catalog.find(name.text)
        if definition is None or definition.schema is None:
            raise unknown_source(name, self._catalog)
        window = item.window
        is_key = window is not None and window.time is not None and window.time.qualifier is None
        if isinstance(definition, RelationDefinition) and window is not None and not is_key:
            written = " ".join(window.span.excerpt.split())
            message = f"{name.text} is a stored relation and has no window; remove {written}"
            raise QueryError(message, window.span)
        columns = definition.columns if isinstance(definition, StreamDefinition) else definition.schema
        assert columns is not None
        return Source(item, definition, columns)

    def later_us(self, source: Source, column: Column) -> int | None:
        """How much later than the timestamp of a tuple a column of it is; None if that is not known."""
        if source.is_timestamp(column):
            return 0
        name = source.definition.name
        return self._derived.instants(name).get(column.name) if source.is_derived else None

    @contextmanager
    def _in_join_of(self, source: Source) -> Iterator[None]:
        """Names are those of ON: columns of the source are among them, whatever the join shows of it."""
        self._joining = source
        yield
        self._joining = None

    def window_bound(self, reference: ColumnReference) -> WindowBound | None:
        """The start or end of the window, unless a source has a column of that name."""
        name = reference.name.lower()
        if self._is_spark_window(reference):
            name = WHOLE if reference.qualifier is None else f"window_{name}"
        elif name not in (START, END) or any(source.schema.find(name) for source in self.sources):
            return None
        windows = {s.window for s in self.streams}
        [window, *others] = windows
        if not isinstance(window, (HopWindow, SessionWindow)) or others:
            message = f"{reference.span.excerpt} needs TUMBLE, HOP or SESSION, the same for all streams"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", reference.span)
        types = {s.timestamp_type.lower() for s in self.streams}
        kind = self.streams[0].timestamp_type if len(types) == 1 else "TIMESTAMP"
        return WindowBound(name, window, kind, not self._is_of_windows)

    def _is_spark_window(self, reference: ColumnReference) -> bool:
        """Whether it is ``window`` of GROUP BY, ``window.start`` or ``window.end``."""
        is_made = any(s.item.window is not None and s.item.window.time is not None for s in self.streams)
        if not is_made:
            return False
        if reference.name in WINDOW_CALLS:
            return True
        if reference.qualifier is None:
            is_column = any(source.schema.find(reference.name) for source in self.sources)
            return reference.name.lower() in SPARK_WINDOWS and not is_column
        return reference.qualifier.lower() in SPARK_WINDOWS and reference.name.lower() in ("start", "end")

    def bind(self, expression: ScalarExpression) -> Expression:
        self.type_of(expression)
        return self._bound(expression)

    def condition(self, expression: ScalarExpression) -> Expression:
        """A term of WHERE or ON."""
        self.type_check(expression).condition(expression.tree)
        return self._bound(expression)

    def of_tuple(self, expression: ScalarExpression) -> Expression:
        """An expression of what is evaluated for each tuple, before its window is complete."""
        self.type_of(expression)
        return self._bound_of_tuple(expression)

    def condition_of_tuple(self, expression: ScalarExpression) -> Expression:
        self.type_check(expression).condition(expression.tree)
        return self._bound_of_tuple(expression)

    def _bound_of_tuple(self, expression: ScalarExpression) -> Expression:
        """The bounds of a window that tumbles are known of each tuple: it is in no other one."""
        trees: dict[int, exp.Expr] = {}
        for reference in expression.columns:
            found = self._found(reference)
            if isinstance(found, WindowBound):
                if not (isinstance(found.window, HopWindow) and found.window.is_tumbling):
                    self.check_known(expression, "use it outside of the call, or write [TUMBLE 10 SECONDS]")
                found = replace(found, of_tuple=True)
            trees[reference.span.start] = found.tree
        return Expression(over_text(expression.tree, trees), expression.span)

    def check_known(self, expression: ScalarExpression, hint: str) -> None:
        """Reject bounds of the window in what is evaluated for each tuple."""
        for reference in expression.columns:
            if self.window_bound(reference) is not None:
                message = f"{reference.span.excerpt} is known when the window is complete"
                raise QueryError(f"{message}; {hint}", reference.span)

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
        bound = self.window_bound(reference)
        if bound is not None and bound.reads_first_tuple and not self._is_aggregate:
            message = f"{reference.name} of a session is known of groups; write GROUP BY"
            raise QueryError(message, reference.span)
        return bound or self.resolve(reference)

    def resolve(self, reference: ColumnReference) -> BoundColumn:
        if reference.qualifier is None:
            found = self.find(reference.name, reference.span)
            if found is None:
                sources = [s for s in self.sources if not s.item.is_added]
                several = len(sources) > 1
                names = [
                    (f"{s.alias}." if several else "") + name for s in sources for name in s.schema.names
                ]
                message = f"unknown column {reference.name}; columns: {', '.join(names)}"
                raise QueryError(message, reference.span)
            return found
        inside = self._joining
        if inside is not None and inside.is_called(reference.qualifier):
            return BoundColumn(inside, inside.column(reference))
        source = self._by_alias.get(reference.qualifier.lower())
        if source is not None:
            if source.is_hidden and source is not self._joining:
                message = f"{source.alias} is only compared with in {source.item.join_words}"
                where = "ON" if source.item.test is None else "the subquery"
                raise QueryError(f"{message}; its columns are known in {where} alone", reference.span)
            return BoundColumn(source, source.column(reference))
        struct = self.find(reference.qualifier, reference.span)
        if struct is None:
            raise self._unknown_alias(reference.qualifier, reference.span)
        check_field(struct.column.name, struct.type, reference.name, reference.span)
        return replace(struct, field=reference.name)

    def plain_column(self, expression: ScalarExpression) -> BoundColumn | None:
        """The column that an expression consists of; None for any other, and for the bounds of windows."""
        if len(expression.columns) != 1 or expression.columns[0].span != expression.span:
            return None
        [reference] = expression.columns
        return self.resolve(reference) if self.window_bound(reference) is None else None

    def struct(self, name: str, span: Span) -> BoundColumn | None:
        """A column with known fields; None if there is none, or an alias has its name."""
        column = None if name.lower() in self._by_alias else self.find(name, span)
        return column if column is not None and column.type.fields else None

    def source(self, alias: str, span: Span) -> Source:
        found = self._by_alias.get(alias.lower())
        if found is None:
            raise self._unknown_alias(alias, span)
        return found

    def find(self, name: str, span: Span) -> BoundColumn | None:
        """The column of this name without an alias; a subquery takes its own before those around it."""
        inside = self._joining
        if inside is not None and inside.item.test is not None and (own := inside.schema.find(name)):
            return BoundColumn(inside, own)
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
        known = known_names([source.alias for source in self.sources if not source.item.is_added])
        return QueryError(f"unknown alias {alias}; known: {known}", span)

    def _check_streams(self, select: Select) -> None:
        """Reject sources that do not go together."""
        raise NotImplementedError


def unknown_source(name: Name, catalog: Catalog) -> QueryError:
    """The message for a name in FROM that is none of a stream or relation."""
    if catalog.is_query(name.text):
        message = f"{name.text} is a query; FROM takes streams and relations"
        hint = "make it a stream, CREATE STREAM s AS SELECT ..., that both read"
        return QueryError(f"{message}; {hint}, or read what it writes", name.span)
    known = known_names([n for kind in ("stream", "relation", "view") for n in catalog.names(kind)])
    return QueryError(f"unknown stream or relation {name.text}; known: {known}", name.span)


def _with_window_of_key(sources: tuple[Source, ...], window: WindowClause | None) -> tuple[Source, ...]:
    """The sources; a window that GROUP BY makes is that of the stream whose timestamp it names."""
    if window is None or window.time is None or window.time.qualifier is not None:
        return sources
    streams = [source for source in sources if isinstance(source.definition, StreamDefinition)]
    named = [source for source in streams if source.schema.find(window.time.name)]
    owner = next(iter(named or streams), None)
    windows = (window if source is owner else None for source in sources)
    return tuple(s.windowed(own) for s, own in zip(sources, windows, strict=True))
