"""Numbers that users write: what they count, and from where to where they are accepted.

Ranges are wide enough for anything that can be measured, and narrow enough for products and quotients of a
few such numbers to stay finite. For the same reason, a number that is next to nothing is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.errors import SetupError

_LONGEST_SHOWN = 40
_NEXT_TO_NOTHING = 1e-30


@dataclass(frozen=True)
class Quantity:
    """A kind of number from ``least`` to ``most``; as an annotation of a field, it checks the field."""

    unit: str
    least: float
    most: float
    is_whole: bool = False

    def __str__(self) -> str:
        of = f" of {self.unit}" if self.unit else ""
        return f"{self._kind}{of} from {_short(self.least)} to {_short(self.most)}"

    @property
    def _kind(self) -> str:
        return "a whole number" if self.is_whole else "a number"

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most

    def check(self, value: float, what: str) -> None:
        """Raise if the number is out of range; ``what`` shows it."""
        if not self.holds(value):
            raise SetupError(f"{what} is out of range; write {self}")

    def read(self, text: str, place: str = "") -> Any:
        """The number in a text; in errors, the text follows its ``place``."""
        what = f"{place}{text if len(text) <= _LONGEST_SHOWN else f'{text[:_LONGEST_SHOWN]}...'}"
        try:
            value: float = int(text) if self.is_whole else float(text)
        except ValueError:
            raise SetupError(f"{what} is not {self._kind}; write {self}") from None
        self.check(value, what)
        return value if self.is_whole else _rounded(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        kind = "int" if self.is_whole else "float"
        number: Any = {"type": kind, "strict": True, "ge": self.least, "le": self.most}
        return core_schema.custom_error_schema(
            number if self.is_whole else core_schema.no_info_after_validator_function(_rounded, number),
            custom_error_type="number",
            custom_error_message="{right}",
            custom_error_context={"right": str(self)},
        )


def _rounded(number: float) -> float:
    return number if abs(number) > _NEXT_TO_NOTHING else 0.0


def _short(number: float) -> str:
    """1e9 rather than 1e+09; 16777216 as it is."""
    if float(f"{number:g}") != number:
        return str(number)
    mantissa, e, power = f"{number:g}".partition("e")
    return f"{mantissa}e{int(power)}" if e else mantissa


SHARE = Quantity("", 0, 1)
SECONDS = Quantity("seconds", 0, 1e6)
TIME = Quantity("seconds", 1e-9, 1e9)
RATE = Quantity("tuples per second", 1e-9, 1e9)
SELECTIVITY = Quantity("results per tuple", 0, 1e9)
BYTES = Quantity("bytes", 1e-3, 1e12)
RATIO = Quantity("", 1e-6, 1e6)
PROCESSORS = Quantity("processors", 1, 4096, is_whole=True)
SEED = Quantity("", 0, 2**63 - 1, is_whole=True)
FLOWS = Quantity("flows", 1, 1024, is_whole=True)
SHAPE = Quantity("", 0.05, 20)
