"""Numbers with a unit: durations (``1.5 HOURS``) and sizes (``64 MB``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headgate.cql.tokens import one_line

# the largest signed 64-bit number: what Spark, numpy and Java hold
LARGEST = 2**63 - 1

# longer numbers exceed LARGEST or any precision, and are slow to convert
_LONGEST_NUMBER = 30

_MEASURE = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[^\W\d_]*)\s*(?P<rest>.*)",
    re.DOTALL,
)


class MeasureError(ValueError):
    """A text that is not a measure; ``start`` and ``end`` delimit the wrong characters."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


@dataclass(frozen=True)
class MeasureKind:
    """A kind of measure: its name in messages, an example, and the factor of every unit (lower case)."""

    noun: str
    base_unit: str
    example_unit: str
    factors: Mapping[str, int]
    known_units: str

    def read(self, text: str, write: str = "", is_signed: bool = False) -> int:
        """The value in base units; ``write`` goes before the example of an error message."""
        match = _MEASURE.fullmatch(text)
        if match is None:
            shown = one_line(text)
            problem = f"'{shown}' is not a {self.noun}" if shown else f"the {self.noun} is missing"
            message = f"{problem}; write a number and a unit, such as {write}10 {self.example_unit}"
            start = len(text) - len(text.lstrip())
            raise MeasureError(message, start, max(start, len(text.rstrip())))
        number, unit, rest = match["number"], match["unit"], match["rest"].rstrip()
        known = unit if unit.lower() in self.factors else self.example_unit
        right = f"{write}{number} {known}"
        if len(number) > _LONGEST_NUMBER:
            message = f"a number of {len(number)} digits is too long for a {self.noun}"
            raise MeasureError(message, *match.span("number"))
        if rest:
            message = f"unexpected '{one_line(rest)}' after the {self.noun}; write {right}"
            raise MeasureError(message, match.start("rest"), match.start("rest") + len(rest))
        factor = self.factors.get(unit.lower())
        if factor is None and not unit:
            raise MeasureError(f"{number} has no unit; write {right}", *match.span("number"))
        if factor is None:
            problem = f"unknown unit '{one_line(unit)}' of a {self.noun}"
            raise MeasureError(f"{problem}; known units: {self.known_units}", *match.span("unit"))
        exact = Fraction(number) * factor
        value = round(exact)
        if value > LARGEST or (exact and not value):
            limits = f"1 {self.base_unit} to {LARGEST} {self.base_unit}"
            message = f"this {self.noun} is out of bounds; write one from {limits}"
            raise MeasureError(message, *match.span("number"))
        if match["sign"] == "-" and value and not is_signed:
            message = f"a {self.noun} cannot be negative; write a positive number and a unit"
            raise MeasureError(message, 0, len(text))
        return -value if match["sign"] == "-" else value


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

# quotes and the word INTERVAL add nothing to number and unit
_DECORATION = re.compile(r"^\s*interval\b|['\"]", re.IGNORECASE)


def parse_duration_us(text: str) -> int:
    """Read a duration of zero or more; a ValueError states what would be right."""
    return signed_duration_us(text, is_signed=False)


def signed_duration_us(text: str, write: str = "", is_signed: bool = True) -> int:
    return _DURATION.read(_DECORATION.sub(lambda match: " " * len(match[0]), text), write, is_signed)


def duration_text(duration_us: int) -> str:
    """A duration as it can be written, in the largest unit that gives a whole number."""
    factor = next((f for f in reversed(_SPELLINGS) if duration_us and duration_us % f == 0), 1_000_000)
    return f"{duration_us // factor} {_SPELLINGS[factor].split()[0]}"


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
)


def parse_bytes(text: str) -> int:
    """Read a size in bytes; a ValueError states what would be right."""
    return _SIZE.read(text)
