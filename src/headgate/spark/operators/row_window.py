"""Row windows: a tuple expires when the tuple n places after it arrives."""

from __future__ import annotations

from headgate.model.window import RowWindow
from headgate.spark import sql
from headgate.spark.application.java_classes import LATER
from headgate.spark.sql import SEQ, TS, window_key

EXPIRY = "$exp"
EXPIRY_SEQ = "$exp_seq"
PLACE_IN_KEY = "$place_in_key"
"""Position of a tuple among those of its key, for PARTITION BY windows."""


def expiry_columns(window: RowWindow) -> list[str]:
    """The columns that ``with_expiry`` adds."""
    return [EXPIRY, EXPIRY_SEQ, *([PLACE_IN_KEY] if window.keys else [])]


def with_expiry(tuples: str, window: RowWindow, pushing: str | None, hint: str = "SHUFFLE_HASH") -> str:
    """Add the timestamp at which each tuple left its window; NULL while it is inside.

    ``tuples`` and ``pushing``, those since the last tick, are of the stream as declared.
    """
    if window.keys:
        return with_expiry_in_order(tuples, window)
    if pushing is None:
        nothing = "CAST(NULL AS BIGINT)"
        return sql.select(
            ["*", f"{nothing} AS {sql.name(EXPIRY)}", f"{nothing} AS {sql.name(EXPIRY_SEQ)}"], tuples
        )
    # the tuple so many places later expires this one
    victims = sql.select(
        [
            f"{sql.name(SEQ)} - {window.rows}L AS `$victim`",
            f"{sql.name(TS)} AS {sql.name(EXPIRY)}",
            f"{sql.name(SEQ)} AS {sql.name(EXPIRY_SEQ)}",
        ],
        pushing,
    )
    items = ["t.*", sql.name(EXPIRY), sql.name(EXPIRY_SEQ)]
    return (
        f"SELECT /*+ {hint}(p) */ {sql.listed(items)}\nFROM {sql.relation(tuples)} AS t\n"
        f"LEFT JOIN {sql.relation(victims)} AS p\n  ON t.{sql.name(SEQ)} = p.`$victim`"
    )


def with_expiry_in_one_task(tuples: str, window: RowWindow) -> str:
    """The same for tuples of one task, by a pass in descending order; not for windows by key."""
    assert not window.keys
    backwards = f"{sql.select(['*'], tuples, hint=sql.IN_ONE_TASK)}\nSORT BY {sql.name(SEQ)} DESC"
    items = [
        "*",
        f"{LATER}({sql.name(TS)}, {window.rows}) AS {sql.name(EXPIRY)}",
        f"{LATER}({sql.name(SEQ)}, {window.rows}) AS {sql.name(EXPIRY_SEQ)}",
    ]
    return sql.select(items, backwards)


def with_expiry_in_order(tuples: str, window: RowWindow) -> str:
    """The same by a pass in sequence order, which needs all tuples (of a key) in one task."""
    keys = ", ".join(sql.name(window_key(position)) for position in range(len(window.keys)))
    over = f"OVER ({f'PARTITION BY {keys} ' if keys else ''}ORDER BY {sql.name(SEQ)})"
    items = [
        "*",
        f"lead({sql.name(TS)}, {window.rows}) {over} AS {sql.name(EXPIRY)}",
        f"lead({sql.name(SEQ)}, {window.rows}) {over} AS {sql.name(EXPIRY_SEQ)}",
    ]
    if keys:
        items.append(f"row_number() {over} AS {sql.name(PLACE_IN_KEY)}")
    return sql.select(items, tuples)
