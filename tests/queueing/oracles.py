"""Answers that do not come from the package: sums in many digits, a Markov chain, a simulation of tuples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

Points = Sequence[tuple[float, float]]


def erlang_wait_cdf(rate: float, seconds: float, t: float) -> float:
    """P(W <= t) of M/D/1: an alternating sum whose terms are huge, so digits are what it takes."""
    with localcontext() as context:
        context.prec = 60 + int(2 * rate * t)
        total, k = Decimal(0), 0
        while k * Decimal(seconds) <= Decimal(t):
            x = Decimal(rate) * (k * Decimal(seconds) - Decimal(t))
            total += (x**k if k else Decimal(1)) / math.factorial(k) * (-x).exp()
            k += 1
        return float((1 - Decimal(rate) * Decimal(seconds)) * total)


def wait_cdf_of_two(rate: float, points: Points, t: float) -> float:
    """P(W <= t) of two service times: the same kind of sum, over both."""
    (p, a), (q, b) = ((Decimal(p), Decimal(s)) for p, s in points)
    with localcontext() as context:
        context.prec = 60 + int(2 * rate * t)
        per_s, at = Decimal(rate), Decimal(t)
        total, i = Decimal(0), 0
        while i * a <= at:
            j = 0
            while i * a + j * b <= at:
                x = per_s * (i * a + j * b - at)
                ways = p**i * q**j / (math.factorial(i) * math.factorial(j))
                total += ways * (x ** (i + j) if i + j else Decimal(1)) * (-x).exp()
                j += 1
            i += 1
        return float((1 - per_s * (p * a + q * b)) * total)


def embedded_pmf(rate: float, points: Points, count: int) -> NDArray[np.float64]:
    """P(N = n) by the embedded Markov chain, balancing the flow across each cut: only positive terms."""
    most = int(rate * max(s for _, s in points) * 3 + 80) + count
    arriving = np.zeros(most)
    for p, s in points:
        logs = np.arange(most) * math.log(rate * s) - rate * s - [math.lgamma(k + 1) for k in range(most)]
        arriving += p * np.exp(logs)
    # more than j arrive during a service
    more = np.append(np.cumsum(arriving[::-1])[::-1][1:], 0.0)
    pmf = np.zeros(count)
    pmf[0] = 1 - rate * sum(p * s for p, s in points)
    for n in range(1, count):
        flow = pmf[0] * more[n - 1] + pmf[1:n] @ more[n - 1 : 0 : -1]
        pmf[n] = flow / arriving[0]
    return pmf


@dataclass(frozen=True)
class Estimate:
    """A mean, and how far it may be off with a chance of one in a thousand."""

    mean: float
    within: float


@dataclass(frozen=True)
class Simulated:
    """Waiting times, times in system and the number found, by tuple."""

    waits_s: NDArray[np.float64]
    times_s: NDArray[np.float64]
    found: NDArray[np.int64]

    def estimate(self, values: NDArray[np.float64], batches: int = 25) -> Estimate:
        """By means of batches, which hardly depend on each other."""
        means = values[: len(values) // batches * batches].reshape(batches, -1).mean(axis=1)
        # 0.9995 of Student's t with 24 degrees of freedom is 3.745
        return Estimate(float(means.mean()), 3.745 * float(means.std(ddof=1)) / math.sqrt(batches))


def simulated(rate: float, services_s: NDArray[np.float64], seed: int) -> Simulated:
    """Tuple by tuple: a service begins when the tuple has come and the one before it is done."""
    generator = np.random.default_rng(seed)
    arrivals_s = np.cumsum(generator.exponential(1 / rate, len(services_s)))
    # done[n] = max(arrival[n], done[n - 1]) + service[n]
    done_before = np.cumsum(services_s)
    starts = np.maximum.accumulate(arrivals_s - (done_before - services_s))
    done_s = starts + done_before
    numbers = np.arange(len(services_s))
    # a tuple that takes no time does not count itself as gone before it came
    found = numbers - np.minimum(numbers, np.searchsorted(done_s, arrivals_s, side="right"))
    kept = slice(len(services_s) // 10, None)
    return Simulated(
        (done_s - services_s - arrivals_s)[kept], (done_s - arrivals_s)[kept], found[kept].astype(np.int64)
    )
