"""Bind: resolve the names of a statement against the catalog, giving the first logical plan.

Conditions that call placed functions are taken apart here, for the pools that evaluate them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sqlglot import exp

from headgate.cql import statement as cql
from headgate.cql.statement import CreateQuery, ScalarExpression, Select, SelectItem, Star
from headgate.errors import QueryError
from headgate.model import operator as physical
from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.network import FunctionDefinition, QueryDefinition
from headgate.model.operator import ByComparison, ByTruth, PlacedPredicate
from headgate.model.sql_tree import column_tree, operand, replace_nodes, tree_key
from headgate.model.window import TimeWindow, UnboundedWindow
from headgate.planning.catalog import Catalog, sink_of, with_service
from headgate.planning.from_clause import BoundColumn, Scope, over_text
from headgate.planning.logical import Aggregate, Filter, LogicalPlan, Node, Project

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


def bind(query: CreateQuery, catalog: Catalog) -> LogicalPlan:
    """The query as a plan with WHERE above all joins; a QueryError points at what is wrong."""
    branches = _same_columns(query, [_Branch(select, catalog).bound() for select in query.branches])
    definition = QueryDefinition(query.name.text, (), sink_of(query.sink, catalog.known_sinks))
    return with_service(LogicalPlan(definition, branches), query.settings)


def _same_columns(query: CreateQuery, branches: list[Project]) -> tuple[Project, ...]:
    """The branches, all with the column names of the first."""
    first = branches[0]
    _check_names(first.items)
    for select, branch in zip(query.branches, branches, strict=True):
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

    def __init__(self, select: Select, catalog: Catalog) -> None:
        if select.is_aggregate and select.is_distinct:
            raise QueryError("groups are distinct anyway; leave DISTINCT out", select.span)
        self._select = select
        self._catalog = catalog
        self._scope = Scope(select, catalog)

    def bound(self) -> Project:
        node = self._scope.joined()
        if self._select.conjuncts:
            self._check_conditions()
            predicates = (_conjunct(self._scope.bind(conjunct)) for conjunct in self._select.conjuncts)
            node = Filter(node, tuple(with_pool(predicate, self._catalog) for predicate in predicates))
        if self._select.is_aggregate:
            return self._aggregated(node)
        if self._select.is_distinct:
            return self._distinct(node)
        return Project(node, self._select_list(self._scope.bind))

    def _check_conditions(self) -> None:
        for reference in (r for conjunct in self._select.conjuncts for r in conjunct.columns):
            if self._scope.window_bound(reference) is not None:
                message = f"{reference.name} is known when the window is complete; use it in SELECT or HAVING"
                raise QueryError(message, reference.span)

    def _aggregated(self, node: Node) -> Project:
        grouping, written = Grouping(self._select, self._scope), self._select.having
        items = self._select_list(grouping.bind)
        having = None if written is None else grouping.bind(written, is_having=True)
        arguments = (call.argument for call in grouping.aggregates)
        for expression in (having, *(key.expression for key in grouping.keys), *arguments):
            if expression is not None:
                without_pool(expression, self._catalog)
        node = Aggregate(node, grouping.keys, grouping.aggregates)
        return Project(node if having is None else Filter(node, (_conjunct(having),)), items)

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
        slides = isinstance(window, TimeWindow) and window.slide_us is not None
        distinct = Aggregate(node, keys, (), physical.Aggregate if slides else physical.Distinct)
        columns = (Expression(column_tree(key.name)) for key in keys)
        return Project(distinct, tuple(map(NamedExpression, (item.name for item in items), columns)))

    def _select_list(self, bind: Callable[[ScalarExpression], Expression]) -> tuple[NamedExpression, ...]:
        """The items; a name that the user did not choose gets a number where it is taken."""
        items = list(self._items(bind))
        taken = {TIMESTAMP} | {given.lower() for given, _, _ in items if given}
        named = []
        for given, derived, expression in items:
            name, number = given or derived, 1
            while given is None and name.lower() in taken:
                number += 1
                name = f"{derived}_{number}"
            taken.add(name.lower())
            named.append(NamedExpression(name, expression))
        return tuple(named)

    def _items(
        self, bind: Callable[[ScalarExpression], Expression]
    ) -> Iterator[tuple[str | None, str, Expression]]:
        """Every item with the name that the user chose, if any, and one derived from what was written."""
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
                    yield given, derived, without_pool(bind(item.expression), self._catalog)
            elif self._select.is_aggregate:
                raise QueryError("* cannot be combined with an aggregate; name the columns", item.span)
            else:
                for own in self._expanded(item):
                    name = own.name
                    if name.lower() != TIMESTAMP or not self._is_own_timestamp(own):
                        shown = f"{own.source.alias}_{name}" if name.lower() in clashes else name
                        yield shown, shown, Expression(own.tree, item.span)

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
        if call.argument is not None:
            column = self._scope.plain_column(call.argument)
            parts.append(_words(call.argument.text) if column is None else column.name)
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


def _conjunct(predicate: Expression) -> Expression:
    """The predicate, in parentheses if AND would bind tighter."""
    tree = predicate.tree
    return replace(predicate, tree=exp.Paren(this=tree.copy())) if isinstance(tree, exp.Or) else predicate


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
        bounds = {r.span.start: found.tree for r in outside if (found := self._scope.window_bound(r))}
        outside = [r for r in outside if r.span.start not in bounds]
        items = [r for r in outside if is_having and self._is_item(r)]
        own = {r.span.start: operand(self.bind(self._by_alias[r.name.lower()]).tree) for r in items}
        bound = {r.span.start: self._scope.resolve(r).tree for r in outside if r.span.start not in own}
        for start, column in bound.items():
            next(column.find_all(exp.Column)).meta["start"] = start
        aggregates = {call.span.start: column_tree(self._call(call).name) for call in expression.aggregates}
        tree = over_keys(over_text(expression.tree, {**own, **bound, **bounds, **aggregates}), self.keys)
        ungrouped = {column.meta.get("start") for column in tree.find_all(exp.Column)}
        for reference in outside:
            if reference.span.start in ungrouped:
                message = f"{reference.span.excerpt} must be in GROUP BY or inside an aggregate"
                raise QueryError(message, reference.span)
        return Expression(tree, expression.span)

    def _is_bound(self, written: ScalarExpression) -> bool:
        """Whether a key is ``window_start`` or ``window_end``."""
        return (
            len(written.columns) == 1
            and written.columns[0].span == written.span
            and self._scope.window_bound(written.columns[0]) is not None
        )

    def _is_item(self, reference: cql.ColumnReference) -> bool:
        if reference.qualifier is not None or reference.name.lower() not in self._by_alias:
            return False
        column = self._scope.find(reference.name, reference.span)
        # a key has priority over a select item; a column that is not a key would be an error anyway
        return column is None or Expression(column.tree) not in [key.expression for key in self.keys]

    def _call(self, call: cql.AggregateCall) -> AggregateExpression:
        if call.distinct and isinstance(self._scope.streams[0].window, UnboundedWindow):
            message = f"{call.function}(DISTINCT ...) without a window would keep all values"
            raise QueryError(f"{message}; add [RANGE 1 HOUR]", call.span)
        argument = None if call.argument is None else self._scope.bind(call.argument)
        new = AggregateExpression(f"a{len(self._calls)}", call.function, argument, call.distinct)
        return self._calls.setdefault((call.function, call.distinct, argument), new)

    def _meant(self, written: ScalarExpression) -> ScalarExpression:
        meant = written
        if written.text.isdecimal():
            number = int(written.text)
            if not 1 <= number <= len(self._items):
                message = f"GROUP BY {number}: the select list has items 1 to {len(self._items)}"
                raise QueryError(message, written.span)
            item = self._items[number - 1]
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
