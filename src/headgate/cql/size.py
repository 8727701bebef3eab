"""Byte counts: ``64 MB``, ``1GiB``, ``512k`` or a plain number.

Units are powers of 1024 with or without the ``i``, as in Spark's own settings, so that ``64 MB``
here and ``64m`` there are the same amount.
"""

from __future__ import annotations

from headgate.cql.measure import MeasureError, MeasureKind

_FACTORS = {"b": 1, "byte": 1, "bytes": 1} | {
    spelling: 1024**power
    for power, letter in enumerate("kmgtp", start=1)
    for spelling in (letter, f"{letter}b", f"{letter}ib")
}

_SIZE = MeasureKind(
    noun="size",
    base_unit="B",
    example_unit="MB",
    factors=_FACTORS,
    known_units="B, KB, MB, GB, TB, PB",
    default_factor=1,
)


def parse_bytes(text: str) -> int:
    """Read a size in bytes; a ValueError says what would be right."""
    size = _SIZE.read(text)
    if size < 0:
        raise MeasureError("a size cannot be negative; write a positive number and a unit", 0, len(text))
    return size
