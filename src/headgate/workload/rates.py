"""Mean rates that change in phases, and durations as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError

MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
_LONG_NAMES = {
    **dict.fromkeys(("microsecond", "microseconds"), "us"),
    **dict.fromkeys(("millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "minute", "minutes"), "min"),
    **dict.fromkeys(("hour", "hours"), "h"),
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_us(text: str) -> int:
    """Microseconds in a text such as ``60 s`` or ``1.5 min``."""
    match = _DURATION.fullmatch(text)
    unit = match and _LONG_NAMES.get(match[2].lower(), match[2].lower())
    if not match or unit not in MICROSECONDS:
        raise SetupError(f"'{text}' is no duration; write a number and us, ms, s, min or h, as in '60 s'")
    return round(float(match[1]) * MICROSECONDS[unit])


@dataclass(frozen=True)
class RatePhases:
    """A mean rate that holds from each phase's start to the next; the first phase starts at 0."""

    starts_us: tuple[int, ...]
    tuples_per_second: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.starts_us or len(self.starts_us) != len(self.tuples_per_second) or self.starts_us[0] != 0:
            raise SetupError("rate phases need one rate for every start, and the first start is 0")
        if any(later <= earlier for earlier, later in pairwise(self.starts_us)):
            raise SetupError("rate phases must be written in order of time, each later than the one before")
        for rate in self.tuples_per_second:
            if not 0 < rate < float("inf"):
                raise SetupError(f"a rate of {rate:g} tuples a second never ends; write a number above 0")

    @staticmethod
    def constant(tuples_per_second: float) -> RatePhases:
        """One rate for ever."""
        return RatePhases((0,), (float(tuples_per_second),))

    @staticmethod
    def parse(text: str) -> RatePhases:
        """Read ``500`` or ``500, 2000 from 60 s, 8000 from 2 min``."""
        starts, rates = [], []
        for index, phase in enumerate(text.split(",")):
            rate, separator, start = phase.partition(" from ")
            if bool(separator) == (index == 0):
                raise SetupError(f"'{text}' is no rate; write '500' or '500, 2000 from 60 s'")
            starts.append(duration_us(start) if separator else 0)
            rates.append(_number(rate, text))
        return RatePhases(tuple(starts), tuple(rates))

    @property
    def highest(self) -> float:
        """The highest rate of any phase, in tuples a second."""
        return max(self.tuples_per_second)

    def at(self, times_us: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rate at each time, in tuples a second."""
        phase = np.searchsorted(np.asarray(self.starts_us), times_us, side="right") - 1
        return np.asarray(self.tuples_per_second)[phase]

    def expected(self, start_us: int, end_us: int) -> float:
        """The mean number of tuples in ``[start_us, end_us)``."""
        starts = np.clip([*self.starts_us, end_us], start_us, max(start_us, end_us))
        return float(np.diff(starts) @ np.asarray(self.tuples_per_second)) / 1e6


def _number(rate: str, text: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise SetupError(f"'{text}' is no rate; write '500' or '500, 2000 from 60 s'") from None
