"""Bind queries whose sink holds the latest results, one row for each key.

The rows of a SELECT change if later tuples replace them: those of an aggregate over all tuples so far, of a
ranking, and of every SELECT over such a subquery. They are a state over streams, and steps of SQL over the
state. Results that never change are replaced by later ones of the same key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headgate.cql import syntax
from headgate.cql.statement import CreateQuery, Setting, SinkClause
from headgate.cql.syntax import FromItem, Name, Select
from headgate.errors import QueryError, Span, known_names
from headgate.model.expression import TIMESTAMP_US, Expression, NamedExpression, column_of, time_text
from headgate.model.network import Column, Schema, StreamDefinition
from headgate.model.sql_tree import column_tree
from headgate.model.table import (
    CHANGE,
    RANK,
    Groups,
    Held,
    LastRowsState,
    Named,
    Ranked,
    RankedState,
    Ranking,
    SortKey,
    State,
    Step,
    Where,
)
from headgate.model.window import RowWindow, TimeWindow, UnboundedWindow, is_emitted_whole
from headgate.planning.bind import Branch, Clauses
from headgate.planning.catalog import Catalog
from headgate.planning.derived_streams import Derived
from headgate.planning.from_items import Source
from headgate.planning.grouping import RowGrouping, StateGrouping
from headgate.planning.logical import Changes, Node, Table
from headgate.planning.placed_calls import without_pool
from headgate.planning.row_steps import columns_of, distinct_rows, finished
from headgate.planning.select_list import TIMESTAMP
from headgate.planning.stored_subqueries import is_stored

_CHANGES = "changes"
_WITHOUT_ORDER = re.compile(r"\b(map|variant)\b", re.IGNORECASE)
# at every instant all of them are at hand
_MOST_RANKED = 100


def bind_table(query: CreateQuery, catalog: Catalog, derived: Derived) -> Table:
    """The query as a state over its streams, and steps that compute the current rows."""
    binding = _Binding(catalog, derived)
    given = _key_option(query.sink)
    [select, *others] = query.branches
    if not others and (binding.changes(select) or (given is None and binding.holds(select))):
        rows = binding.rows(select)
    else:
        rows = binding.latest_by_key(query.branches, given, select)
    if given is not None:
        _check_key(rows, given)
    return Table(rows.input, rows.items, rows.state, rows.steps)


def changes_of(table: Table, query: CreateQuery) -> Changes:
    """All changes of the rows of a table, each with its kind; what they cannot be computed of is refused."""
    span = query.branches[0].span
    if any(item.name.lower() == CHANGE for item in table.items):
        named = (item.alias for item in query.branches[0].items if isinstance(item, syntax.SelectItem))
        found = next((alias.span for alias in named if alias and alias.text.lower() == CHANGE), span)
        message = f"the kind of a change is called {CHANGE}; write AS another_name"
        raise QueryError(message, found)
    state, hint = table.state, "write mode 'latest'"
    if isinstance(state, (Held, LastRowsState)):
        message = "changes are those of all tuples so far, and a window loses tuples at any time"
        raise QueryError(f"{message}; {hint}, or leave the window out", span)
    if any(isinstance(step, (Groups, Ranked)) for step in table.steps):
        message = "changes are those of groups or rankings of tuples, not of rows that change themselves"
        raise QueryError(f"{message}; {hint}", span)
    if isinstance(state, RankedState) and state.ranking.rows > _MOST_RANKED:
        message = f"changes are those of the first {_MOST_RANKED} ranks at most"
        raise QueryError(f"{message}; take fewer, or {hint}", span)
    return Changes(table.input, table.items, state, table.steps)


def _key_option(sink: SinkClause | None) -> Setting | None:
    options = () if sink is None else sink.options
    return next((option for option in options if option.key.text.lower() == "key"), None)


def _names(option: Setting) -> tuple[str, ...]:
    return tuple(name.strip() for name in option.value.split(",") if name.strip())


@dataclass(frozen=True)
class _Rows:
    """The rows of a SELECT: from which state, by which steps, and with which columns."""

    input: Node
    state: State
    steps: tuple[Step, ...]
    items: tuple[NamedExpression, ...]
    types: tuple[str, ...]
    timestamp_type: str
    key: tuple[str, ...] | None
    """The columns that tell rows apart; None if that is not known."""

    @property
    def schema(self) -> Schema:
        pairs = zip(self.items, self.types, strict=True)
        columns = (Column(item.name, kind) for item, kind in pairs)
        return Schema((Column(TIMESTAMP, self.timestamp_type), *columns))

    def under(self, alias: str) -> Named:
        """The step that gives columns the names by which a SELECT knows them."""
        items = [
            NamedExpression(column_of(alias, item.name), Expression(column_tree(item.name)))
            for item in self.items
        ]
        ts = Expression.parse(time_text(f"`{TIMESTAMP_US}`", self.timestamp_type))
        return Named((NamedExpression(column_of(alias, TIMESTAMP), ts), *items))


@dataclass(frozen=True)
class _Below:
    """What a SELECT over the rows of another reads."""

    rows: _Rows

    def find(self, item: FromItem) -> StreamDefinition:
        """The rows, in place of a derived stream."""
        return StreamDefinition(item.alias.text, "derived", self.rows.schema, timestamp=TIMESTAMP)

    def instants(self, name: str) -> Mapping[str, int]:
        """Rows are not joined by their times."""
        del name
        return {}


@dataclass(frozen=True)
class _Binding:
    catalog: Catalog
    derived: Derived

    def changes(self, select: Select) -> bool:
        """Whether later tuples replace rows of a SELECT."""
        windows = [source.window.window for source in select.sources if source.window is not None]
        is_whole = any(map(is_emitted_whole, windows))
        return self._table_below(select) is not None or (select.summarizes_windows and not is_whole)

    def holds(self, select: Select) -> bool:
        """Whether rows of a SELECT are those that a window of time or by rows holds, of one stream."""
        others = sum(is_stored(one, self.catalog) for one in select.sources)
        windows = [one.window.window for one in select.sources if one.window is not None]
        if not len(windows) == 1 == len(select.sources) - others or is_emitted_whole(windows[0]):
            return False
        return isinstance(windows[0], TimeWindow) or (isinstance(windows[0], RowWindow) and not others)

    def _table_below(self, select: Select) -> Select | None:
        """The subquery or view that a SELECT reads the current rows of; with a window it is a stream."""
        [item, *others] = select.sources
        view = self.catalog.find_view(item.source.text)
        branches = item.branches or (() if view is None else view.branches)
        beside = [other for other in others if other.generator is None and not other.is_value]
        is_table = not beside and item.window is None and len(branches) == 1 and self.changes(branches[0])
        if is_table and others:
            shown = "(SELECT ...)" if others[0].generator is None else others[0].generator.function
            message = f"{shown} does not go with rows that change"
            hint = "write it in the subquery, in a condition of HAVING or over its tuples"
            raise QueryError(f"{message}; {hint}", others[0].alias.span)
        return branches[0] if is_table else None

    def rows(self, select: Select) -> _Rows:
        """The current rows of a SELECT that change."""
        if select.emission is not None:
            message = f"{select.emission.kind.value} makes a stream of rows that change"
            raise QueryError(f"{message}; leave it out with mode 'latest' or 'changes'", select.emission.span)
        inner = self._table_below(select)
        if inner is None:
            return self._over_streams(select)
        below = self.rows(inner)
        branch = Branch(select, self.catalog, _Below(below))
        clauses = branch.clauses(RowGrouping)
        for expression in (*clauses.predicates, *clauses.read):
            without_pool(expression, self.catalog)
        steps: list[Step] = [*below.steps, below.under(branch.scope.sources[0].alias)]
        if clauses.predicates:
            steps.append(Where(clauses.predicates))
        if clauses.grouping is not None:
            steps.append(clauses.grouping)
        steps += finished(clauses)
        key = _key_of(clauses) if clauses.grouping or clauses.ranking else _still_selected(below, clauses)
        rows = replace(below, steps=tuple(steps), items=clauses.items, types=branch.types, key=key)
        return _distinct_rows(rows) if select.is_distinct else rows

    def _over_streams(self, select: Select) -> _Rows:
        """All tuples so far, grouped or ranked."""
        branch = Branch(select, self.catalog, self.derived)
        if self.holds(select):
            is_by_rows = isinstance(branch.scope.streams[0].window, RowWindow)
            return (self._over_rows if is_by_rows else self._over_window)(select, branch)
        for source in branch.scope.streams:
            if not isinstance(source.window, UnboundedWindow):
                written = source.item.window
                assert written is not None
                shown = " ".join(written.span.excerpt.split())
                message = (
                    f"a table is of all tuples so far, of one stream [RANGE t], or of [ROWS n], not {shown}"
                )
                beside = [one.shown for one in branch.scope.sources if one is not source]
                message += f" beside {beside[0]}" if isinstance(source.window, RowWindow) and beside else ""
                hint = "write [TUMBLE 10 SECONDS] and a key, to keep those of the last window"
                raise QueryError(f"{message}; {hint}", written.span)
        node, clauses = branch.source(branch.clauses(StateGrouping), self.derived)
        if len(branch.scope.streams) > 1:
            node, renamed = self.derived.joined(node, clauses.read, UnboundedWindow())
            clauses = clauses.over(renamed)
        state: State
        if clauses.grouping is not None:
            state, steps = clauses.grouping, finished(clauses)
        elif clauses.ranking is not None:
            state, steps = _ranked_state(clauses, clauses.ranking), [Named(clauses.items)]
        else:
            keys = _numbered(clauses.items)
            state, steps = Groups(keys, ()), [Named(columns_of(keys, clauses.items))]
        key = tuple(item.name for item in clauses.items) if select.is_distinct else _key_of(clauses)
        return _Rows(node, state, tuple(steps), clauses.items, branch.types, branch.timestamp_type, key)

    def _over_window(self, select: Select, branch: Branch) -> _Rows:
        """The tuples of the last stretch of time: grouped, ranked, or as they are."""
        window = branch.scope.streams[0].window
        assert isinstance(window, TimeWindow)
        node, clauses = branch.source(branch.clauses(RowGrouping), self.derived)
        state = Held(tuple(clauses.read), window.range_us)
        steps = finished(clauses) if clauses.grouping is None else [clauses.grouping, *finished(clauses)]
        key = _key_of(clauses)
        rows = _Rows(node, state, tuple(steps), clauses.items, branch.types, branch.timestamp_type, key)
        return _distinct_rows(rows) if select.is_distinct else rows

    def _over_rows(self, select: Select, branch: Branch) -> _Rows:
        """The last tuples of a stream or of each key, before WHERE: grouped, ranked, or as they are."""
        [source], clauses = branch.scope.streams, branch.clauses(RowGrouping)
        read = [*clauses.predicates, *clauses.read]
        for expression in read:
            without_pool(expression, self.catalog)
        state = _last_rows(source, read)
        # without the ranks of the state
        steps: list[Step] = [
            Named(tuple(NamedExpression(one, Expression(column_tree(one))) for one in state.columns))
        ]
        steps += [Where(clauses.predicates)] if clauses.predicates else []
        steps += finished(clauses) if clauses.grouping is None else [clauses.grouping, *finished(clauses)]
        node, key = branch.scope.joined(()), _key_of(clauses)
        rows = _Rows(node, state, tuple(steps), clauses.items, branch.types, branch.timestamp_type, key)
        return _distinct_rows(rows) if select.is_distinct else rows

    def latest_by_key(self, branches: tuple[Select, ...], given: Setting | None, first: Select) -> _Rows:
        """The last result of each key; of results with equal timestamps the greatest one."""
        wanted = self._primary_key(branches) if given is None else _names(given)
        span = first.span if given is None else given.span
        if not wanted:
            message = "results need a key that determines which ones replace each other"
            raise QueryError(f"{message}; write key 'column' beside mode", first.span)
        name = Name(_CHANGES, first.span)
        star = Select(
            (syntax.Star(None, first.span),),
            (FromItem(name, None, name, branches),),
            (),
            (),
            None,
            first.span,
        )
        branch = Branch(star, self.catalog, self.derived)
        node, clauses = branch.source(branch.clauses(StateGrouping), self.derived)
        [source] = branch.scope.sources
        keys = []
        for column in wanted:
            found = source.schema.find(column)
            if found is None:
                raise _unknown_key(column, clauses.items, span)
            keys.append(Expression(column_tree(column_of(source.alias, found.name)), span))
        last = SortKey(Expression(column_tree(TIMESTAMP_US)), is_descending=True)
        greatest = [
            SortKey(item.expression, is_descending=True)
            for item, kind in zip(clauses.items, branch.types, strict=True)
            if not _WITHOUT_ORDER.search(kind)
        ]
        state = _ranked_state(clauses, Ranking("ROW_NUMBER", tuple(keys), (last, *greatest), 1))
        steps = (Named(clauses.items),)
        return _Rows(node, state, steps, clauses.items, branch.types, branch.timestamp_type, None)

    def _primary_key(self, branches: tuple[Select, ...]) -> tuple[str, ...]:
        """That of the one stream that is read."""
        [select, *others] = branches
        if others or len(select.sources) > 1:
            return ()
        definition = self.catalog.find(select.sources[0].source.text)
        return definition.primary_key if isinstance(definition, StreamDefinition) else ()


def _distinct_rows(rows: _Rows) -> _Rows:
    """The rows without duplicates."""
    key = tuple(item.name for item in rows.items)
    return replace(rows, steps=rows.steps + distinct_rows(rows.items), key=key)


def _numbered(items: Iterable[NamedExpression]) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(f"k{number}", item.expression) for number, item in enumerate(items))


def _ranked_state(clauses: Clauses, ranking: Ranking) -> RankedState:
    columns = _read_columns(replace(clauses, ranking=ranking).read)
    return RankedState(tuple(column for column in columns if column != TIMESTAMP_US), ranking)


def _read_columns(read: Iterable[Expression]) -> list[str]:
    columns = dict.fromkeys(column for one in read for column in one.columns)
    return [column for column in columns if column != RANK]


def _last_rows(source: Source, read: Iterable[Expression]) -> LastRowsState:
    """What a window by rows holds; of equal timestamps the tuples with the greatest values that are read."""
    window = source.window
    assert isinstance(window, RowWindow)
    keys = [Expression(column_tree(column_of(source.alias, key))) for key in window.keys]
    types = {column_of(source.alias, column.name): column.type for column in source.schema.columns}
    columns = [column for column in _read_columns([*keys, *read]) if column != TIMESTAMP_US]
    ordered = [column for column in columns if not _WITHOUT_ORDER.search(types[column])]
    order = (SortKey(Expression(column_tree(c)), is_descending=True) for c in (TIMESTAMP_US, *ordered))
    return LastRowsState(tuple(columns), Ranking("ROW_NUMBER", tuple(keys), tuple(order), window.rows))


def _key_of(clauses: Clauses) -> tuple[str, ...] | None:
    """The columns that tell groups or ranked rows apart; None if not all of them are selected."""
    if clauses.grouping is not None and clauses.ranking is None:
        wanted = [Expression(column_tree(key.name)) for key in clauses.grouping.keys]
    elif clauses.ranking is not None and clauses.ranking.function == "ROW_NUMBER":
        ranking = clauses.ranking
        wanted = [*ranking.keys, *([] if ranking.rows == 1 else [Expression(column_tree(RANK))])]
    else:
        return None
    found = [next((item.name for item in clauses.items if item.expression == one), None) for one in wanted]
    return tuple(name for name in found if name is not None) if None not in found else None


def _still_selected(below: _Rows, clauses: Clauses) -> tuple[str, ...] | None:
    """The key of the rows below, under the names of a select list that changes nothing about it."""
    if below.key is None:
        return None
    ends = {
        item.expression.columns[0].partition("__")[2]: item.name for item in clauses.items if _is_column(item)
    }
    found = [ends.get(name) for name in below.key]
    return tuple(name for name in found if name is not None) if None not in found else None


def _is_column(item: NamedExpression) -> bool:
    columns = item.expression.columns
    return len(columns) == 1 and item.expression == Expression(column_tree(columns[0]))


def _check_key(rows: _Rows, given: Setting) -> None:
    names = {item.name.lower() for item in rows.items}
    written = _names(given)
    for name in written:
        if name.lower() not in names:
            raise _unknown_key(name, rows.items, given.span)
    own = rows.key
    if own is not None and {name.lower() for name in written} != {name.lower() for name in own}:
        shown = ", ".join(own)
        message = f"rows are identified by {shown or 'nothing: there is one'}"
        raise QueryError(
            f"{message}; write key '{shown}'" if own else f"{message}; leave key out", given.span
        )


def _unknown_key(name: str, items: Iterable[NamedExpression], span: Span) -> QueryError:
    known = known_names([item.name for item in items])
    return QueryError(f"key {name} is no column of the results; columns: {known}", span)
