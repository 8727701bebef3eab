"""A number and a unit, such as ``1.5 HOURS`` or ``64 MB``: what durations and sizes have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headgate.cql.wording import one_line

# the largest signed 64-bit number: what Spark, numpy and Java hold
LARGEST = 2**63 - 1

# longer numbers are beyond LARGEST or below all precision, and slow to convert
_LONGEST_NUMBER = 30

_MEASURE = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[^\W\d_]*)\s*(?P<rest>.*)",
    re.DOTALL,
)


class MeasureError(ValueError):
    """A text that is no measure; ``start`` and ``end`` say which characters of it are wrong."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


@dataclass(frozen=True)
class MeasureKind:
    """What is measured: its name in messages, an example, and the factor of every unit (lower case)."""

    noun: str
    base_unit: str
    example_unit: str
    factors: Mapping[str, int]
    known_units: str
    default_factor: int | None = None

    def read(self, text: str, write: str = "") -> int:
        """The signed value in base units; ``write`` goes before the example of an error message."""
        match = _MEASURE.fullmatch(text)
        if match is None:
            raise self._no_measure(text, write)
        number, rest = match["number"], match["rest"]
        if len(number) > _LONGEST_NUMBER:
            raise MeasureError(
                f"a number of {len(number)} digits is too long for a {self.noun}", *match.span("number")
            )
        if rest:
            right = f"{write}{number} {self.example_unit}"
            message = f"unexpected '{one_line(rest)}' after the {self.noun}; write {right}"
            raise MeasureError(message, match.start("rest"), match.start("rest") + len(rest.rstrip()))
        value = self._rounded(match, self._factor(match, write))
        return -value if match["sign"] == "-" else value

    def _factor(self, match: re.Match[str], write: str) -> int:
        unit = match["unit"].lower()
        if not unit:
            if self.default_factor is not None:
                return self.default_factor
            message = f"{match['number']} has no unit; write {write}{match['number']} {self.example_unit}"
            raise MeasureError(message, *match.span("number"))
        if unit not in self.factors:
            message = (
                f"unknown unit '{one_line(match['unit'])}' of a {self.noun}; known units: {self.known_units}"
            )
            raise MeasureError(message, *match.span("unit"))
        return self.factors[unit]

    def _rounded(self, match: re.Match[str], factor: int) -> int:
        exact = Fraction(match["number"]) * factor
        value = round(exact)
        if value > LARGEST or (exact and not value):
            limits = f"1 {self.base_unit} to {LARGEST} {self.base_unit}"
            message = f"this {self.noun} is out of bounds; write one from {limits}"
            raise MeasureError(message, *match.span("number"))
        return value

    def _no_measure(self, text: str, write: str) -> MeasureError:
        problem = f"'{one_line(text)}' is no {self.noun}" if text.strip() else f"the {self.noun} is missing"
        message = f"{problem}; write a number and a unit, such as {write}10 {self.example_unit}"
        start = len(text) - len(text.lstrip())
        return MeasureError(message, start, max(start, len(text.rstrip())))
