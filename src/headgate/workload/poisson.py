"""Poisson arrivals: one rate, or one rate after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.errors import SetupError
from headgate.workload.times import Times, check_expected, check_positive


@dataclass(frozen=True)
class Poisson:
    """``rate`` tuples a second on average, with exponential gaps, until ``until`` seconds."""

    rate: float
    until: float

    def __post_init__(self) -> None:
        check_positive(rate=self.rate, until=self.until)
        check_expected(self.rate * self.until)

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""
        return _poisson(np.random.default_rng([seed, 0]), self.rate, 0.0, self.until)


@dataclass(frozen=True)
class Phases:
    """Poisson arrivals at one rate after the other, each for its ``seconds``; one number counts for all."""

    rates: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.rates:
            raise SetupError("rates = [] has no phase; write one rate or more, as in [10, 20, 40]")
        if len(self.seconds) not in (1, len(self.rates)):
            raise SetupError(f"{len(self.seconds)} seconds for {len(self.rates)} rates; write one for each")
        for rate in self.rates:
            check_positive(rates=rate)
        for seconds in self.seconds:
            check_positive(seconds=seconds)
        check_expected(max(self.rates) * sum(self.seconds))

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""
        ends = np.cumsum(self.seconds * (len(self.rates) if len(self.seconds) == 1 else 1))
        begins = [0.0, *ends[:-1]]
        return np.concatenate(
            [
                _poisson(np.random.default_rng([seed, number]), rate, begin, end)
                for number, (rate, begin, end) in enumerate(zip(self.rates, begins, ends, strict=True))
            ]
        )


def _poisson(generator: np.random.Generator, rate: float, begin_s: float, end_s: float) -> Times:
    # given their number, the arrivals of a Poisson process lie uniformly
    count = generator.poisson(rate * (end_s - begin_s))
    return np.sort(generator.uniform(begin_s, end_s, count))
