"""Service times: what a queue needs to know of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headgate.queueing.faults import WrongFigure, check_amount

Points = tuple[tuple[float, float], ...]
# so far may the sum of probabilities be from 1
_ROUNDING = 1e-9
# third powers of shorter times are no numbers any more
_SHORTEST_S = 1e-90


@dataclass(frozen=True)
class Exponential:
    """Exponential times of mean ``mean_s``."""

    mean_s: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean_s", check_amount("mean_s", self.mean_s))

    @property
    def moments(self) -> tuple[float, float, float]:
        """E[S], E[S^2] and E[S^3]."""
        mean_s = self.mean_s
        return mean_s, 2 * mean_s**2, 6 * mean_s**3

    def faster(self, factor: float) -> Exponential:
        """The same work on a processor ``factor`` times as fast."""
        return Exponential(self.mean_s / factor)

    def cdf(self, t: float) -> float:
        """Chance that a service takes ``t`` seconds at most."""
        if t < 0:
            return 0.0
        return 1.0 if self.mean_s == 0 else -math.expm1(-t / self.mean_s)


@dataclass(frozen=True)
class Discrete:
    """Finitely many times, each with its probability: ``points`` are (probability, seconds)."""

    points: Points
    moments: tuple[float, float, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        total = mean = second = third = 0.0
        for probability, seconds in self.points:
            # also False where one is not a number
            if not (
                0 <= probability <= 1 + _ROUNDING and (seconds == 0 or _SHORTEST_S <= seconds < math.inf)
            ):
                raise _wrong_point(probability, seconds)
            total += probability
            moment = probability * seconds
            mean += moment
            moment *= seconds
            second += moment
            third += moment * seconds
        if not abs(total - 1) <= _ROUNDING:
            raise WrongFigure(f"probabilities of service times sum to {total:.10g}; they must sum to 1")
        object.__setattr__(self, "moments", (mean, second, third))

    @cached_property
    def longest_s(self) -> float:
        """The longest time that has a chance at all."""
        return max(seconds for probability, seconds in self.points if probability > 0)

    def faster(self, factor: float) -> Discrete:
        """The same work on a processor ``factor`` times as fast."""
        return Discrete(tuple((probability, seconds / factor) for probability, seconds in self.points))

    def cdf(self, t: float) -> float:
        """Chance that a service takes ``t`` seconds at most."""
        return sum(probability for probability, seconds in self.points if seconds <= t)


Service = Discrete | Exponential


def constant(seconds: float) -> Discrete:
    """Every service takes the same time."""
    return Discrete(((1.0, check_amount("seconds", seconds)),))


def service_of(given: Service | Iterable[Sequence[float]]) -> Service:
    """A service from what a caller has written: pairs of (probability, seconds), or a service itself."""
    if isinstance(given, (Discrete, Exponential)):
        return given
    try:
        return Discrete(tuple([(probability, seconds) for probability, seconds in given]))
    except (TypeError, ValueError) as error:
        if isinstance(error, WrongFigure):
            raise
        raise WrongFigure(f"service {given!r} is wrong; write [(probability, seconds), ...]") from None


def _wrong_point(probability: float, seconds: float) -> WrongFigure:
    try:
        if not 0 <= probability <= 1 + _ROUNDING:
            return WrongFigure(f"probability {probability!r} of a service time is wrong; write 0 to 1")
    except TypeError:
        return WrongFigure(f"probability {probability!r} of a service time is no number; write 0 to 1")
    if 0 < seconds < _SHORTEST_S:
        return WrongFigure(f"service time {seconds!r} is too short to be one; write 0")
    return WrongFigure(f"service time {seconds!r} is wrong; write seconds of 0 or more")
