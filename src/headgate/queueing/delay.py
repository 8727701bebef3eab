"""Delays along a path: what they add up to, and their percentiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from headgate.queueing.faults import check_share
from headgate.queueing.mg1 import MG1


class Latency(Protocol):
    """The latency of results on a path."""

    @property
    def mean_s(self) -> float:
        """On average."""
        ...

    def percentile(self, p: float) -> float:
        """What a share ``p`` of all results stays within, in seconds."""
        ...


@dataclass(frozen=True)
class Delay:
    """A delay known by its first two moments: with ``chance_none`` nothing, else gamma; plus a fixed time."""

    mean_s: float
    var_s: float
    fixed_s: float = 0.0
    chance_none: float = 0.0

    def __add__(self, other: Delay) -> Delay:
        """One after the other, as if they did not depend on each other."""
        return Delay(
            self.mean_s + other.mean_s,
            self.var_s + other.var_s,
            self.fixed_s + other.fixed_s,
            self.chance_none * other.chance_none,
        )

    def percentile(self, p: float) -> float:
        """What a share ``p`` stays within."""
        p = check_share("p", p)
        if p <= self.chance_none or self.mean_s <= self.fixed_s:
            return self.fixed_s
        shape, scale = self._gamma()
        if shape == math.inf:
            return self.mean_s
        within = (p - self.chance_none) / (1 - self.chance_none)
        from scipy.special import gammaincinv

        return self.fixed_s + float(gammaincinv(shape, within)) * scale

    def cdf(self, t: float) -> float:
        """Chance to stay within ``t`` seconds."""
        if t < self.fixed_s:
            return 0.0
        if self.mean_s <= self.fixed_s:
            return 1.0
        shape, scale = self._gamma()
        if shape == math.inf:
            return float(t >= self.mean_s)
        from scipy.special import gammainc

        return self.chance_none + (1 - self.chance_none) * float(gammainc(shape, (t - self.fixed_s) / scale))

    def _gamma(self) -> tuple[float, float]:
        """Shape and scale of the part that is not nothing; of shape inf if it is constant."""
        some = 1 - self.chance_none
        mean_s = (self.mean_s - self.fixed_s) / some
        var_s = (self.var_s + (self.mean_s - self.fixed_s) ** 2) / some - mean_s**2
        if var_s <= 1e-12 * mean_s**2:
            return math.inf, 0.0
        return mean_s**2 / var_s, var_s / mean_s


def fixed(seconds: float) -> Delay:
    """A constant delay."""
    return Delay(seconds, 0.0, seconds, 1.0)


@dataclass(frozen=True)
class QueueDelay:
    """The wait in an M/G/1 queue, then a fixed time; behind a pool one waits ``chance`` times as often."""

    queue: MG1
    fixed_s: float = 0.0
    chance: float = 1.0

    @property
    def mean_s(self) -> float:
        """On average."""
        return self.chance * self.queue.mean_wait + self.fixed_s

    def percentile(self, p: float) -> float:
        """What a share ``p`` stays within."""
        # P(W > t) is chance times that of the queue
        within = 1 - (1 - check_share("p", p)) / self.chance if self.chance > 0 else 0.0
        return self.fixed_s + (self.queue.wait_percentile(within) if within > 0 else 0.0)

    @property
    def delay(self) -> Delay:
        """By its moments alone, to be added to others."""
        mean_s = self.queue.mean_wait
        second = self.queue.var_wait + mean_s**2
        waits_s = self.chance * mean_s
        waiting = self.chance * self.queue.utilisation
        return Delay(waits_s, self.chance * second - waits_s**2, 0.0, 1 - waiting) + fixed(self.fixed_s)


@dataclass(frozen=True)
class Uniform:
    """Equally likely between two times."""

    least_s: float
    most_s: float

    @property
    def mean_s(self) -> float:
        """On average."""
        return (self.least_s + self.most_s) / 2

    def percentile(self, p: float) -> float:
        """What a share ``p`` stays within."""
        return self.least_s + check_share("p", p) * (self.most_s - self.least_s)

    @property
    def delay(self) -> Delay:
        """By its moments alone, to be added to others."""
        return Delay(self.mean_s, (self.most_s - self.least_s) ** 2 / 12, self.least_s)


def order_delay(streams: tuple[tuple[float, float], ...]) -> Delay | None:
    """The wait for the next tuple of all streams given, each a rate and how long it is waited for at most."""
    if not streams:
        return None
    # the longest wait of several is that for the slowest, or little more
    rate, patience_s = min(streams)
    if rate * patience_s < 1e-9:
        return fixed(patience_s)
    left = math.exp(-rate * patience_s)
    mean_s = (1 - left) / rate
    second = 2 * (1 - left * (1 + rate * patience_s)) / rate**2
    return Delay(mean_s, second - mean_s**2)
