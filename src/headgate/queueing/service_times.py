"""Service times of a queue, and the errors of its parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from headgate.errors import OverloadError, SetupError


class ParameterError(SetupError, ValueError):
    """A rate, probability or time that is out of range; a ValueError too, as library users expect."""


class Overloaded(OverloadError):
    """More work arrives than can be done: queues grow without end, so there is no steady state."""

    def __init__(self, utilisation: float, what: str = "the queue") -> None:
        excess = f"{1 - 1 / utilisation:.1%}" if math.isfinite(utilisation) else "all"
        super().__init__(
            f"{what} is overloaded: utilisation {utilisation:.4g}, below 1 is needed; "
            f"lower the rates by more than {excess}, or add as much capacity"
        )
        self.utilisation = utilisation


def check_amount(name: str, value: float) -> float:
    """The value as a float, unless it is negative, infinite or not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ParameterError(f"{name} = {value!r} is wrong; write a number of 0 or more")
    return number


def check_share(name: str, value: float) -> float:
    """The value as a float, unless it lies outside of 0 up to, but not including, 1."""
    number = check_amount(name, value)
    if number >= 1:
        raise ParameterError(f"{name} = {value!r} is wrong; write a share below 1, as in 0.99")
    return number


Points = tuple[tuple[float, float], ...]
# tolerance for the sum of probabilities
_ROUNDING = 1e-9
# third powers of shorter times underflow
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
        return Exponential(self.mean_s / factor)


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
            raise ParameterError(f"probabilities of service times sum to {total:.10g}; they must sum to 1")
        object.__setattr__(self, "moments", (mean, second, third))

    @cached_property
    def longest_s(self) -> float:
        return max(seconds for probability, seconds in self.points if probability > 0)

    def faster(self, factor: float) -> Discrete:
        return Discrete(tuple((probability, seconds / factor) for probability, seconds in self.points))


Service = Discrete | Exponential


def constant(seconds: float) -> Discrete:
    return Discrete(((1.0, check_amount("seconds", seconds)),))


def as_service(given: Service | Iterable[Sequence[float]]) -> Service:
    """A service from pairs of (probability, seconds), or the service itself."""
    if isinstance(given, (Discrete, Exponential)):
        return given
    try:
        return Discrete(tuple([(probability, seconds) for probability, seconds in given]))
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"service {given!r} is wrong; write [(probability, seconds), ...]") from None


def _wrong_point(probability: float, seconds: float) -> ParameterError:
    try:
        if not 0 <= probability <= 1 + _ROUNDING:
            return ParameterError(f"probability {probability!r} of a service time is wrong; write 0 to 1")
    except TypeError:
        return ParameterError(f"probability {probability!r} of a service time is not a number; write 0 to 1")
    if 0 < seconds < _SHORTEST_S:
        return ParameterError(f"service time {seconds!r} is too short; write 0")
    return ParameterError(f"service time {seconds!r} is wrong; write seconds of 0 or more")


def check_processors(processors: int) -> None:
    if processors != int(processors) or processors < 1:
        raise ParameterError(f"processors = {processors!r} is wrong; write a whole number of 1 or more")


def check_busy(busy: float, processors: int) -> None:
    if busy / processors >= 1:
        what = "one processor" if processors == 1 else f"a pool of {processors} processors"
        raise Overloaded(busy / processors, what)
