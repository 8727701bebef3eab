"""System columns of a tuple.

User columns never start with ``$``. Timestamps are microseconds in a BIGINT: cheaper to compare
than TIMESTAMP, and the same whatever the session's time zone.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.spark import sql

TS = "$ts"
"""Timestamp of the tuple, microseconds."""

SEQ = "$seq"
"""Number of the tuple in its stream, in timestamp order; only on streams whose order matters."""

POSITION = "$pos"
"""Number of the tuple in order of arrival, while it waits for its number in the stream."""

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


def tick_constant(value: int, anchor: str = TS) -> Column:
    """A number that differs from tick to tick, as a column; see ``sql.Bound``."""
    return F.expr(sql.Bound(value).at(sql.name(anchor)))


def tick_fraction(value: float, anchor: str = TS) -> Column:
    """The same for a DOUBLE."""
    return F.expr(sql.Bound(float(value)).at(sql.name(anchor)))
