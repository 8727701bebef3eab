"""The select list: its items, their names and types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

from headgate.cql import syntax
from headgate.cql.syntax import ScalarExpression, Select, SelectItem, Star
from headgate.errors import QueryError
from headgate.model.expression import (
    Expression,
    NamedExpression,
)
from headgate.model.sql_tree import column_tree
from headgate.model.table import RANK
from headgate.planning.from_clause import Scope
from headgate.planning.from_items import BoundColumn
from headgate.planning.types import Type

# every result row starts with its timestamp, which the engine adds
TIMESTAMP = "ts"


class SelectList:
    """The items of one SELECT over the sources of a scope."""

    reserved: ClassVar[frozenset[str]] = frozenset({TIMESTAMP})
    """Names, in lower case, that no result column may have but the timestamp."""

    def __init__(self, select: Select, scope: Scope) -> None:
        self._select = select
        self.scope = scope
        self.types: tuple[str, ...] = ()
        """Of the select list, once it is bound; as far as they are known without Spark."""

    def select_list(self, bind: Callable[[ScalarExpression], Expression]) -> tuple[NamedExpression, ...]:
        """The items; a name that the user did not choose gets a number where it is taken."""
        items = list(self._items(bind))
        self.types = tuple(str(kind) for _, _, _, kind in items)
        taken = {*self.reserved} | {given.lower() for given, _, _, _ in items if given}
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
        clashes = {*self.reserved} | {name for name, times in count.items() if times > 1}
        for item in self._select.items:
            if isinstance(item, SelectItem):
                column = self.scope.plain_column(item.expression)
                given = item.alias.text if item.alias else (column.name if column else None)
                if (given or "").lower() not in self.reserved or not self._is_timestamp(item, column):
                    derived = self._derived_name(item.expression)
                    yield given, derived, bind(item.expression), self.scope.type_of(item.expression)
            elif isinstance(item, syntax.RankItem):
                rank = Expression(column_tree(RANK), item.name.span)
                yield item.name.text, item.name.text, rank, Type.declared("INT")
            elif self._select.is_aggregate:
                raise QueryError("* cannot be combined with an aggregate; name the columns", item.span)
            else:
                for own in self._expanded(item):
                    name = own.name
                    if name.lower() not in self.reserved or not self._is_own_timestamp(own):
                        shown = f"{own.source.alias}_{name}" if name.lower() in clashes else name
                        yield shown, shown, Expression(own.tree, item.span), own.type

    def _expanded(self, star: Star) -> Iterator[BoundColumn]:
        columns = list(self._all_of(star))
        left_out = {name.text.lower() for name in star.without}
        for name in star.without:
            if name.text.lower() not in {column.name.lower() for column in columns}:
                known = ", ".join(column.name for column in columns)
                raise QueryError(f"unknown column {name.text} in EXCEPT; columns: {known}", name.span)
        yield from (column for column in columns if column.name.lower() not in left_out)

    def _all_of(self, star: Star) -> Iterator[BoundColumn]:
        sources = tuple(source for source in self.scope.sources if source.is_listed)
        if star.qualifier is not None:
            if struct := self.scope.struct(star.qualifier.text, star.qualifier.span):
                yield from (replace(struct, field=name) for name in struct.type.fields)
                return
            sources = (self.scope.source(star.qualifier.text, star.qualifier.span),)
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
            column = self.scope.plain_column(argument)
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
        is_plain = len(self.scope.streams) == 1 and column.field is None
        return is_plain and column.source.is_timestamp(column.column)


def _words(text: str) -> str:
    return re.sub(r"\W+", "_", text.lower()).strip("_")
