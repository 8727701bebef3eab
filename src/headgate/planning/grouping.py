"""GROUP BY and aggregates: keys and calls become columns, everything above is written over those."""

from __future__ import annotations

from headgate.cql.statement import AggregateCall, ColumnReference, ScalarExpression, Select, SelectItem, Star
from headgate.errors import QueryError
from headgate.model.expression import AggregateExpression, Expression, NamedExpression
from headgate.model.window import UnboundedWindow
from headgate.planning.matching import Match, find_keys
from headgate.planning.scope import Scope
from headgate.planning.sources import window_of
from headgate.planning.text import Replacement, on_one_line, quoted, replaced, signature


def is_aggregate(select: Select) -> bool:
    """Whether the SELECT groups or aggregates."""
    expressions = [item.expression for item in select.items if isinstance(item, SelectItem)]
    having = [] if select.having is None else [select.having]
    return bool(select.group_by) or any(e.aggregates for e in [*expressions, *having])


class Grouping:
    """The keys and aggregate calls of one SELECT; calls are collected while expressions are bound."""

    def __init__(self, select: Select, scope: Scope) -> None:
        self._scope = scope
        self._items = select.items
        self.keys = self._group_keys(select.group_by)
        self._calls: dict[tuple[object, ...], AggregateExpression] = {}

    @property
    def aggregates(self) -> tuple[AggregateExpression, ...]:
        """All aggregate calls met so far, equal ones once."""
        return tuple(self._calls.values())

    def bind_item(self, expression: ScalarExpression) -> Expression:
        """A select item over the columns of keys and calls."""
        return self._bind(expression, {})

    def bind_having(self, expression: ScalarExpression) -> Expression:
        """HAVING over the columns of keys and calls; it may also use the names of select items."""
        named = [item for item in self._items if isinstance(item, SelectItem) and item.alias]
        return self._bind(expression, {item.alias.text.lower(): item for item in named if item.alias})

    def _bind(self, expression: ScalarExpression, names: dict[str, SelectItem]) -> Expression:
        calls = [Replacement(c.span, quoted(self._call(c).name)) for c in expression.aggregates]
        outside = [r for r in expression.columns if not any(_within(r, c) for c in expression.aggregates)]
        own = {r: self._item_text(names[r.name.lower()]) for r in outside if self._is_item(r, names)}
        sources = [r for r in outside if r not in own]
        changes = calls + [Replacement(r.span, text) for r, text in own.items()]
        bound = {r.span: self._scope.resolve(r).text for r in sources}
        changes += [Replacement(span, text) for span, text in bound.items()]
        changes.sort(key=lambda change: change.span.start)
        text, starts = replaced(expression.span, changes)
        matches = find_keys(text, [key.expression.text for key in self.keys if key.expression.columns])
        for change, start in zip(changes, starts, strict=True):
            if change.span in bound and not any(m.start <= start < m.end for m in matches):
                message = f"{change.span.excerpt} must be in GROUP BY or inside an aggregate"
                raise QueryError(message, change.span)
        return self._over_keys(expression, text, matches)

    def _over_keys(self, expression: ScalarExpression, text: str, matches: list[Match]) -> Expression:
        keys = [key.name for key in self.keys if key.expression.columns]
        for match in reversed(matches):
            text = text[: match.start] + quoted(keys[match.key]) + text[match.end :]
        text = on_one_line(text)
        used = set(signature(text))
        names = [key.name for key in self.keys] + [call.name for call in self._calls.values()]
        return Expression(text, tuple(n for n in names if quoted(n) in used), expression.span)

    def _is_item(self, reference: ColumnReference, names: dict[str, SelectItem]) -> bool:
        if reference.qualifier is not None or reference.name.lower() not in names:
            return False
        column = self._scope.find(reference.name, reference.span)
        # a key comes first, then a select item, and a column that is no key would be an error anyway
        return column is None or all(key.expression.text != column.text for key in self.keys)

    def _item_text(self, item: SelectItem) -> str:
        text = self.bind_item(item.expression).text
        return text if len(signature(text)) == 1 else f"({text})"

    def _call(self, call: AggregateCall) -> AggregateExpression:
        if call.distinct and isinstance(window_of(self._scope.streams[0]), UnboundedWindow):
            message = (
                f"{call.function}(DISTINCT ...) without a window remembers all values; add [RANGE 1 HOUR]"
            )
            raise QueryError(message, call.span)
        argument = None if call.argument is None else self._scope.bind(call.argument)
        same = (call.function, call.distinct, argument and signature(argument.text))
        if same not in self._calls:
            name = f"a{len(self._calls)}"
            self._calls[same] = AggregateExpression(name, call.function, argument, call.distinct)
        return self._calls[same]

    def _group_keys(self, group_by: tuple[ScalarExpression, ...]) -> tuple[NamedExpression, ...]:
        keys: dict[tuple[str, ...], NamedExpression] = {}
        for written in group_by:
            expression = self._scope.bind(self._meant(written))
            named = NamedExpression(f"k{len(keys)}", expression)
            keys.setdefault(signature(expression.text), named)
        return tuple(keys.values())

    def _meant(self, written: ScalarExpression) -> ScalarExpression:
        item = self._item_meant(written)
        if item is None:
            return written
        if item.expression.aggregates:
            text = " ".join(item.expression.text.split())
            raise QueryError(f"{text} is an aggregate, which GROUP BY cannot use", written.span)
        return item.expression

    def _item_meant(self, written: ScalarExpression) -> SelectItem | None:
        """The select item that a group key names by number or alias."""
        if written.text.isdecimal():
            return self._numbered(written)
        if len(written.columns) != 1 or written.columns[0].span != written.span:
            return None
        [reference] = written.columns
        if reference.qualifier is not None or self._scope.find(reference.name, reference.span):
            return None
        wanted = reference.name.lower()
        items = (item for item in self._items if isinstance(item, SelectItem) and item.alias)
        return next((item for item in items if item.alias and item.alias.text.lower() == wanted), None)

    def _numbered(self, written: ScalarExpression) -> SelectItem:
        number = int(written.text)
        if not 1 <= number <= len(self._items):
            raise QueryError(
                f"GROUP BY {number}: the select list has items 1 to {len(self._items)}", written.span
            )
        item = self._items[number - 1]
        if isinstance(item, Star):
            raise QueryError(f"GROUP BY {number} is a *; name the column", written.span)
        return item


def _within(reference: ColumnReference, call: AggregateCall) -> bool:
    return call.span.start <= reference.span.start and reference.span.end <= call.span.end


def check_one_stream(select: Select, scope: Scope) -> None:
    """Refuse an aggregate over a join of streams."""
    if len(scope.streams) == 1:
        return
    expressions = [item.expression for item in select.items if isinstance(item, SelectItem)]
    calls = [call.span for expression in expressions for call in expression.aggregates]
    spans = [*calls, *(key.span for key in select.group_by), select.span]
    raise QueryError(
        "an aggregate over a join of streams is not supported; "
        "aggregate one stream, or write the join's result and aggregate that",
        spans[0],
    )
