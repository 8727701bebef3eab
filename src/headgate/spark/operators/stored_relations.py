"""The SQL of stored relations that are computed from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.model.expression import column_of
from headgate.model.stored_select import StoredSelect, StoredSide
from headgate.model.table import Named
from headgate.spark import sql
from headgate.spark.operators.stateless import exploded
from headgate.spark.operators.tables import applied
from headgate.spark.sql import TS


def stored_sql(selects: Sequence[StoredSelect], view_of: Callable[[str], str]) -> str:
    """The rows of all SELECTs; ``view_of`` gives the view of a relation by its name."""
    text = sql.union([_rows(select, view_of) for select in selects])
    assert text is not None
    return sql.as_query(text)


def _rows(select: StoredSelect, view_of: Callable[[str], str]) -> str:
    first, *others = select.sides
    # steps expect a timestamp, and stored rows have none
    rows = sql.select([f"0L AS {sql.name(TS)}", "*"], _side(first, view_of))
    columns = _columns(first)
    for side in others:
        if side.generated is not None:
            rows = exploded(rows, side.generated, _columns(side), is_outer=side.join.endswith("OUTER"))
            columns += _columns(side)
            continue
        own = [] if side.join in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else _columns(side)
        wanted = sql.names([TS, *columns, *own])
        on = sql.conjunction(side.on)
        columns += own
        rows = (
            f"SELECT {sql.listed(wanted)}\nFROM {sql.relation(rows)}\n"
            f"{side.join} {sql.relation(_side(side, view_of))}\n  ON {on}"
        )
    for step in select.steps:
        rows, columns = applied(step, rows, columns)
    last = select.steps[-1]
    assert isinstance(last, Named), "a select list is the last step"
    return sql.select(sql.names(item.name for item in last.items), rows)


def _side(side: StoredSide, view_of: Callable[[str], str]) -> str:
    source = view_of(side.source) if isinstance(side.source, str) else stored_sql(side.source, view_of)
    return sql.select([f"{sql.name(c)} AS {sql.name(c_of)}" for c, c_of in _pairs(side)], source)


def _pairs(side: StoredSide) -> list[tuple[str, str]]:
    return [(column, column_of(side.alias, column)) for column in side.columns]


def _columns(side: StoredSide) -> list[str]:
    return [column for _, column in _pairs(side)]
