"""The items of FROM, resolved: sources with their columns, and what a column reference can mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headgate.cql.syntax import ColumnReference, FromItem, JoinKind, WindowClause
from headgate.errors import QueryError
from headgate.model.expression import TIMESTAMP_US, Expression, column_of, time_text
from headgate.model.network import Column, RelationDefinition, Schema, StreamDefinition
from headgate.model.sql_tree import column_tree, field_of, replace_nodes
from headgate.model.window import HopWindow, RowWindow, SessionWindow, UnboundedWindow, UntilWindow, Window
from headgate.planning.type_check import Functions, TypeCheck
from headgate.planning.types import Type

START, END, WHOLE = "window_start", "window_end", "window"
# kinds of types that tell a time: timestamps, dates, and numbers of seconds
_TIMES = frozenset("tnDyhilfdm")


@dataclass(frozen=True)
class Source:
    """A stream or relation in FROM, with its columns known."""

    item: FromItem
    definition: StreamDefinition | RelationDefinition
    schema: Schema
    generated: Expression | None = None
    """The call that gives its rows, if these are computed from each tuple."""

    @property
    def alias(self) -> str:
        """Its name in the query: the alias as written, or its own name as declared."""
        written = self.item.alias.text
        return self.definition.name if written.lower() == self.definition.name.lower() else written

    @property
    def shown(self) -> str:
        """What messages call it."""
        return "(SELECT ...)" if self.item.is_value else self.alias

    @property
    def window(self) -> Window:
        """The window of a stream; without one, all tuples so far."""
        written = self.item.window
        if written is None:
            return UnboundedWindow()
        if written.keys and isinstance(written.window, RowWindow):
            return replace(written.window, keys=tuple(dict.fromkeys(map(self._window_key, written.keys))))
        if isinstance(written.window, UntilWindow) and written.until is not None:
            columns = {r.span.start: self._until_column(r) for r in written.until.columns}
            trees = {start: column.tree_as_declared for start, column in columns.items()}
            end = Expression(over_text(written.until.tree, trees), written.until.span)
            return replace(written.window, end=end)
        return written.window

    def windowed(self, window: WindowClause | None) -> Source:
        """The source with another window."""
        return replace(self, item=replace(self.item, window=window))

    @property
    def is_derived(self) -> bool:
        """Whether it is a stream of results."""
        return self.definition.format == "derived"

    @property
    def brought(self) -> tuple[str, ...]:
        """The columns that are not computed."""
        return self.definition.schema.names if self.definition.schema is not None else ()

    def computed(self, column: Column) -> Expression | None:
        """What a column is computed from; None if the source brings it."""
        own = self.definition.computed if isinstance(self.definition, StreamDefinition) else ()
        return next((one.value for one in own if one.name == column.name), None)

    def check_time(self, timestamps: Collection[str]) -> None:
        """Reject a window that GROUP BY or a function in FROM makes of another column than the timestamp."""
        window = self.item.window
        time = None if window is None else window.time or window.descriptor
        if time is not None and self.column(time).name not in timestamps:
            own = " or ".join(timestamps) or "none: declare it with OPTIONS (timestamp 'column')"
            message = f"{time.span.excerpt} is not the timestamp of {self.alias}, which is {own}"
            raise QueryError(message, time.span)

    def check_until(self, functions: Functions) -> None:
        """Reject an end of tuples that is no time."""
        until = self.item.window.until if self.item.window is not None else None
        if until is None:
            return
        types = {r.span.start: self._until_column(r).type for r in until.columns}
        found = TypeCheck(functions, types, until.span).type_of(until.tree)
        if found.kind is not None and found.kind not in _TIMES:
            message = f"UNTIL takes a time, and {' '.join(until.text.split())} is {found}"
            raise QueryError(f"{message}; write a TIMESTAMP, or a number of seconds", until.span)

    def _until_column(self, reference: ColumnReference) -> BoundColumn:
        if reference.qualifier is None or self._is_own(reference.qualifier):
            return BoundColumn(self, self.column(reference))
        struct = self.schema.find(reference.qualifier)
        if struct is None:
            raise self._foreign(reference, "UNTIL")
        return BoundColumn(self, struct, reference.name)

    def _window_key(self, key: ColumnReference) -> str:
        if key.qualifier and not self._is_own(key.qualifier):
            raise self._foreign(key, "PARTITION BY")
        column = self.column(key)
        if self.computed(column) is not None:
            message = f"{column.name} is computed, and PARTITION BY takes columns that the source brings"
            raise QueryError(f"{message}; write {', '.join(self.brought)}", key.span)
        return column.name

    def _is_own(self, qualifier: str) -> bool:
        return qualifier.lower() in (self.alias.lower(), self.item.source.text.lower())

    def _foreign(self, reference: ColumnReference, clause: str) -> QueryError:
        columns = ", ".join(self.schema.names)
        message = f"{clause} takes columns of {self.alias} alone; columns: {columns}"
        return QueryError(message, reference.span)

    def shows(self, name: str) -> bool:
        """Whether a column without an alias may be one of its own; USING takes that of the left side."""
        return self.is_listed and name.lower() not in {one.text.lower() for one in self.item.using}

    def is_called(self, name: str) -> bool:
        """Whether it is the source of a subquery that calls it so."""
        return self.item.test is not None and self.item.test.name.lower() == name.lower()

    @property
    def is_listed(self) -> bool:
        """Whether a star, and columns without an alias, may be its columns."""
        return not self.is_hidden and not self.item.is_added

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
        return self._over(lambda name: column_of(self.source.alias, name))

    @property
    def tree_as_declared(self) -> exp.Expr:
        """The column by the name that it has in its stream, rather than in a plan."""
        return self._over(lambda name: name)

    def _over(self, named: Callable[[str], str]) -> exp.Expr:
        """The value, over columns of the source that are named like this."""
        computed = self.source.computed(self.column)
        if computed is None:
            value: exp.Expr = column_tree(named(self.column.name))
        else:
            value = computed.over({name: column_tree(named(name)) for name in computed.columns}).tree
        return field_of(value, [] if self.field is None else [exp.to_identifier(self.field, quoted=True)])


@dataclass(frozen=True)
class WindowBound:
    """``window_start``, ``window_end``, or ``window`` with both, of the window that a result is about."""

    name: str
    window: HopWindow | SessionWindow
    timestamp_type: str
    of_tuple: bool
    """Whether the timestamp of the result lies inside the window."""

    @property
    def type(self) -> Type:
        kind = self.timestamp_type
        return Type.declared(f"STRUCT<start: {kind}, end: {kind}>" if self.name == WHOLE else kind)

    @property
    def reads_first_tuple(self) -> bool:
        """Whether it depends on the timestamp of the first tuple of the window."""
        return self.name != END and isinstance(self.window, SessionWindow)

    @property
    def tree(self) -> exp.Expr:
        """An aggregate's results have the end of their window as timestamp; tuples and matches lie inside."""
        ts = f"`{TIMESTAMP_US}`"
        if isinstance(self.window, SessionWindow):
            return self.between(ts, ts)
        length = f"{self.window.range_us}L"
        start = f"({ts} - pmod({ts}, {length}))" if self.of_tuple else f"({ts} - {length})"
        end = f"({ts} - pmod({ts}, {length}) + {length})" if self.of_tuple else f"({ts})"
        return self.between(start, end)

    def between(self, start: str, end: str) -> exp.Expr:
        """What is meant of bounds in microseconds, in the type of the stream's timestamps."""
        first, last = (time_text(micros, self.timestamp_type) for micros in (start, end))
        whole = f"named_struct('start', {first}, 'end', {last})"
        return Expression.parse({START: first, END: last}.get(self.name, whole)).tree


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
