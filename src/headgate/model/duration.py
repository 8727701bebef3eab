"""Durations as a reader would write them."""

from __future__ import annotations

# a unit, its microseconds, and how many of it are still easy to read
_UNITS = (
    ("us", 1, 1_000),
    ("ms", 1_000, 1_000),
    ("s", 1_000_000, 600),
    ("min", 60_000_000, 600),
    ("h", 3_600_000_000, 240),
    ("d", 86_400_000_000, float("inf")),
)


def rounded_up(duration_us: int) -> str:
    """A duration of at least this length with two significant digits, as CQL reads it: ``3.2 s``."""
    unit, factor = next((u, f) for u, f, most in _UNITS if duration_us < most * f)
    # in tenths of the unit below ten of it, in whole units below a hundred, and so on
    tenths, step = -(-10 * duration_us // factor), 1
    while tenths >= 100 * step:
        step *= 10
    tenths = -(-tenths // step) * step
    whole, rest = divmod(tenths, 10)
    return f"{whole}.{rest} {unit}" if rest else f"{whole} {unit}"
