"""Inverse problems: the largest rate or window, or the least capacity, that keeps a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.queueing.faults import Overloaded, WrongFigure, check_amount, check_share
from headgate.queueing.mg1 import MG1
from headgate.queueing.service import Service, service_of

# doubling from 1 gets from any figure to any other
_DOUBLINGS = 200


class Bound(Protocol):
    """Something that a queue has to keep."""

    def kept_by(self, queue: MG1) -> bool:
        """Whether the queue keeps it."""
        ...


@dataclass(frozen=True)
class _TimeBound:
    seconds: float
    percentile: float = 0.99

    def __post_init__(self) -> None:
        check_amount("seconds", self.seconds)
        check_share("percentile", self.percentile)


@dataclass(frozen=True)
class LatencyBound(_TimeBound):
    """A share ``percentile`` of all tuples is done within ``seconds`` of its arrival."""

    def kept_by(self, queue: MG1) -> bool:
        """Whether the queue keeps it."""
        return queue.time_in_system_cdf(self.seconds) >= self.percentile


@dataclass(frozen=True)
class WaitBound(_TimeBound):
    """A share ``percentile`` of all tuples has its turn within ``seconds`` of its arrival."""

    def kept_by(self, queue: MG1) -> bool:
        """Whether the queue keeps it."""
        return queue.wait_cdf(self.seconds) >= self.percentile


@dataclass(frozen=True)
class MemoryBound:
    """All tuples in system take no more than ``bytes`` in a share ``percentile`` of the time."""

    bytes: float
    bytes_per_tuple: float = 64.0
    percentile: float = 0.99

    def __post_init__(self) -> None:
        check_amount("bytes", self.bytes)
        check_share("percentile", self.percentile)
        if check_amount("bytes_per_tuple", self.bytes_per_tuple) == 0:
            raise WrongFigure("bytes_per_tuple = 0 is wrong; write a number above 0")

    def kept_by(self, queue: MG1) -> bool:
        """Whether the queue keeps it."""
        return queue.cdf_in_system(self.bytes / self.bytes_per_tuple) >= self.percentile


def largest_rate(service: Service | Iterable[Sequence[float]], bound: Bound) -> float:
    """The highest rate at which the queue keeps the bound; 0 if it does at none."""
    known = service_of(service)
    mean_s = known.moments[0]
    if mean_s == 0:
        return math.inf
    return largest(lambda rate: MG1(rate, known), bound, limit=1 / mean_s)


def largest_window(queue_with: Callable[[float], MG1], bound: Bound) -> float:
    """The longest window, in seconds or rows, at which the queue that it makes keeps the bound.

    >>> largest_window(lambda s: window_join((100, 100), (s, s), 1e-5, 1e-6), LatencyBound(0.1))
    """
    return largest(queue_with, bound)


def least_capacity(rate: float, service: Service | Iterable[Sequence[float]], bound: Bound) -> float:
    """How many times as fast the server has to be at least; inf if no speed is enough."""
    known = service_of(service)
    slowest = largest(lambda slowness: MG1(rate, known.faster(1 / slowness)), bound)
    return 1 / slowest if slowest > 0 else math.inf


def largest(queue_with: Callable[[float], MG1], bound: Bound, limit: float = math.inf) -> float:
    """The largest setting at which a queue keeps a bound that it breaks at larger ones.

    0 if it keeps it at none, inf if it always does.
    """

    def keeps(setting: float) -> bool:
        try:
            return bound.kept_by(queue_with(setting))
        except Overloaded:
            return False

    return largest_kept(keeps, limit)


def largest_kept(keeps: Callable[[float], bool], limit: float = math.inf, precision: float = 1e-12) -> float:
    """The largest setting, up to a limit, that is kept while larger ones are not; searched from 1 on."""
    low, high = _bracket(keeps, limit)
    if math.isinf(high) or low == 0 or low == limit:
        return high if low > 0 else 0.0
    while high - low > precision * high:
        middle = (low + high) / 2
        if keeps(middle):
            low = middle
        else:
            high = middle
    return low


def _bracket(keeps: Callable[[float], bool], limit: float) -> tuple[float, float]:
    """A setting that is kept (or 0), and a larger one that is not (or the limit, if that is kept)."""
    setting = min(1.0, limit)
    if keeps(setting):
        for _ in range(_DOUBLINGS):
            if setting == limit:
                return limit, limit
            larger = min(2 * setting, limit)
            if not keeps(larger):
                return setting, larger
            setting = larger
        return setting, math.inf
    for _ in range(_DOUBLINGS):
        setting /= 2
        if keeps(setting):
            return setting, 2 * setting
    return 0.0, 2 * setting
