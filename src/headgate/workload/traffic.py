"""Parts of synthetic traffic: arrivals, mean rates that change in phases, Pareto durations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.formats.quantity import RATE, SHAPE, Quantity


@dataclass(frozen=True)
class Arrivals:
    """Tuples in order of arrival; all arrays have the same length."""

    time_us: NDArray[np.int64]
    """Microseconds since the traffic began."""
    flow: NDArray[np.int32]
    id: NDArray[np.int64]
    """Distinct within a process and the same in every replay; a tuple's values are drawn from it."""

    def __len__(self) -> int:
        return len(self.time_us)

    def between(self, start_us: int, end_us: int) -> Arrivals:
        """The tuples of ``[start_us, end_us)``."""
        first, last = np.searchsorted(self.time_us, [start_us, end_us])
        return Arrivals(self.time_us[first:last], self.flow[first:last], self.id[first:last])

    @staticmethod
    def concatenate(parts: list[Arrivals]) -> Arrivals:
        return Arrivals(
            np.concatenate([np.empty(0, np.int64), *(part.time_us for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.flow for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.id for part in parts)]),
        )


_MICROSECONDS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
}
_DURATION_US = Quantity("microseconds", 0, 1e13)
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def traffic_time_us(text: str) -> int:
    """Microseconds in a text such as ``60 s`` or ``1.5 min``."""
    match = _DURATION.fullmatch(text)
    if not match or match[2].lower() not in _MICROSECONDS:
        raise SetupError(f"'{text}' is not a duration; write a number and us, ms, s, min or h, as in '60 s'")
    value_us = float(match[1]) * _MICROSECONDS[match[2].lower()]
    _DURATION_US.check(value_us, f"'{text}'")
    return round(value_us)


@dataclass(frozen=True)
class RatePhases:
    """A mean rate for each phase; a phase lasts until the next one starts, and the first starts at 0."""

    starts_us: tuple[int, ...]
    tuples_per_second: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.starts_us or len(self.starts_us) != len(self.tuples_per_second) or self.starts_us[0] != 0:
            raise SetupError("rate phases need one rate for every start, and the first start is 0")
        if any(later <= earlier for earlier, later in pairwise(self.starts_us)):
            raise SetupError("rate phases must be written in order of time, each later than the one before")
        for rate in self.tuples_per_second:
            RATE.check(rate, f"a rate of {rate:g}")

    @staticmethod
    def constant(tuples_per_second: float) -> RatePhases:
        return RatePhases((0,), (float(tuples_per_second),))

    @staticmethod
    def parse(text: str) -> RatePhases:
        """Read ``500`` or ``500, 2000 from 60 s, 8000 from 2 min``."""
        refusal = SetupError(f"'{text}' is not a rate; write '500' or '500, 2000 from 60 s'")
        starts, rates = [], []
        for index, phase in enumerate(text.split(",")):
            rate, separator, start = phase.partition(" from ")
            if bool(separator) == (index == 0):
                raise refusal
            starts.append(traffic_time_us(start) if separator else 0)
            try:
                rates.append(float(rate))
            except ValueError:
                raise refusal from None
        return RatePhases(tuple(starts), tuple(rates))

    @property
    def highest(self) -> float:
        return max(self.tuples_per_second)

    def at(self, times_us: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rate at each time, in tuples per second."""
        phase = np.searchsorted(np.asarray(self.starts_us), times_us, side="right") - 1
        return np.asarray(self.tuples_per_second)[phase]

    def expected(self, start_us: int, end_us: int) -> float:
        """The mean number of tuples in ``[start_us, end_us)``."""
        starts = np.clip([*self.starts_us, end_us], start_us, max(start_us, end_us))
        return float(np.diff(starts) @ np.asarray(self.tuples_per_second)) / 1e6


@dataclass(frozen=True)
class TruncatedPareto:
    """Density proportional to ``x ** -(shape + 1)`` on ``[shortest, longest]``.

    An untruncated Pareto of shape 1.2 has a mean of six times its minimum, but the average of a million
    values typically falls short of it by 8 %, so a generator calibrated by that mean misses its rate. With a
    longest value the mean is exact, and traffic stays self-similar up to that scale.
    """

    shape: float
    shortest: float
    longest: float

    def __post_init__(self) -> None:
        SHAPE.check(self.shape, f"a Pareto shape of {self.shape:g}")
        if not 0 < self.shortest < self.longest:
            bounds = f"durations from {self.shortest:g} to {self.longest:g}"
            raise SetupError(f"{bounds} are not an interval above 0")

    @property
    def mean(self) -> float:
        ratio = self.shortest / self.longest
        if self.shape == 1:
            return float(-self.shortest * np.log(ratio) / (1 - ratio))
        untruncated = self.shortest * self.shape / (self.shape - 1)
        return float(untruncated * (1 - ratio ** (self.shape - 1)) / (1 - ratio**self.shape))

    def at(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """The quantiles of numbers in ``[0, 1)``."""
        return self._quantile(self.shape, uniform)

    def residual_at(self, uniform: NDArray[np.float64], position: NDArray[np.float64]) -> NDArray[np.float64]:
        """The remainder of a duration observed at a random moment.

        A random moment falls into a duration in proportion to its length, which takes one off the shape, and
        at a uniform ``position`` within it.
        """
        return position * self._quantile(self.shape - 1, uniform)

    def _quantile(self, shape: float, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = self.longest / self.shortest
        if shape == 0:
            return np.asarray(self.shortest * ratio**uniform)
        return np.asarray(self.shortest * (1 - uniform * (1 - ratio**-shape)) ** (-1 / shape))
