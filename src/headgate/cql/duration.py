"""Durations in whole microseconds: ``10 SECONDS``, ``500 ms``, ``1.5 HOURS``, ``INTERVAL '10' SECOND``."""

from __future__ import annotations

import re

from headgate.cql.measure import MeasureError, MeasureKind

_SPELLINGS = {
    1: "us µs μs microsecond microseconds",
    1_000: "ms millisecond milliseconds",
    1_000_000: "s sec secs second seconds",
    60_000_000: "m min mins minute minutes",
    3_600_000_000: "h hour hours",
    86_400_000_000: "d day days",
}

_DURATION = MeasureKind(
    noun="time",
    base_unit="us",
    example_unit="SECONDS",
    factors={unit: factor for factor, units in _SPELLINGS.items() for unit in units.split()},
    known_units="microseconds (us), milliseconds (ms), seconds (s), minutes (m), hours (h), days (d)",
)

# quotes and the word INTERVAL say nothing that number and unit do not
_DECORATION = re.compile(r"^\s*interval\b|['\"]", re.IGNORECASE)


def parse_duration_us(text: str) -> int:
    """Read a duration, which may be zero; a ValueError says what would be right."""
    microseconds = signed_duration_us(text)
    if microseconds < 0:
        raise MeasureError("a time cannot be negative; write a positive number and a unit", 0, len(text))
    return microseconds


def signed_duration_us(text: str, write: str = "") -> int:
    """Read a duration of either sign; positions in a MeasureError are those of ``text``."""
    return _DURATION.read(_DECORATION.sub(lambda match: " " * len(match[0]), text), write)
