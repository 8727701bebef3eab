"""FROM: its streams, relations and windows, and the columns that expressions refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

from sqlglot import exp

from headgate.cql.statement import (
    ColumnReference,
    FromItem,
    JoinKind,
    ScalarExpression,
    Select,
    SelectItem,
    WindowClause,
)
from headgate.cql.windows import SPARK_WINDOWS, WINDOW_CALLS
from headgate.errors import QueryError, Span, known_names
from headgate.model import joins
from headgate.model.expression import Expression, column_of
from headgate.model.network import Column, RelationDefinition, StreamDefinition
from headgate.model.sql_tree import operand
from headgate.model.window import (
    HopWindow,
    LandmarkWindow,
    RowWindow,
    SessionWindow,
    SlidingRowWindow,
    TimeWindow,
    UnboundedWindow,
    UntilWindow,
    Window,
    is_emitted_whole,
)
from headgate.planning.catalog import Catalog
from headgate.planning.logical import Node, RelationJoin, RelationScan, StreamScan, WindowJoin
from headgate.planning.placed_calls import outside_joins
from headgate.planning.sources import END, START, WHOLE, BoundColumn, Source, WindowBound, over_text
from headgate.planning.time_conditions import Timestamps, bounded_by_conditions
from headgate.planning.type_check import TypeCheck, check_field
from headgate.planning.types import Type

_RELATION_JOINS = {
    JoinKind.INNER: joins.RelationJoin,
    JoinKind.LEFT: joins.LeftRelationJoin,
    JoinKind.SEMI: joins.SemiRelationJoin,
    JoinKind.ANTI: joins.AntiRelationJoin,
}
STREAM_JOINS: dict[JoinKind, type[joins.WindowJoin]] = {
    JoinKind.INNER: joins.WindowJoin,
    JoinKind.LEFT: joins.LeftWindowJoin,
    JoinKind.RIGHT: joins.RightWindowJoin,
    JoinKind.FULL: joins.FullWindowJoin,
    JoinKind.SEMI: joins.SemiWindowJoin,
    JoinKind.ANTI: joins.AntiWindowJoin,
}
# types of timestamps whose differences are differences of time
_TIMES = frozenset(("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"))
_WHOLE_NUMBERS = frozenset(("BIGINT", "LONG", "INT", "INTEGER"))
MOST_JOINED = 14
"""Streams of one join: the optimiser computes rates of all their subsets."""


class DerivedStreams(Protocol):
    """The derived streams that a query may read."""

    def find(self, item: FromItem) -> StreamDefinition | RelationDefinition | None:
        """The derived stream or relation that is meant; None if there is none of that name."""

    def instants(self, name: str) -> Mapping[str, int]:
        """Columns that tell the timestamp of a derived stream, by how many microseconds later they are."""


class Joins(DerivedStreams, Protocol):
    """The derived streams of a query, to which a SELECT adds what it computes as a stream of its own."""

    def joined(
        self, join: Node, read: Iterable[Expression], window: Window
    ) -> tuple[StreamScan, dict[str, exp.Expr]]:
        """The results of a join as a stream, and its columns in place of those that expressions read."""


class Scope:
    """The sources of one SELECT by alias; aliases and columns are case-insensitive."""

    def __init__(self, select: Select, catalog: Catalog, derived: DerivedStreams) -> None:
        self._catalog = catalog
        self.aggregates = catalog.aggregates
        """The aggregate functions of the user's, in lower case."""
        self._derived = derived
        self._is_aggregate = select.is_aggregate
        self._is_of_windows = select.summarizes_windows
        self._joining: Source | None = None
        self.sources = _with_window_of_key(tuple(map(self._source, select.sources)), select.window_key)
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
                message = f"{name.text} is a query; FROM takes streams and relations"
                hint = "make it a stream, CREATE STREAM s AS SELECT ..., that both read"
                raise QueryError(f"{message}; {hint}, or read what it writes", name.span)
            known = known_names(
                [n for kind in ("stream", "relation", "view") for n in self._catalog.names(kind)]
            )
            raise QueryError(f"unknown stream or relation {name.text}; known: {known}", name.span)
        window = item.window
        is_key = window is not None and window.time is not None and window.time.qualifier is None
        if isinstance(definition, RelationDefinition) and window is not None and not is_key:
            written = " ".join(window.span.excerpt.split())
            message = f"{name.text} is a stored relation and has no window; remove {written}"
            raise QueryError(message, window.span)
        columns = definition.columns if isinstance(definition, StreamDefinition) else definition.schema
        assert columns is not None
        return Source(item, definition, columns)

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
        if len(self.streams) > 1 and (select.is_aggregate or select.ranking is not None):
            self._check_aggregated_join(select)
        for source in self.streams:
            source.check_time()
            source.check_until(self._catalog.known_functions)
            self._check_until_calls(source)
        for source in self.streams if len(self.streams) > 1 else ():
            self._check_joined_window(source)
        written = self.streams[0].item.window
        is_whole = written is not None and is_emitted_whole(written.window)
        is_shown = select.summarizes_windows or select.emission is not None
        if written and is_whole and len(self.streams) == 1 and not is_shown:
            self._check_window_of_tuples(select, written)

    def _check_window_of_tuples(self, select: Select, written: WindowClause) -> None:
        """Reject a window of tuples by themselves, unless they tell the bounds of theirs."""
        expressions = [item.expression for item in select.items if isinstance(item, SelectItem)]
        for expression in expressions:
            # what is wrong with it goes first: the name of an aggregate function may be misspelt
            self.type_of(expression)
        is_tumbling = isinstance(written.window, HopWindow) and written.window.is_tumbling
        read = [reference for expression in expressions for reference in expression.columns]
        if is_tumbling and any(self.window_bound(reference) is not None for reference in read):
            return
        is_hop = isinstance(written.window, (HopWindow, SessionWindow))
        what = "a window that is emitted as a whole" if is_hop else "SLIDE"
        message = f"{what} has no effect without an aggregate or a join of streams; remove it"
        hint = ", or write SELECT RSTREAM to list its tuples at its end" if is_hop else ""
        raise QueryError(f"{message}{hint}", written.span)

    def _check_until_calls(self, source: Source) -> None:
        """Reject an end of tuples that a pool would have to find."""
        window = source.window
        if not isinstance(window, UntilWindow):
            return
        for function in sorted(window.end.functions):
            if (placed := self._catalog.placed(function)) is not None:
                message = f"{placed[0].name} is placed on pool {placed[1]}, and a window cannot wait for it"
                raise QueryError(f"{message}; make its value a column of a stream", window.end.span)

    def _check_joined_window(self, source: Source) -> None:
        """Reject a stream of a join whose window is shown only now and then."""
        name, window = source.item.source.text, source.item.window
        if window is None:
            # a condition on timestamps may bound it
            return
        own, problem = window.window, ""
        if isinstance(own, SessionWindow):
            problem = f"sessions cannot be joined; write {name} [RANGE 10 SECONDS]"
        elif isinstance(own, HopWindow) and not own.is_tumbling:
            problem = f"a tuple is in several of these windows; write {name} [TUMBLE 10 SECONDS]"
        elif isinstance(own, SlidingRowWindow):
            problem = f"matches are found as tuples arrive; write {name} [ROWS {own.rows}]"
        elif isinstance(own, LandmarkWindow) and not self._is_aggregate:
            problem = f"matches are found as tuples arrive; write {name} [UNBOUNDED]"
        elif isinstance(own, UntilWindow) and own.slide_us:
            problem = f"matches are found as tuples arrive; write {name} [UNTIL {own.end}]"
        if problem:
            raise QueryError(problem, window.span)

    def _check_aggregated_join(self, select: Select) -> None:
        """What is joined is aggregated over a window that all streams have in common."""
        if select.window_key is not None:
            written = " ".join(select.window_key.span.excerpt.split())
            message = f"{written} groups one stream, and FROM joins {len(self.streams)}"
            hint = "write [TUMBLE 10 SECONDS] behind each, or group a subquery, FROM (SELECT ...) AS x"
            raise QueryError(f"{message}; {hint}", select.window_key.span)
        windows = {source.window for source in self.streams if source.item.window is not None}
        whole = all(
            isinstance(w, UnboundedWindow) or (isinstance(w, HopWindow) and w.is_tumbling) for w in windows
        )
        if len(windows) == 1 and whole:
            return
        spans = [*(call.span for call in select.aggregates), *(key.span for key in select.group_by)]
        spans += [] if select.ranking is None else [select.ranking.span]
        what = "an aggregate" if select.is_aggregate else "a ranking"
        message = f"{what} over a join needs the same [TUMBLE 10 SECONDS] or [UNBOUNDED] for all streams"
        hint = "or make the join a stream, CREATE STREAM pairs AS SELECT ..., and aggregate that"
        raise QueryError(f"{message}; {hint}", spans[0])

    def joined(self, conditions: Sequence[Expression]) -> Node:
        """All sources, joined; ``conditions`` are those of WHERE."""
        scans = self.scans()
        return self.with_relations(scans[0] if len(scans) == 1 else self._joined_streams(scans, conditions))

    def scans(self) -> tuple[StreamScan, ...]:
        """What is read of the streams."""
        return tuple(
            StreamScan(s.definition.name, s.alias, s.brought, self._window_of(s), s.is_derived)
            for s in self.streams
        )

    def with_relations(self, node: Node, renamed: Mapping[str, exp.Expr] = MappingProxyType({})) -> Node:
        """The join of streams, joined with the stored relations; its columns may have been renamed."""
        for relation in self.sources:
            if relation not in self.streams:
                assert isinstance(relation.definition, RelationDefinition)
                named = relation.definition.name, relation.alias, relation.schema.names
                scan = RelationScan(*named, relation.definition if relation.definition.selects else None)
                kind = _RELATION_JOINS[relation.item.join]
                own = tuple(one.over(renamed) for one in self.on_of_relation(relation))
                node = RelationJoin(node, scan, own, kind)
        return node

    def _joined_streams(self, scans: tuple[StreamScan, ...], conditions: Sequence[Expression]) -> WindowJoin:
        outer = next((s for s in self.streams if s.item.join is not JoinKind.INNER), None)
        on = () if outer is None else self.on(outer)
        if outer is not None:
            self._check_condition_of_streams(outer, on)
        bounded = bounded_by_conditions(scans, conditions if outer is None else on, self._timestamps())
        for source, scan in zip(self.streams, bounded, strict=True):
            name = source.item.source
            if source.item.window is None and isinstance(scan.window, UnboundedWindow):
                message = f"{name.text} needs a window in a join, e.g. {name.text} [RANGE 10 SECONDS]"
                others = (
                    "[UNBOUNDED] to keep all tuples" if outer is None else "a condition on both timestamps"
                )
                raise QueryError(f"{message}, or {others}", name.span)
        kind = JoinKind.INNER if outer is None else outer.item.join
        return WindowJoin(bounded, on, self._probe_pools(), STREAM_JOINS[kind])

    def on_of_relation(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join with a stored relation; that of an inner one is like WHERE."""
        return () if source.item.join is JoinKind.INNER else self.on(source)

    def on_of_stream(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join with a stream; that of an inner one is like WHERE."""
        on = self.on_of_relation(source)
        self._check_condition_of_streams(source, on)
        return on

    def on(self, source: Source) -> tuple[Expression, ...]:
        """The condition of a join that is not inner."""
        with self._in_join_of(source):
            on = tuple(conjunct(self.condition(one)) for one in source.item.on)
        terms = (*on, *self._equal(source), *self._compared(source))
        return tuple(outside_joins(term, self._catalog) for term in terms)

    def _compared(self, source: Source) -> Iterator[Expression]:
        """What IN compares. For NOT IN, a comparison with NULL is as good as a match, as SQL has it."""
        if source.item.test is None or source.item.test.compared is None:
            return
        value, listed = source.item.test.compared
        left = self.bind(value)
        with self._in_join_of(source):
            right = self.bind(listed)
        span = replace(value.span, end=listed.span.end)
        equal = exp.EQ(this=operand(left.tree), expression=operand(right.tree))
        if source.item.join is JoinKind.ANTI:
            unknown = exp.Is(this=exp.Paren(this=equal.copy()), expression=exp.Null())
            yield Expression(exp.Paren(this=exp.Or(this=equal.copy(), expression=unknown)), span)
        else:
            yield Expression(equal, span)

    def _timestamps(self) -> Timestamps:
        """The timestamps of the streams, as far as conditions between them tell how far tuples are apart."""
        kinds = {source.timestamp_type.strip().upper() for source in self.streams}
        are_numbers = kinds <= _WHOLE_NUMBERS
        if (not are_numbers and len(kinds) > 1) or not kinds <= _WHOLE_NUMBERS | _TIMES:
            return Timestamps({}, are_numbers)
        columns = {
            column_of(source.alias, column.name): (source.alias, later_us)
            for source in self.streams
            for column in source.schema.columns
            # results may have fractions of seconds, which whole numbers do not show
            if (later_us := self.later_us(source, column)) is not None
            and not (are_numbers and source.is_derived)
        }
        return Timestamps(columns, are_numbers)

    def later_us(self, source: Source, column: Column) -> int | None:
        """How much later than the timestamp of a tuple a column of it is; None if that is not known."""
        if source.is_timestamp(column):
            return 0
        name = source.definition.name
        return self._derived.instants(name).get(column.name) if source.is_derived else None

    def _window_of(self, source: Source) -> Window:
        """What is read of a stream; when totals are shown is up to the aggregate."""
        is_shown = isinstance(source.window, LandmarkWindow) and len(self.streams) > 1
        is_named = len(self.streams) == 1 and not self._is_of_windows and isinstance(source.window, HopWindow)
        return UnboundedWindow() if is_shown or is_named else source.window

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
            others = [other for other in before if other.schema.find(name.text) and other.shows(name.text)]
            if not others:
                message = f"{name.text} is no column of {' or '.join(other.alias for other in before)}"
                raise QueryError(f"{message}; USING takes columns of both sides", name.span)
            if len(others) > 1:
                choices = [f"ON {o.alias}.{name.text} = {source.alias}.{name.text}" for o in others]
                message = f"{name.text} of the left side is ambiguous; write {' or '.join(choices)}"
                raise QueryError(message, name.span)
            left = others[0].column(ColumnReference(others[0].alias, name.text, name.span))
            sides = BoundColumn(others[0], left).tree, BoundColumn(source, own).tree
            yield Expression(exp.EQ(this=sides[0].copy(), expression=sides[1].copy()), name.span)

    def _check_joins(self) -> None:
        """Reject joins that would wait for ever to know that something has no match, and chains of such."""
        for source in self.sources:
            join, name = source.item.join, source.item.source
            if join is JoinKind.INNER:
                continue
            if source in self.streams:
                self._check_outer_join(source)
            elif join in (JoinKind.RIGHT, JoinKind.FULL):
                stream = self.streams[0].alias if self.streams else "a stream"
                message = f"while {stream} goes on, a row of {name.text} may still find its first match"
                raise QueryError(
                    f"{message}, so {source.item.join_words} would never emit it; write LEFT JOIN", name.span
                )

    def _check_outer_join(self, source: Source) -> None:
        """Of two streams: the tuples that are emitted without a match must leave their window by time."""
        join, name, place = source.item.join_words, source.item.source, self.sources.index(source)
        if len(self.streams) == 1:
            stored = self.sources[0].item.source.text
            if source.item.join is JoinKind.RIGHT:
                message = f"{join} reads a stream behind the stored relation {stored}"
            else:
                message = f"{join} begins with the stored relation {stored}"
                message += ", whose rows may find a match later"
            hint = f"begin with the stream, as in FROM {name.text} LEFT JOIN {stored}"
            raise QueryError(f"{message}; {hint}", name.span)
        if len(self.streams) > 2:
            self._check_chain(source)
        relations = [other for other in self.sources[:place] if other not in self.streams]
        if relations and source.item.join in (JoinKind.RIGHT, JoinKind.FULL):
            message = f"{join} would keep tuples of {name.text} past the join with {relations[0].alias}"
            raise QueryError(f"{message}; write {relations[0].alias} after it", name.span)
        if source.item.using and source.item.join in (JoinKind.RIGHT, JoinKind.FULL):
            column = source.item.using[0].text
            message = f"{column} may be NULL on one side of {join}"
            hint = f"write ON {self.streams[0].alias}.{column} = {source.alias}.{column}"
            raise QueryError(f"{message}; {hint}", source.item.using[0].span)
        kind = STREAM_JOINS[source.item.join]
        assert issubclass(kind, joins.OuterWindowJoin)
        for kept in (self.streams[side] for side in kind.preserved):
            if kept.item.window is not None and isinstance(kept.item.window.window, RowWindow):
                message = (
                    f"later tuples decide when one leaves {kept.window}, and {join} must know it by time"
                )
                hint = f"write {kept.item.source.text} [RANGE 10 SECONDS]"
                raise QueryError(f"{message}; {hint}", kept.item.window.span)

    def _check_chain(self, source: Source) -> None:
        """Streams that are joined two by two have windows in which the results of each join lie."""
        windows = {stream.window for stream in self.streams}
        join, name = source.item.join_words, source.item.source
        if len(windows) > 1 or not all(isinstance(one, HopWindow) and one.is_tumbling for one in windows):
            message = f"{join} takes two streams, and FROM has {len(self.streams)}"
            hint = "write the same [TUMBLE 10 SECONDS] behind each, or make two of them a stream"
            raise QueryError(f"{message}; {hint}, CREATE STREAM pairs AS SELECT ...", name.span)
        before = self.streams[1 : self.streams.index(source)]
        is_kept = source.item.join in (JoinKind.RIGHT, JoinKind.FULL)
        if is_kept and any(one.item.join is JoinKind.INNER for one in before):
            message = f"{join} would keep tuples that JOIN before it leaves out"
            hint = "make the first two a stream, CREATE STREAM pairs AS SELECT ..., and join that"
            raise QueryError(f"{message}; {hint}", name.span)

    def _check_condition_of_streams(self, source: Source, on: Sequence[Expression]) -> None:
        """The condition compares the streams that are joined, without what is joined with them afterwards."""
        relations = [other for other in self.sources if other not in self.streams]
        for condition in on:
            for other in relations:
                columns = {column_of(other.alias, column) for column in other.schema.names}
                if columns.intersection(condition.columns):
                    message = (
                        f"ON of {source.item.join_words} compares two streams, and {other.alias} is none"
                    )
                    raise QueryError(f"{message}; write the condition in WHERE", condition.span)

    def _probe_pools(self) -> tuple[str, ...]:
        """The pools of all probes; none, if no probe is placed."""
        names = [source.definition.name for source in self.streams]
        pools = {name: pool for name in names if (pool := self._catalog.pool_of_probe(name)) is not None}
        for source in self.streams if pools else ():
            if source.item.join is not JoinKind.INNER:
                message = f"the probe of {next(iter(pools))} is placed, and {source.item.join_words} is not"
                raise QueryError(f"{message} for placed probes; write JOIN", source.item.source.span)
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
                several = len(self.sources) > 1
                names = [
                    (f"{s.alias}." if several else "") + name for s in self.sources for name in s.schema.names
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
        known = known_names([source.alias for source in self.sources])
        return QueryError(f"unknown alias {alias}; known: {known}", span)


def _with_window_of_key(sources: tuple[Source, ...], window: WindowClause | None) -> tuple[Source, ...]:
    """The sources; a window that GROUP BY makes is that of the stream whose timestamp it names."""
    if window is None or window.time is None or window.time.qualifier is not None:
        return sources
    streams = [source for source in sources if isinstance(source.definition, StreamDefinition)]
    named = [source for source in streams if source.schema.find(window.time.name)]
    owner = next(iter(named or streams), None)
    windows = (window if source is owner else None for source in sources)
    return tuple(s.windowed(own) for s, own in zip(sources, windows, strict=True))


def conjunct(predicate: Expression) -> Expression:
    """The predicate, in parentheses if AND would bind tighter."""
    tree = predicate.tree
    return replace(predicate, tree=exp.Paren(this=tree.copy())) if isinstance(tree, exp.Or) else predicate
