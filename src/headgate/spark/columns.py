"""System columns of every tuple, and constants that change from tick to tick.

User columns never start with ``$``. Timestamps are microseconds in a BIGINT: cheaper to compare
than TIMESTAMP, and the same whatever the session's time zone.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

TS = "$ts"
"""Timestamp of the tuple, microseconds."""

ARRIVED = "$at"
"""Wall-clock microseconds at which the tuple (the last one, of a join) arrived."""

SEQ = "$seq"
"""Number of the tuple in its stream; only on streams whose order matters."""

FINAL = "$final"
"""Whether a landed tuple's number is final; a tuple that waits is landed anew in a later block."""

WINDOW_SEQ = "$wseq"
"""Number of the tuple in its row window: in the stream, or among those of its key."""

SIDE = "$side"
"""Number of the side that a tuple comes from, on its way through placed probes of a join."""

BEGINNING_US = -(2**62)
"""A timestamp before all others."""

END_US = 2**62
"""A timestamp after all others."""


def window_key(position: int) -> str:
    """Column that carries a key of [PARTITION BY ...] through a plan."""
    return f"$key{position}"


def is_system(column: str) -> bool:
    """Whether a column is ours rather than the user's."""
    return column.startswith("$")


def seq_of_key(keys: tuple[str, ...]) -> str:
    """Column that numbers the tuples of each key; SEQ itself for no key."""
    return SEQ if not keys else f"{SEQ}:{','.join(keys)}"


def tick_constant(value: int, anchor: str = TS) -> Column:
    """A number that differs from tick to tick, without making Spark compile the plan anew.

    Spark writes numeric literals into generated code, but hands arrays over by reference; the index
    depends on a column, so that the optimiser cannot fold the access back into a literal.
    """
    return _by_reference(F.lit(value).cast("bigint"), anchor)


def tick_fraction(value: float, anchor: str = TS) -> Column:
    """The same for a DOUBLE."""
    return _by_reference(F.lit(value).cast("double"), anchor)


def _by_reference(number: Column, anchor: str) -> Column:
    index = F.when(F.col(f"`{anchor}`").isNull(), F.lit(1)).otherwise(F.lit(0))
    return F.array(number, number)[index]
