"""Bind: resolve the names of a statement against the catalog, giving the first logical plan.

Conditions that call placed functions are taken apart here, for the pools that evaluate them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.statement import CreateQuery, DeriveStream, ScalarExpression, Select, SelectItem, Star
from headgate.cql.tokens import one_line
from headgate.errors import QueryError
from headgate.model import operator as physical
from headgate.model.expression import (
    TIMESTAMP_US,
    AggregateExpression,
    Expression,
    NamedExpression,
    column_of,
)
from headgate.model.network import (
    Column,
    FunctionDefinition,
    QueryDefinition,
    Schema,
    SinkDefinition,
    StreamDefinition,
)
from headgate.model.operator import ByComparison, ByTruth, PlacedPredicate
from headgate.model.sql_tree import column_tree, operand, quote, replace_nodes, tree_key
from headgate.model.window import SessionWindow, UnboundedWindow, Window, is_emitted_whole
from headgate.planning.aggregates import parts_of
from headgate.planning.catalog import Catalog, sink_of, with_service
from headgate.planning.from_clause import BoundColumn, Scope, WindowBound, conjunct, over_text
from headgate.planning.logical import Aggregate, DerivedPlan, Filter, LogicalPlan, Node, Project, StreamScan
from headgate.planning.types import Type

# every result row starts with its timestamp, which the engine adds
TIMESTAMP = "ts"
# a comparison, and the one with its sides exchanged
_SYMBOLS = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"),
    exp.GT: (">", "<"),
    exp.LTE: ("<=", ">="),
    exp.GTE: (">=", "<="),
}
_TRUTHS = (exp.true(), exp.false(), exp.cast(exp.null(), "BOOLEAN"))
Call = tuple[exp.Anonymous, FunctionDefinition, str]
NamedExpressions = tuple[NamedExpression, ...]
Aggregates = tuple[AggregateExpression, ...]


def bind(query: CreateQuery, catalog: Catalog) -> LogicalPlan:
    """The query as a plan with WHERE above all joins; a QueryError points at what is wrong."""
    derived = _Derived(query.name.text, catalog)
    branches = _bound(query.branches, [_Branch(select, catalog, derived) for select in query.branches])
    definition = QueryDefinition(query.name.text, (), sink_of(query.sink, catalog.known_sinks))
    plan = LogicalPlan(definition, branches, derived=tuple(derived.plans.values()))
    return with_service(plan, query.settings, catalog.known_functions)


def bind_stream(stream: DeriveStream, catalog: Catalog) -> DerivedPlan:
    """A derived stream as a plan, with those that it reads."""
    derived = _Derived(stream.name.text, catalog)
    own = derived.bind(stream.name, stream.branches)
    others = tuple(plan for name, plan in derived.plans.items() if name != stream.name.text)
    return replace(own, derived=others)


class _Derived:
    """The derived streams that a query reads, each bound once, when it is first read.

    ``owner`` is the query: it is part of the names of its subqueries.
    """

    def __init__(self, owner: str, catalog: Catalog) -> None:
        self._owner = owner
        self._catalog = catalog
        self._local: dict[tuple[Select, ...], str] = {}
        self._open: list[str] = []
        self.plans: dict[str, DerivedPlan] = {}
        """By name, each behind those that it reads."""

    def find(self, item: cql.FromItem) -> StreamDefinition | None:
        """The derived stream that is meant; None if there is none of that name."""
        if item.branches:
            name, branches = self._name_of(item), item.branches
        elif (declared := self._catalog.find_derived(item.source.text)) is not None:
            name, branches = declared.name.text, declared.branches
        else:
            return None
        if name in self._open:
            cycle = " -> ".join([*self._open[self._open.index(name) :], name])
            raise QueryError(f"streams read each other: {cycle}; break the cycle", item.source.span)
        plan = self.plans.get(name) or self.bind(cql.Name(name, item.source.span), branches)
        return StreamDefinition(name, "derived", plan.schema, timestamp=TIMESTAMP)

    def bind(self, name: cql.Name, branches: tuple[Select, ...]) -> DerivedPlan:
        self._open.append(name.text)
        own = [_Branch(select, self._catalog, self) for select in branches]
        bound = _bound(branches, own)
        self._open.pop()
        columns = tuple(
            Column(item.name, kind) for item, kind in zip(bound[0].items, own[0].types, strict=True)
        )
        schema = Schema((Column(TIMESTAMP, own[0].timestamp_type), *columns))
        query = QueryDefinition(name.text, (), SinkDefinition("stream"))
        self.plans[name.text] = DerivedPlan(query, bound, schema=schema)
        return self.plans[name.text]

    def joined(
        self, join: Node, keys: NamedExpressions, aggregates: Aggregates, window: Window
    ) -> tuple[Node, NamedExpressions, Aggregates]:
        """The results of a join as a stream, and keys and aggregates over its columns."""
        name, alias = self._free_name("joined"), "joined"
        read = [*(key.expression for key in keys), *(one for call in aggregates for one in call.arguments)]
        used = dict.fromkeys(c for one in read for c in one.columns if c != TIMESTAMP_US)
        items = tuple(NamedExpression(column, Expression(column_tree(column))) for column in used)
        schema = Schema(tuple(Column(column, "?") for column in used))
        query = QueryDefinition(name, (), SinkDefinition("stream"))
        self.plans[name] = DerivedPlan(query, (Project(join, items),), schema=schema)
        renamed = {column: column_tree(column_of(alias, column)) for column in used}
        return (
            StreamScan(name, alias, tuple(used), window),
            tuple(replace(key, expression=key.expression.over(renamed)) for key in keys),
            tuple(call.over(renamed) for call in aggregates),
        )

    def _name_of(self, item: cql.FromItem) -> str:
        if item.branches not in self._local:
            self._local[item.branches] = self._free_name(item.source.text)
        return self._local[item.branches]

    def _free_name(self, wanted: str) -> str:
        """A name for a subquery that no other one has."""
        # a stream that reads it is the same for all queries
        owner, number = self._open[-1] if self._open else self._owner, 1
        name = f"{owner}.{wanted}"
        while name in self.plans or name in self._local.values():
            number += 1
            name = f"{owner}.{wanted}_{number}"
        return name


def _bound(written: tuple[Select, ...], unbound: list[_Branch]) -> tuple[Project, ...]:
    """The branches of a query, all with the column names of the first."""
    branches = [branch.bound() for branch in unbound]
    first = branches[0]
    _check_names(first.items)
    for select, branch in zip(written, branches, strict=True):
        if len(branch.items) != len(first.items):
            message = f"columns of this SELECT: {len(branch.items)}, of the first: {len(first.items)}"
            raise QueryError(f"{message}; UNION ALL needs as many in each", select.span)
    pairs = [zip(branch.items, first.items, strict=True) for branch in branches]
    items = [tuple(replace(item, name=named.name) for item, named in own) for own in pairs]
    return tuple(replace(branch, items=own) for branch, own in zip(branches, items, strict=True))


def _check_names(items: Iterable[NamedExpression]) -> None:
    taken: set[str] = set()
    for item in items:
        if item.name.lower() in taken:
            span = item.expression.span
            written = " ".join(span.excerpt.split()) if span else ""
            is_star = written.endswith("*")
            hint = f"name the columns instead of {written}" if is_star else f"write {written} AS another_name"
            raise QueryError(f"two result columns are called {item.name}; {hint}", span)
        taken.add(item.name.lower())


class _Branch:
    """Binds one SELECT."""

    def __init__(self, select: Select, catalog: Catalog, derived: _Derived) -> None:
        if select.is_aggregate and select.is_distinct:
            raise QueryError("groups are distinct anyway; leave DISTINCT out", select.span)
        self._select = select
        self._catalog = catalog
        self._derived = derived
        self._scope = Scope(select, catalog, derived)
        self.types: tuple[str, ...] = ()
        """Of the select list, once it is bound; as far as they are known without Spark."""

    @property
    def timestamp_type(self) -> str:
        """That of its results."""
        types = {source.timestamp_type.lower() for source in self._scope.streams}
        return self._scope.streams[0].timestamp_type if len(types) == 1 else "TIMESTAMP"

    def bound(self) -> Project:
        node = self._scope.joined()
        self._check_conditions()
        written = (conjunct(self._scope.condition(term)) for term in self._select.conjuncts)
        predicates = (*self._scope.inner_conditions(), *written)
        if predicates:
            node = Filter(node, tuple(with_pool(predicate, self._catalog) for predicate in predicates))
        if self._select.is_aggregate:
            return self._aggregated(node)
        if self._select.is_distinct:
            return self._distinct(node)
        return Project(node, self._select_list(self._scope.bind))

    def _check_conditions(self) -> None:
        for reference in (r for term in self._select.conjuncts for r in term.columns):
            if self._scope.window_bound(reference) is not None:
                message = f"{reference.name} is known when the window is complete; use it in SELECT or HAVING"
                raise QueryError(message, reference.span)

    def _aggregated(self, node: Node) -> Project:
        grouping, written = Grouping(self._select, self._scope), self._select.having
        items = self._select_list(grouping.bind)
        having = None if written is None else grouping.bind(written, is_having=True)
        arguments = (argument for call in grouping.aggregates for argument in call.arguments)
        for expression in (having, *(key.expression for key in grouping.keys), *arguments):
            if expression is not None:
                without_pool(expression, self._catalog)
        keys, aggregates = grouping.keys, grouping.aggregates
        if len(self._scope.streams) > 1:
            node, keys, aggregates = self._derived.joined(
                node, keys, aggregates, self._scope.streams[0].window
            )
        node = Aggregate(node, keys, aggregates)
        return Project(node if having is None else Filter(node, (conjunct(having),)), items)

    def _distinct(self, node: Node) -> Project:
        """Distinct values enter the result as they enter the window; a sliding window lists all it holds."""
        if len(self._scope.sources) != 1:
            message = "SELECT DISTINCT over a join is not supported; write the join's result"
            raise QueryError(f"{message} and select the distinct values of that", self._select.span)
        items = self._select_list(self._scope.bind)
        keys = tuple(NamedExpression(f"k{number}", item.expression) for number, item in enumerate(items))
        window = self._scope.streams[0].window
        if isinstance(window, UnboundedWindow):
            message = "SELECT DISTINCT without a window would keep all values; add [RANGE 1 HOUR]"
            raise QueryError(message, self._select.span)
        kind = physical.Aggregate if is_emitted_whole(window) else physical.Distinct
        distinct = Aggregate(node, keys, (), kind)
        columns = (Expression(column_tree(key.name)) for key in keys)
        return Project(distinct, tuple(map(NamedExpression, (item.name for item in items), columns)))

    def _select_list(self, bind: Callable[[ScalarExpression], Expression]) -> tuple[NamedExpression, ...]:
        """The items; a name that the user did not choose gets a number where it is taken."""
        items = list(self._items(bind))
        self.types = tuple(str(kind) for _, _, _, kind in items)
        taken = {TIMESTAMP} | {given.lower() for given, _, _, _ in items if given}
        named = []
        for given, derived, expression, _ in items:
            name, number = given or derived, 1
            while given is None and name.lower() in taken:
                number += 1
                name = f"{derived}_{number}"
            taken.add(name.lower())
            named.append(NamedExpression(name, expression))
        return tuple(named)

    def _items(
        self, bind: Callable[[ScalarExpression], Expression]
    ) -> Iterator[tuple[str | None, str, Expression, Type]]:
        """Every item: the name that the user chose, one derived from what was written, its value and type."""
        # names that stars expand to from more than one source
        stars = [item for item in self._select.items if isinstance(item, Star)]
        brought = {(column.source.alias, column.name) for star in stars for column in self._expanded(star)}
        count = Counter(name.lower() for _, name in brought)
        clashes = {TIMESTAMP} | {name for name, times in count.items() if times > 1}
        for item in self._select.items:
            if isinstance(item, SelectItem):
                column = self._scope.plain_column(item.expression)
                given = item.alias.text if item.alias else (column.name if column else None)
                if (given or "").lower() != TIMESTAMP or not self._is_timestamp(item, column):
                    derived = self._derived_name(item.expression)
                    value = without_pool(bind(item.expression), self._catalog)
                    yield given, derived, value, self._scope.type_of(item.expression)
            elif self._select.is_aggregate:
                raise QueryError("* cannot be combined with an aggregate; name the columns", item.span)
            else:
                for own in self._expanded(item):
                    name = own.name
                    if name.lower() != TIMESTAMP or not self._is_own_timestamp(own):
                        shown = f"{own.source.alias}_{name}" if name.lower() in clashes else name
                        yield shown, shown, Expression(own.tree, item.span), own.type

    def _expanded(self, star: Star) -> Iterator[BoundColumn]:
        sources = self._scope.sources
        if star.qualifier is not None:
            sources = (self._scope.source(star.qualifier.text, star.qualifier.span),)
        for source in sources:
            for column in source.schema.columns:
                yield BoundColumn(source, column)

    def _derived_name(self, expression: ScalarExpression) -> str:
        """A name for an expression that has none: ``COUNT(*)`` is count, ``SUM(x)`` is sum_x."""
        if [call.span for call in expression.aggregates] != [expression.span]:
            return _words(expression.text) or "value"
        [call] = expression.aggregates
        parts = [call.function.lower(), *(["distinct"] if call.distinct else [])]
        for argument in call.arguments:
            column = self._scope.plain_column(argument)
            parts.append(_words(argument.text) if column is None else column.name)
        return "_".join(part for part in parts if part)

    def _is_timestamp(self, item: SelectItem, column: BoundColumn | None) -> bool:
        """Whether the item is the timestamp that the engine adds anyway; rejects others of that name."""
        if column is not None and not self._select.is_aggregate and self._is_own_timestamp(column):
            return True
        written = " ".join(item.expression.text.split())
        message = f"the result's own timestamp is called {TIMESTAMP}; write {written} AS another_name"
        raise QueryError(message, item.alias.span if item.alias else item.expression.span)

    def _is_own_timestamp(self, column: BoundColumn) -> bool:
        is_plain = len(self._scope.streams) == 1 and column.field is None
        return is_plain and column.source.is_timestamp(column.column)


def _words(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")


class Grouping:
    """The keys and aggregate calls of one SELECT; calls are collected as expressions are bound."""

    def __init__(self, select: Select, scope: Scope) -> None:
        self._scope = scope
        self._items = select.items
        named = [item for item in select.items if isinstance(item, SelectItem)]
        self._by_alias = {item.alias.text.lower(): item.expression for item in named if item.alias}
        self._calls: dict[tuple[object, ...], AggregateExpression] = {}
        # the groups of a window have its bounds in common anyway
        meant = [self._meant(written) for written in select.group_by]
        keys = dict.fromkeys(scope.bind(one) for one in meant if not self._is_bound(one))
        self.keys = tuple(NamedExpression(f"k{number}", key) for number, key in enumerate(keys))

    @property
    def aggregates(self) -> tuple[AggregateExpression, ...]:
        return tuple(self._calls.values())

    def bind(self, expression: ScalarExpression, is_having: bool = False) -> Expression:
        """The expression over the columns of keys and calls; HAVING may use the names of select items."""
        calls = [range(call.span.start, call.span.end) for call in expression.aggregates]
        outside = [r for r in expression.columns if not any(r.span.start in call for call in calls)]
        bounds = {r.span.start: self._bound(found) for r in outside if (found := self._scope.window_bound(r))}
        outside = [r for r in outside if r.span.start not in bounds]
        items = [r for r in outside if is_having and self._is_item(r)]
        check = self._scope.type_check(expression, {r.span.start: self._item_type(r) for r in items})
        if is_having:
            check.condition(expression.tree)
        else:
            check.type_of(expression.tree)
        own = {r.span.start: operand(self.bind(self._by_alias[r.name.lower()]).tree) for r in items}
        bound = {r.span.start: self._scope.resolve(r).tree for r in outside if r.span.start not in own}
        for start, column in bound.items():
            next(column.find_all(exp.Column)).meta["start"] = start
        aggregates = {call.span.start: self._call(call) for call in expression.aggregates}
        tree = over_keys(over_text(expression.tree, {**own, **bound, **bounds, **aggregates}), self.keys)
        ungrouped = {column.meta.get("start") for column in tree.find_all(exp.Column)}
        for reference in outside:
            if reference.span.start in ungrouped:
                message = f"{reference.span.excerpt} must be in GROUP BY or inside an aggregate"
                raise QueryError(message, reference.span)
        return Expression(tree, expression.span)

    def _bound(self, bound: WindowBound) -> exp.Expr:
        """A bound of the window; where a session begins is told by its first tuple."""
        if not bound.is_first_tuple:
            return bound.tree
        first = Expression(column_tree(TIMESTAMP_US))
        new = AggregateExpression(f"a{len(self._calls)}", "MIN", first)
        found = self._calls.setdefault(("MIN", False, (first,)), new)
        return bound.over(quote(found.name))

    def _is_bound(self, written: ScalarExpression) -> bool:
        """Whether a key is ``window_start`` or ``window_end``."""
        return (
            len(written.columns) == 1
            and written.columns[0].span == written.span
            and self._scope.window_bound(written.columns[0]) is not None
        )

    def _item_type(self, reference: cql.ColumnReference) -> Type:
        return self._scope.type_of(self._by_alias[reference.name.lower()])

    def _is_item(self, reference: cql.ColumnReference) -> bool:
        if reference.qualifier is not None or reference.name.lower() not in self._by_alias:
            return False
        column = self._scope.find(reference.name, reference.span)
        # a key has priority over a select item; a column that is not a key would be an error anyway
        return column is None or Expression(column.tree) not in [key.expression for key in self.keys]

    def _call(self, call: cql.AggregateCall) -> exp.Expr:
        """The value of an aggregate, over the column of what computes it."""
        arguments = [self._scope.bind(argument) for argument in call.arguments]
        condition = None if call.condition is None else self._scope.condition(call.condition)
        parts = parts_of(call.function, arguments, call.distinct, condition)
        argument, others = (parts.arguments[0] if parts.arguments else None), parts.arguments[1:]
        new = AggregateExpression(
            f"a{len(self._calls)}", parts.function, argument, parts.distinct, tuple(others)
        )
        self._check_window(call, new)
        found = self._calls.setdefault((parts.function, parts.distinct, parts.arguments), new)
        return parts.value(column_tree(found.name))

    def _check_window(self, call: cql.AggregateCall, new: AggregateExpression) -> None:
        """Reject an aggregate that would keep all tuples, or that has no value for every tuple."""
        window, shown = self._scope.streams[0].window, "DISTINCT ..." if call.distinct else "..."
        if not new.is_mergeable and isinstance(window, UnboundedWindow):
            message = f"{call.function}({shown}) without a window would keep all values"
            raise QueryError(f"{message}; add [RANGE 1 HOUR]", call.span)
        if not new.is_mergeable and isinstance(window, SessionWindow):
            message = f"{call.function}({shown}) over sessions would keep all their tuples"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", call.span)
        if new.distinct and new.function != "COUNT" and not is_emitted_whole(window):
            message = f"{call.function}(DISTINCT ...) needs a window that is emitted as a whole"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", call.span)

    def _meant(self, written: ScalarExpression) -> ScalarExpression:
        meant = written
        if written.text.isdecimal():
            number = Decimal(written.text)
            if not 1 <= number <= len(self._items):
                message = (
                    f"GROUP BY {one_line(written.text)}: the select list has items 1 to {len(self._items)}"
                )
                raise QueryError(message, written.span)
            item = self._items[int(number) - 1]
            if isinstance(item, Star):
                raise QueryError(f"GROUP BY {number} is a *; name the column", written.span)
            meant = item.expression
        elif len(written.columns) == 1 and written.columns[0].span == written.span:
            [reference] = written.columns
            if reference.qualifier is None and not self._scope.find(reference.name, reference.span):
                meant = self._by_alias.get(reference.name.lower(), written)
        if meant.aggregates:
            text = " ".join(meant.text.split())
            raise QueryError(f"{text} is an aggregate, which GROUP BY cannot use", written.span)
        return meant


def over_keys(tree: exp.Expr, keys: Iterable[NamedExpression]) -> exp.Expr:
    """The tree over the columns of group keys; of nested keys, the outermost counts."""
    names = {tree_key(k.expression.tree.unnest()): k.name for k in keys if k.expression.columns}

    def change(node: exp.Expr) -> exp.Expr | None:
        name = names.get(tree_key(node)) if not isinstance(node, exp.Identifier) else None
        return None if name is None else column_tree(name)

    return replace_nodes(tree, change) if names else tree


def with_pool(predicate: Expression, catalog: Catalog) -> Expression:
    """The conjunct with the pool that it needs; a QueryError if a pool cannot evaluate it."""
    calls = list(_calls(predicate, catalog))
    if not calls:
        return predicate
    if len(calls) > 1:
        names = " and ".join(function.name for _, function, _ in calls[:2])
        message = f"{names} are placed on pools and called in one condition"
        raise QueryError(f"{message}; write one condition for each, joined by AND", predicate.span)
    placed_predicate(predicate, catalog)
    [(_, _, pool)] = calls
    return replace(predicate, pool=pool)


def without_pool(expression: Expression, catalog: Catalog) -> Expression:
    """The expression; a QueryError if it calls a placed function."""
    for _, function, pool in _calls(expression, catalog):
        message = f"{function.name} is placed on pool {pool} and can be called in WHERE only"
        raise QueryError(message, expression.span)
    return expression


def placed_predicate(predicate: Expression, catalog: Catalog) -> PlacedPredicate:
    """A conjunct with a pool, taken apart: the call, its arguments, and the effect of its result."""
    [call] = _calls(predicate, catalog)
    tree, function, pool = call
    arguments = tuple(Expression(argument.copy(), predicate.span) for argument in tree.expressions)
    verdict = _by_truth(predicate, tree) if function.is_boolean else _by_comparison(predicate, call)
    return PlacedPredicate(predicate.text, function.name, arguments, verdict, pool)


def _calls(expression: Expression, catalog: Catalog) -> Iterator[Call]:
    for tree in expression.tree.find_all(exp.Anonymous, bfs=False):
        # after a dot it is a field
        if not isinstance(tree.parent, exp.Dot) and (found := catalog.placed(tree.name)):
            yield tree, *found


def _by_truth(predicate: Expression, call: exp.Anonymous) -> ByTruth:
    def given(truth: exp.Expr) -> Expression:
        tree = replace_nodes(predicate.tree, lambda node: truth if node == call else None)
        return Expression(tree, predicate.span)

    return ByTruth(*map(given, _TRUTHS))


def _by_comparison(predicate: Expression, call: Call) -> ByComparison:
    tree, function, pool = call
    comparison = predicate.tree.unnest()
    if isinstance(comparison, exp.Binary) and type(comparison) in _SYMBOLS:
        symbol, mirrored = _SYMBOLS[type(comparison)]
        if comparison.left is tree:
            return ByComparison(symbol, Expression(comparison.right.copy(), predicate.span))
        if comparison.right is tree:
            return ByComparison(mirrored, Expression(comparison.left.copy(), predicate.span))
    name = function.name
    problem = f"{name} is placed on pool {pool} and returns {function.returns}"
    hint = f"write {name}(...) = something, or a function that RETURNS BOOLEAN"
    raise QueryError(f"{problem}; {hint}", predicate.span)
