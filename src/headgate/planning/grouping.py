"""GROUP BY: the keys and aggregate calls of one SELECT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from headgate.cql import syntax
from headgate.cql.expressions import GROUPING_CALLS, item_at
from headgate.cql.syntax import ScalarExpression, Select, SelectItem
from headgate.errors import QueryError
from headgate.model.expression import TIMESTAMP_US, AggregateExpression, Expression, NamedExpression
from headgate.model.sql_tree import column_tree, operand, quote, replace_nodes, tree_key
from headgate.model.window import SessionWindow, UnboundedWindow, is_emitted_whole
from headgate.planning.aggregates import Parts, parts_of, parts_of_registered
from headgate.planning.from_clause import Scope
from headgate.planning.from_items import BoundColumn, WindowBound, over_text
from headgate.planning.type_check import TypeCheck
from headgate.planning.types import Type


class Grouping:
    """The keys and aggregate calls of one SELECT; calls are collected as expressions are bound."""

    def __init__(self, select: Select, scope: Scope) -> None:
        self._scope = scope
        self._items = select.items
        named = [item for item in select.items if isinstance(item, SelectItem)]
        self._by_alias = {item.alias.text.lower(): item.expression for item in named if item.alias}
        self._calls: dict[tuple[object, ...], AggregateExpression] = {}
        # the groups of a window have its bounds in common anyway
        self._own = self._bound_keys(select.group_by)
        every = dict.fromkeys((*self._bound_keys(select.all_keys), *self._own))
        self._written = tuple(NamedExpression(f"k{number}", key) for number, key in enumerate(every))
        """The keys of all groupings, as they are written."""
        self._check_bounds(select)
        self.keys = tuple(self._key(one) for one in self._written)

    def _bound_keys(self, written: Iterable[ScalarExpression]) -> tuple[Expression, ...]:
        """The keys, without bounds of windows: the groups of a window have them in common anyway."""
        keys = [one for one in map(self._meant, written) if not self._is_of_window(one)]
        for key in keys:
            self._scope.check_known(key, "make it a key by itself, as in GROUP BY src, window_end")
        return tuple(dict.fromkeys(map(self._scope.bind, keys)))

    def _key(self, written: NamedExpression) -> NamedExpression:
        """A key of this grouping; one of others is NULL, of its own type."""
        if written.expression in self._own:
            return written
        null = Expression.parse("CASE WHEN FALSE THEN x END")
        return replace(written, expression=null.over({"x": operand(written.expression.tree)}))

    def _check_bounds(self, select: Select) -> None:
        """Reject bounds of windows that are not a key of each grouping: results are those of one window."""
        own = {self._over_bounds(key) for key in map(self._meant, select.group_by) if self._is_of_window(key)}
        for key in select.all_keys:
            meant = self._meant(key)
            if self._is_of_window(meant) and self._over_bounds(meant) not in own:
                shown = " ".join(meant.text.split())
                message = f"{shown} is a key of every grouping, as results are those of one window"
                raise QueryError(f"{message}; write GROUP BY {shown}, ROLLUP (a, b)", key.span)

    @property
    def aggregates(self) -> tuple[AggregateExpression, ...]:
        return tuple(self._calls.values())

    def bind(self, expression: ScalarExpression) -> Expression:
        """The expression over the columns of keys and calls."""
        self._scope_check(expression, ()).type_of(expression.tree)
        return self._over_groups(expression, ())

    def condition(self, expression: ScalarExpression) -> Expression:
        """A condition of HAVING, which may use the names of select items."""
        items = self._item_references(expression)
        self._scope_check(expression, items).condition(expression.tree)
        return self._over_groups(expression, items)

    def sort_key(self, expression: ScalarExpression) -> Expression:
        """What groups are ranked by, which may use the names of select items."""
        items = self._item_references(expression)
        self._scope_check(expression, items).type_of(expression.tree)
        return self._over_groups(expression, items)

    def _outside(self, expression: ScalarExpression) -> list[syntax.ColumnReference]:
        """The columns that are not inside aggregates, but for bounds of windows."""
        calls = [range(call.span.start, call.span.end) for call in expression.aggregates]
        told = {start for call in _grouping_calls(expression) for start in _starts(call)}
        outside = [
            r
            for r in expression.columns
            if r.span.start not in told and not any(r.span.start in call for call in calls)
        ]
        return [r for r in outside if self._scope.window_bound(r) is None]

    def _item_references(self, expression: ScalarExpression) -> tuple[syntax.ColumnReference, ...]:
        return tuple(r for r in self._outside(expression) if self._is_item(r))

    def _scope_check(
        self, expression: ScalarExpression, items: Iterable[syntax.ColumnReference]
    ) -> TypeCheck:
        return self._scope.type_check(expression, {r.span.start: self._item_type(r) for r in items})

    def _over_groups(
        self, expression: ScalarExpression, items: Iterable[syntax.ColumnReference]
    ) -> Expression:
        outside = self._outside(expression)
        bounds = {
            r.span.start: self._bound(found)
            for r in expression.columns
            if (found := self._scope.window_bound(r)) is not None
        }
        own = {r.span.start: operand(self.bind(self._by_alias[r.name.lower()]).tree) for r in items}
        columns = {r.span.start: self._scope.resolve(r) for r in outside if r.span.start not in own}
        bound = {start: one.tree for start, one in columns.items()}
        for start, bound_tree in bound.items():
            for column in bound_tree.find_all(exp.Column):
                column.meta["start"] = start
        _, ungrouped = self._over_keys(expression, {**own, **bound})
        values = {
            start: self._value(one)
            for start, one in columns.items()
            if one.source.item.is_value and start in ungrouped
        }
        aggregates = {call.span.start: self._call(call) for call in expression.aggregates}
        groupings = {
            call.meta["start"]: self._grouping(call, expression) for call in _grouping_calls(expression)
        }
        trees = {**own, **bound, **values, **bounds, **aggregates, **groupings}
        tree, ungrouped = self._over_keys(expression, trees)
        for reference in outside:
            if reference.span.start in ungrouped:
                message = f"{reference.span.excerpt} must be in GROUP BY or inside an aggregate"
                raise QueryError(message, reference.span)
        return Expression(tree, expression.span)

    def _bound(self, bound: WindowBound) -> exp.Expr:
        """A bound of the window; a session begins with its first tuple."""
        if not bound.reads_first_tuple:
            return bound.tree
        first = Expression(column_tree(TIMESTAMP_US))
        new = AggregateExpression(f"a{len(self._calls)}", "MIN", first)
        found = self._calls.setdefault(("MIN", False, (first,)), new)
        return bound.between(quote(found.name), quote(TIMESTAMP_US))

    def _grouping(self, call: exp.Anonymous, expression: ScalarExpression) -> exp.Expr:
        """What GROUPING or GROUPING_ID gives: a bit for each key, which is 1 if another grouping has it."""
        starts = set(_starts(call))
        columns = {
            r.span.start: self._scope.resolve(r).tree for r in expression.columns if r.span.start in starts
        }
        given = [Expression(over_text(one, columns)) for one in call.expressions]
        known = [key.expression for key in self._written]
        for one, written in zip(given, call.expressions, strict=True):
            if one not in known:
                message = f"{call.name.upper()} takes keys of GROUP BY, and {Expression(written)} is none"
                raise QueryError(f"{message}; add it to them, or leave the call out", expression.span)
        bits = "".join("0" if one in self._own else "1" for one in given or known)
        kind = "TINYINT" if call.name.lower() == "grouping" else "BIGINT"
        return Expression.parse(f"CAST({int(bits or '0', 2)} AS {kind})").tree

    def _over_keys(
        self, expression: ScalarExpression, trees: Mapping[int, exp.Expr]
    ) -> tuple[exp.Expr, set[int | None]]:
        """The expression with trees in place of columns and calls, and the offsets of columns in no key."""
        tree = over_keys(over_text(expression.tree, trees), self._written)
        return tree, {column.meta.get("start") for column in tree.find_all(exp.Column)}

    def _value(self, column: BoundColumn) -> exp.Expr:
        """The value of a subquery: that of the last tuple of the group, as a refresh may change it."""
        parts = parts_of("LAST", [Expression(column.tree)], distinct=False, condition=None)
        return parts.value(column_tree(self._computed(parts).name))

    def _is_of_window(self, key: ScalarExpression) -> bool:
        """Whether a key is ``window_start``, ``window_end`` or made of these alone."""
        bounds = [self._scope.window_bound(reference) for reference in key.columns]
        return bool(bounds) and None not in bounds

    def _over_bounds(self, key: ScalarExpression) -> Expression:
        """A key that is made of bounds of the window, whatever their spelling."""
        self._scope.type_of(key)
        bounds = {r.span.start: self._scope.window_bound(r) for r in key.columns}
        return Expression(over_text(key.tree, {n: column_tree(b.name) for n, b in bounds.items() if b}))

    def _item_type(self, reference: syntax.ColumnReference) -> Type:
        return self._scope.type_of(self._by_alias[reference.name.lower()])

    def _is_item(self, reference: syntax.ColumnReference) -> bool:
        if reference.qualifier is not None or reference.name.lower() not in self._by_alias:
            return False
        column = self._scope.find(reference.name, reference.span)
        # a key has priority over a select item; a column that is not a key would be an error anyway
        return column is None or Expression(column.tree) not in [key.expression for key in self._written]

    def _call(self, call: syntax.AggregateCall) -> exp.Expr:
        """The value of an aggregate, over the column of what computes it."""
        arguments = [self._scope.of_tuple(argument) for argument in call.arguments]
        condition = None if call.condition is None else self._scope.condition_of_tuple(call.condition)
        if call.function.lower() in self._scope.aggregates:
            parts = parts_of_registered(call.function, arguments, call.distinct, condition)
        else:
            parts = parts_of(call.function, arguments, call.distinct, condition)
        computed = self._computed(parts)
        self._check_window(call, computed)
        return parts.value(column_tree(computed.name))

    def _computed(self, parts: Parts) -> AggregateExpression:
        """The function that computes an aggregate, once however often it is written."""
        argument, others = (parts.arguments[0] if parts.arguments else None), parts.arguments[1:]
        name = f"a{len(self._calls)}"
        new = AggregateExpression(name, parts.function, argument, parts.distinct, tuple(others))
        return self._calls.setdefault((parts.function, parts.distinct, parts.arguments), new)

    def _check_window(self, call: syntax.AggregateCall, new: AggregateExpression) -> None:
        """Reject an aggregate that would keep all tuples, or that has no value for every tuple."""
        window, shown = self._scope.streams[0].window, _shown(call)
        if not new.is_mergeable and isinstance(window, UnboundedWindow):
            message = f"{shown} without a window would keep all values"
            raise QueryError(f"{message}; add [RANGE 1 HOUR]", call.span)
        if not (new.is_mergeable or new.is_collected) and isinstance(window, SessionWindow):
            message = f"{shown} over sessions would keep all their tuples"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", call.span)
        if new.distinct and new.function != "COUNT" and not is_emitted_whole(window):
            message = f"{shown} needs a window that is emitted as a whole"
            raise QueryError(f"{message}; write [TUMBLE 10 SECONDS]", call.span)

    def _meant(self, written: ScalarExpression) -> ScalarExpression:
        meant = written
        if written.text.isdecimal():
            meant = item_at(written, self._items, "GROUP BY")
        elif len(written.columns) == 1 and written.columns[0].span == written.span:
            [reference] = written.columns
            if reference.qualifier is None and not self._scope.find(reference.name, reference.span):
                meant = self._by_alias.get(reference.name.lower(), written)
        if meant.aggregates or _grouping_calls(meant):
            text = " ".join(meant.text.split())
            what = "an aggregate" if meant.aggregates else "known of groups"
            raise QueryError(f"{text} is {what}, which GROUP BY cannot use", written.span)
        return meant


class StateGrouping(Grouping):
    """Groups over all tuples so far, of which a table keeps partial aggregates."""

    def _check_window(self, call: syntax.AggregateCall, new: AggregateExpression) -> None:
        if not new.is_mergeable and not (new.distinct and new.function == "COUNT"):
            message = f"{_shown(call)} over all tuples so far would keep all values"
            raise QueryError(f"{message}; use COUNT, SUM, AVG, MIN, MAX or COUNT(DISTINCT ...)", call.span)


class RowGrouping(Grouping):
    """Groups over the current rows of a table."""

    def _check_window(self, call: syntax.AggregateCall, new: AggregateExpression) -> None:
        """All rows are at hand."""


def _grouping_calls(expression: ScalarExpression) -> list[exp.Anonymous]:
    calls = expression.tree.find_all(exp.Anonymous)
    return [call for call in calls if call.name.lower() in GROUPING_CALLS and "start" in call.meta]


def _starts(call: exp.Anonymous) -> Iterator[int]:
    """Where the columns of a call begin in the text."""
    return (column.parts[0].meta.get("start", -1) for column in call.find_all(exp.Column))


def _shown(call: syntax.AggregateCall) -> str:
    return f"{call.function}({'DISTINCT ...' if call.distinct else '...'})"


def over_keys(tree: exp.Expr, keys: Iterable[NamedExpression]) -> exp.Expr:
    """The tree over the columns of group keys; of nested keys, the outermost counts."""
    names = {tree_key(k.expression.tree.unnest()): k.name for k in keys if k.expression.columns}

    def change(node: exp.Expr) -> exp.Expr | None:
        name = names.get(tree_key(node)) if not isinstance(node, exp.Identifier) else None
        return None if name is None else column_tree(name)

    return replace_nodes(tree, change) if names else tree
