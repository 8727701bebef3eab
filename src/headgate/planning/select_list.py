"""The select list: stars expanded, every item named, the timestamp left to the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headgate.cql.statement import ScalarExpression, Select, SelectItem, Star
from headgate.errors import QueryError
from headgate.model.expression import Expression, NamedExpression
from headgate.planning.names import TIMESTAMP, derived_name, given_name, plain_column, unique
from headgate.planning.scope import BoundColumn, Scope


@dataclass(frozen=True)
class _Item:
    """An item before it is named for good; a name that was not ``given`` may still change."""

    name: str
    given: bool
    expression: Expression


def select_list(
    select: Select, scope: Scope, is_aggregate: bool, bind: Callable[[ScalarExpression], Expression]
) -> tuple[NamedExpression, ...]:
    """The items; ``bind`` says what an expression means."""
    items = list(_items(select, scope, is_aggregate, bind))
    taken = {TIMESTAMP} | {item.name.lower() for item in items if item.given}
    return tuple(_named(item, taken) for item in items)


def check_names(items: Iterable[NamedExpression]) -> None:
    """Refuse two result columns of one name."""
    taken: set[str] = set()
    for item in items:
        if item.name.lower() in taken:
            span = item.expression.span
            written = " ".join(span.excerpt.split()) if span else ""
            hint = (
                f"name the columns instead of {written}"
                if written.endswith("*")
                else f"write {written} AS another_name"
            )
            raise QueryError(f"two result columns are called {item.name}; {hint}", span)
        taken.add(item.name.lower())


def _named(item: _Item, taken: set[str]) -> NamedExpression:
    name = item.name if item.given else unique(item.name, taken)
    taken.add(name.lower())
    return NamedExpression(name, item.expression)


def _items(
    select: Select, scope: Scope, is_aggregate: bool, bind: Callable[[ScalarExpression], Expression]
) -> Iterator[_Item]:
    clashes = _clashes(select, scope)
    for item in select.items:
        if isinstance(item, SelectItem):
            if not _is_timestamp(item, scope, is_aggregate):
                given = given_name(item, scope)
                name = given or derived_name(item.expression, scope)
                yield _Item(name, given is not None, bind(item.expression))
        elif is_aggregate:
            raise QueryError("* does not go with an aggregate; name the columns", item.span)
        else:
            for column in _expanded(item, scope):
                if not _is_own_timestamp(column, scope):
                    expression = Expression(column.text, (column.plan_column,), item.span)
                    yield _Item(_star_name(column, clashes), True, expression)


def _is_timestamp(item: SelectItem, scope: Scope, is_aggregate: bool) -> bool:
    """Whether the item is the very timestamp that the engine adds; refuses others of that name."""
    if (given_name(item, scope) or "").lower() != TIMESTAMP:
        return False
    column = plain_column(item.expression, scope)
    if column is not None and not is_aggregate and _is_own_timestamp(column, scope, any_name=True):
        return True
    written = " ".join(item.expression.text.split())
    message = f"the result's own timestamp is called {TIMESTAMP}; write {written} AS another_name"
    raise QueryError(message, item.alias.span if item.alias else item.expression.span)


def _is_own_timestamp(column: BoundColumn, scope: Scope, any_name: bool = False) -> bool:
    if len(scope.streams) != 1 or column.field is not None or not column.source.is_timestamp(column.column):
        return False
    return any_name or column.column.name.lower() == TIMESTAMP


def _expanded(star: Star, scope: Scope) -> Iterator[BoundColumn]:
    sources = scope.sources
    if star.qualifier is not None:
        sources = (scope.source(star.qualifier.text, star.qualifier.span),)
    for source in sources:
        for column in source.schema.columns:
            yield BoundColumn(source, column)


def _clashes(select: Select, scope: Scope) -> set[str]:
    """Names that the stars of the list bring from more than one source."""
    stars = [item for item in select.items if isinstance(item, Star)]
    brought = {column.plan_column: column for star in stars for column in _expanded(star, scope)}
    count = Counter(column.column.name.lower() for column in brought.values())
    return {TIMESTAMP} | {name for name, times in count.items() if times > 1}


def _star_name(column: BoundColumn, clashes: set[str]) -> str:
    name = column.column.name
    return f"{column.source.alias}_{name}" if name.lower() in clashes else name
