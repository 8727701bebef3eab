"""Steps over rows that are at hand: what comes behind grouping, and the removal of duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.model.expression import Expression, NamedExpression
from headgate.model.sql_tree import column_tree
from headgate.model.table import Groups, Named, Ranked, Step, Where
from headgate.planning.bind import Clauses
from headgate.planning.from_clause import conjunct


def finished(clauses: Clauses) -> list[Step]:
    """HAVING, ranking and the select list."""
    steps: list[Step] = []
    if clauses.having is not None:
        steps.append(Where((conjunct(clauses.having),)))
    if clauses.ranking is not None:
        steps.append(Ranked(clauses.ranking))
    return [*steps, Named(clauses.items)]


def distinct_rows(items: Sequence[NamedExpression]) -> tuple[Step, ...]:
    """Steps that remove duplicates from rows with these columns."""
    keys = tuple(NamedExpression(f"k{n}", Expression(column_tree(item.name))) for n, item in enumerate(items))
    return Groups(keys, ()), Named(columns_of(keys, items))


def columns_of(
    keys: Iterable[NamedExpression], items: Iterable[NamedExpression]
) -> tuple[NamedExpression, ...]:
    """The columns of keys, named as select items are."""
    pairs = zip(keys, items, strict=True)
    return tuple(NamedExpression(item.name, Expression(column_tree(key.name))) for key, item in pairs)
