"""Queues of measured service times: their distribution, stalls of the server, and waits of given arrivals."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.distributions import first_true
from headgate.queueing.mg1 import MG1
from headgate.queueing.service_times import Discrete, ParameterError, check_share

Floats = NDArray[np.float64]

# times that differ by no more than this factor count as their mean, which changes E[S^2] by some 1e-5 of it
_ALIKE = 1.02
# times that stand for the distribution of what is left of a stall
_RESTS = 256
_STEPS = 40


def service_of(seconds: Floats) -> Discrete:
    """The distribution of measured times, the rare long ones included; the mean is exact."""
    times_s = np.asarray(seconds, np.float64)
    if not len(times_s) or not (times_s > 0).all() or not np.isfinite(times_s).all():
        raise ParameterError("measured service times are wrong; give one or more, all above 0 s")
    shortest_s = times_s.min()
    bins = np.floor(np.log(times_s / shortest_s) / math.log(_ALIKE)).astype(np.int64)
    counts, sums = np.bincount(bins), np.bincount(bins, times_s)
    used = counts > 0
    means, shares = sums[used] / counts[used], counts[used] / len(times_s)
    return Discrete(tuple(zip(shares.tolist(), means.tolist(), strict=True)))


def waits_of(arrivals_s: Floats, services_s: Floats, first_wait_s: float = 0.0) -> Floats:
    """Waiting times of given arrivals under first come first served, by Lindley's recursion."""
    # W(n + 1) = max(0, W(n) + S(n) - A(n)): a random walk less its minimum so far
    walk = np.concatenate([[0.0], np.cumsum(services_s[:-1] - np.diff(arrivals_s))])
    return np.asarray(walk - np.minimum(np.minimum.accumulate(walk), -first_wait_s))


@dataclass(frozen=True)
class Stalls:
    """Interruptions that begin while a server is idle: how many per second of all time, and their lengths.

    One that begins during a service makes that service longer, and is part of its time.
    """

    per_s: float
    lengths: Discrete

    @staticmethod
    def of(lengths_s: Floats, within_s: float) -> Stalls | None:
        """Those measured in a time; None if there were none."""
        return Stalls(len(lengths_s) / within_s, service_of(lengths_s)) if len(lengths_s) else None


@dataclass(frozen=True)
class StalledQueue:
    """An M/G/1 queue whose server may stall while it is idle.

    A stall is work that nothing but an idle server starts. If U is the work in the system and V the length
    of a stall, the balance of exp(-s U) gives the transform of an M/G/1 queue times (1 - q) + q V_e(s). Here
    q is stalls per second * E[V] / (1 - utilisation), and V_e what is left of a stall at a random instant of
    it. So a tuple waits as in the queue without stalls, and with probability q for the rest of a stall too.
    """

    queue: MG1
    stalls: Stalls | None = None

    @property
    def chance(self) -> float:
        """That a tuple waits for a stall."""
        if self.stalls is None:
            return 0.0
        return min(1.0, self.stalls.per_s * self.stalls.lengths.moments[0] / (1 - self.queue.utilisation))

    @property
    def mean_wait(self) -> float:
        if self.stalls is None:
            return self.queue.mean_wait
        second = self.stalls.lengths.moments[1]
        return self.queue.mean_wait + self.stalls.per_s * second / (2 * (1 - self.queue.utilisation))

    @property
    def mean_in_system(self) -> float:
        return self.queue.rate * (self.mean_wait + self.queue.service.moments[0])

    def wait_cdf(self, t: float) -> float:
        without = self.queue.wait_cdf(t)
        if self.stalls is None:
            return without
        some = sum(self.queue.wait_cdf(t - rest_s) for rest_s in self._rests_s.tolist()) / _RESTS
        return (1 - self.chance) * without + self.chance * some

    def wait_percentile(self, p: float) -> float:
        p = check_share("p", p)
        low_s = self.queue.wait_percentile(p)
        if self.stalls is None:
            return low_s
        high_s = low_s + self.stalls.lengths.longest_s
        if self.wait_cdf(low_s) >= p:
            return low_s
        return first_true(lambda t: self.wait_cdf(t) >= p, low_s, high_s, _STEPS)

    def cdf_in_system(self, n: int) -> float:
        """P(N <= n): those who arrive while a tuple waits for a stall are behind it, too."""
        without = self.queue.cdf_in_system(n)
        if self.stalls is None:
            return without
        fewer = np.array([self.queue.cdf_in_system(n - k) for k in range(n + 1)])
        return (1 - self.chance) * without + self.chance * float(self._behind_stalls(n) @ fewer)

    def percentile_in_system(self, p: float) -> int:
        low = high = self.queue.percentile_in_system(p)
        while self.cdf_in_system(high) < p:
            low, high = high + 1, 2 * high + 1
        return bisect_left(range(high), True, low, high, key=lambda n: self.cdf_in_system(n) >= p)

    def _behind_stalls(self, most: int) -> Floats:
        """Probabilities of 0 to ``most`` arrivals during the rest of a stall."""
        from scipy.special import gammaln

        counts, arriving = np.arange(most + 1)[:, None], self.queue.rate * self._rests_s
        chances = np.exp(counts * np.log(arriving) - arriving - gammaln(counts + 1))
        return np.asarray(chances.mean(axis=1))

    @cached_property
    def _rests_s(self) -> Floats:
        """What is left of a stall at a random instant of it, as equally likely times.

        The chance that it is at most x is the mean of min(V, x), by that of V: lines between the lengths.
        """
        assert self.stalls is not None
        chances, lengths_s = np.array(sorted(self.stalls.lengths.points, key=lambda point: point[1])).T
        at_least = np.cumsum(chances[::-1])[::-1]
        shorter = np.cumsum(np.diff(lengths_s, prepend=0.0) * at_least) / self.stalls.lengths.moments[0]
        shares = (np.arange(_RESTS) + 0.5) / _RESTS
        return np.asarray(np.interp(shares, np.append(0.0, shorter), np.append(0.0, lengths_s)))
