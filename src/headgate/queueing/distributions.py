"""Distributions of M/G/1 queues with discrete service times, inverted from their transforms.

Time is divided into units of which all service times are multiples. A service of m units is then a batch of
m unit services, and an arrival finds at most k units of work with the probability that at most k unit
services are in the system. So waiting times and queue lengths follow from one inversion, by a Fourier
transform on the unit circle; the slowly decaying geometric tail is subtracted before and added afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.service_times import Discrete

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

# between units lies a polynomial of degree 5: its error is below 1e-11 if no more than this arrives in one
_ARRIVALS_PER_UNIT = 1 / 16
# times of three digits have a common unit that is not finer than this
_FINEST_EXACT = 1024
# others are moved to a unit about as fine as this, keeping their mean
_FINE = 384
_MOST_UNITS = 1 << 16
_MOST_POINTS = 1 << 20
_EXACT = 1e-9
_SATURATED = 1e-7
# smaller probabilities do not matter; the rounding error of a number near 1
_NEGLIGIBLE = 1e-10
_ROUNDING = 1e-16


@dataclass(frozen=True)
class Tail:
    """P(W > t) is ``chance * exp(-decay * t)`` but for terms that vanish much sooner."""

    chance: float
    decay: float


def tail_of(rate: float, service: Discrete) -> Tail:
    """The tail of the waiting time: the root of ``rate (E[exp(s S)] - 1) = s`` nearest to 0."""
    probabilities, seconds = np.array([point for point in service.points if point[0] > 0]).T
    mean, second, _ = service.moments
    utilisation = rate * mean
    # to the right of the root; from there Newton's steps on a convex function never overshoot
    s = 2 * (1 - utilisation) / (rate * second)
    if is_saturated(utilisation):
        return Tail(1.0, s)
    for _ in range(200):
        powers = s * seconds
        highest = float(powers.max())
        weights = probabilities * np.exp(powers - highest)
        total = float(weights.sum())
        # logarithms, since exp(s S) may exceed what floats hold, and near 0 without loss of digits
        log_transform = (
            math.log(total) + highest if highest > 1 else math.log1p(float(probabilities @ np.expm1(powers)))
        )
        value = log_transform - math.log1p(s / rate)
        slope = float(weights @ seconds) / total - 1 / (rate + s)
        step = value / slope
        s -= step
        # the next step would be its square
        if abs(step) <= 1e-9 * s:
            break
    derivative = float(probabilities @ (seconds * np.exp(s * seconds)))
    return Tail((1 - utilisation) / (rate * derivative - 1), s)


def is_saturated(utilisation: float) -> bool:
    """Whether waits are exponential to all digits: the limit of heavy traffic."""
    return 1 - utilisation < _SATURATED


@dataclass(frozen=True)
class Units:
    """Service times in whole units of ``unit_s``, and the probability of each."""

    unit_s: float
    counts: NDArray[np.int64]
    probabilities: Floats

    @property
    def service(self) -> Discrete:
        seconds = (self.counts * self.unit_s).tolist()
        return Discrete(tuple(zip(self.probabilities.tolist(), seconds, strict=True)))


def units_of(rate: float, service: Discrete) -> Units:
    """The coarsest unit that divides all service times and is fine enough; else one that nearly does."""
    probabilities, seconds = np.array([point for point in service.points if point[0] > 0]).T
    longest_s = service.longest_s
    wanted = min(_MOST_UNITS, max(1, math.ceil(rate * longest_s / _ARRIVALS_PER_UNIT)))
    ratios = seconds / longest_s
    candidates = np.arange(1, _FINEST_EXACT + 1)
    places = np.multiply.outer(ratios, candidates)
    exact = np.flatnonzero(np.abs(places - np.rint(places)).max(axis=0) < _EXACT)
    if len(exact):
        divisor = int(candidates[exact[0]])
        count = divisor * max(1, math.ceil(wanted / divisor))
        return Units(longest_s / count, np.rint(ratios * count).astype(np.int64), probabilities)
    return _split(max(wanted, _FINE), ratios, probabilities, longest_s)


def _split(least: int, ratios: Floats, probabilities: Floats, longest_s: float) -> Units:
    """Divide every time between the two units around it, keeping its mean."""
    candidates = np.arange(least, least + _FINE)
    # a time next to a unit must not count as almost a whole unit above another
    shares = (np.multiply.outer(ratios, candidates) + _EXACT) % 1.0
    # what the shares add to the second moment
    added = probabilities @ (shares * (1 - shares)) / candidates.astype(np.float64) ** 2
    count = int(candidates[added.argmin()])
    places = ratios * count
    below = np.floor(places + _EXACT)
    share = np.maximum(places - below, 0.0)
    counts = np.concatenate([below, below + 1]).astype(np.int64)
    split = np.concatenate([probabilities * (1 - share), probabilities * share])
    used = split > 0
    return Units(longest_s / count, counts[used], split[used])


def exceeding(
    arriving_less_one: Callable[[int], Complexes], utilisation: float, mean: float, tail: Tail, points: int
) -> Floats:
    """P(L > k) for k = 0, 1, ..., up to where nothing but the tail is left.

    L is the number in system of a queue; ``arriving_less_one`` gives the generating function of what arrives
    during a service on ``circle_less_one(points)``, less 1, which near z = 1 is known better than itself.
    ``tail`` gives P(L > k) for large k, with k in place of the time.
    """
    # close to saturation the chance of the tail and the mean are known to fewer digits
    negligible = _NEGLIGIBLE + _ROUNDING * (100 / (1 - utilisation) + mean)
    while True:
        arriving, below_one = arriving_less_one(points), -circle_less_one(points)
        # both parts are infinite at z = 1, their difference is the mean
        below_one[0] = 1
        chances = 1 / below_one - (1 - utilisation) * (1 + arriving) / (arriving + below_one)
        chances[0] = mean
        below_one[0] = 0
        # 1 - z exp(-decay), without the loss of digits near z = 1
        fading = math.exp(-tail.decay)
        chances -= tail.chance / (fading * below_one - math.expm1(-tail.decay))
        rest = np.fft.irfft(chances, points)
        last = np.flatnonzero(np.abs(rest) > negligible)
        # if it has not died out well before the end, what lies beyond is mixed into it
        if not len(last) or last[-1] < 0.9 * points or points >= _MOST_POINTS:
            break
        points *= 2
    k = np.arange(min(points, int(last[-1]) + 2 if len(last) else 1))
    return np.asarray(np.clip(rest[: len(k)] + tail.chance * np.exp(-tail.decay * k), 0.0, 1.0))


def circle_less_one(points: int) -> Complexes:
    """z - 1 on the lower half of the unit circle, from z = 1 to z = -1."""
    half = np.pi * np.arange(points // 2 + 1) / points
    sine, cosine = np.sin(half), np.cos(half)
    return np.asarray(-2 * sine * (sine + 1j * cosine))


def exp_less_one(power: Complexes) -> Complexes:
    """exp(power) - 1; several times as fast as numpy's own for complex numbers."""
    real, imaginary = power.real, power.imag
    sine = np.sin(imaginary / 2)
    grown = np.expm1(real)
    less = np.empty_like(power)
    less.real = grown - 2 * (1 + grown) * sine * sine
    less.imag = (1 + grown) * np.sin(imaginary)
    return less


def even_length(least: float) -> int:
    """An even number of points, not below, of which a Fourier transform is quick."""
    from scipy.fft import next_fast_len

    return 2 * int(next_fast_len(max(32, math.ceil(least / 2)), real=True))


def first_true(holds: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The least number from which on a condition holds, by bisection between ``low`` and ``high``."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class WaitCurve:
    """The distribution of the waiting time at multiples of ``unit_s``, polynomials in between."""

    unit_s: float
    cdf: Floats
    pieces: Floats
    tail: Tail

    @staticmethod
    def of(rate: float, service: Discrete) -> WaitCurve:
        """Invert the transform of a queue whose utilisation is above 0 and below 1."""
        utilisation = rate * service.moments[0]
        if is_saturated(utilisation):
            return WaitCurve(1.0, np.array([1 - utilisation]), np.empty((0, 6)), tail_of(rate, service))
        units = units_of(rate, service)
        on_units = units.service
        tail = tail_of(rate, on_units)
        a_unit = Tail(tail.chance, tail.decay * units.unit_s)
        longest = int(units.counts.max())
        exceeded = exceeding(
            lambda points: _batches(rate * units.unit_s, units, points),
            rate * on_units.moments[0],
            _mean_units(rate, units),
            a_unit,
            even_length(10 * longest),
        )
        # a service ends a slope: the table has to reach beyond the first of them
        if len(exceeded) <= longest:
            more = np.arange(len(exceeded), longest + 2)
            exceeded = np.concatenate([exceeded, tail.chance * np.exp(-a_unit.decay * more)])
        cdf = np.maximum.accumulate(1 - exceeded)
        return WaitCurve(units.unit_s, cdf, _pieces(rate * units.unit_s, units, cdf), tail)

    def at(self, t: float) -> float:
        """P(W <= t)."""
        if t < 0:
            return 0.0
        place = t / self.unit_s
        index = int(place)
        if index >= len(self.pieces):
            return 1 - self.tail.chance * math.exp(-self.tail.decay * t)
        return _polynomial(self.pieces[index].tolist(), place - index)

    def percentile(self, p: float) -> float:
        if p <= self.cdf[0]:
            return 0.0
        if p > self.cdf[-1]:
            return math.log(self.tail.chance / (1 - p)) / self.tail.decay
        index = int(np.searchsorted(self.cdf, p)) - 1
        piece = self.pieces[index].tolist()
        return (index + first_true(lambda x: _polynomial(piece, x) >= p, 0.0, 1.0, 45)) * self.unit_s


def _polynomial(piece: list[float], x: float) -> float:
    a, b, c, d, e, f = piece
    return a + x * (b + x * (c + x * (d + x * (e + x * f))))


def _batches(arrivals: float, units: Units, points: int) -> Complexes:
    """The generating function, less 1, of the units of work that arrive in a unit."""
    half = circle_less_one(points)
    circle = np.concatenate([half, half[-2:0:-1].conj()])
    places = np.arange(points // 2 + 1)
    work = np.zeros_like(half)
    for count, probability in zip(units.counts.tolist(), units.probabilities.tolist(), strict=True):
        # powers of a point on the circle are points on the circle
        work += probability * circle[(count * places) % points]
    return exp_less_one(arrivals * work)


def _mean_units(rate: float, units: Units) -> float:
    """The mean of the units in system: as of an M/G/1 queue in which batches of units arrive."""
    arrivals = rate * units.unit_s
    mean = float(units.probabilities @ units.counts)
    second = float(units.probabilities @ units.counts.astype(np.float64) ** 2)
    utilisation = arrivals * mean
    # E[A (A - 1)] of the units A that arrive in a unit
    factorial = arrivals * (second - mean) + utilisation**2
    return utilisation + factorial / (2 * (1 - utilisation))


def _pieces(arrivals: float, units: Units, cdf: Floats) -> Floats:
    """Polynomials with the values, slopes and curvatures that the distribution has at both ends of each unit.

    F' = rate (F(t) - sum p F(t - d)), and so on; a step of F at 0 makes the two sides of a unit differ.
    """
    slope_right, slope_left = _derivative(arrivals, units, cdf, cdf)
    bend_right, bend_left = _derivative(arrivals, units, slope_right, slope_left)
    begin, slope, bend = cdf[:-1], slope_right[:-1], bend_right[:-1] / 2
    rise = cdf[1:] - begin - slope - bend
    turn = slope_left[1:] - slope - 2 * bend
    curl = bend_left[1:] / 2 - bend
    cubic = 10 * rise - 4 * turn + curl
    quartic = -15 * rise + 7 * turn - 2 * curl
    return np.stack([begin, slope, bend, cubic, quartic, 6 * rise - 3 * turn + curl], axis=1)


def _derivative(arrivals: float, units: Units, right: Floats, left: Floats) -> tuple[Floats, Floats]:
    from_right, from_left = right.copy(), left.copy()
    for count, probability in zip(units.counts.tolist(), units.probabilities.tolist(), strict=True):
        from_right[count:] -= probability * right[: len(right) - count]
        from_left[count + 1 :] -= probability * left[1 : len(left) - count]
    return arrivals * from_right, arrivals * from_left


@dataclass(frozen=True)
class CountCurve:
    """The distribution of the number in system: P(N > n) as a table, then geometric."""

    exceeded: list[float]
    tail: Tail

    @staticmethod
    def of(rate: float, service: Discrete, mean: float) -> CountCurve:
        wait = tail_of(rate, service)
        tail = Tail(wait.chance, math.log1p(wait.decay / rate))
        probabilities, seconds = np.array(service.points).T

        def arriving(points: int) -> Complexes:
            powers = np.multiply.outer(circle_less_one(points), rate * seconds)
            return np.asarray(exp_less_one(powers) @ probabilities)

        utilisation = rate * service.moments[0]
        if is_saturated(utilisation):
            return CountCurve([utilisation], tail)
        points = even_length(32 * max(1.0, rate * service.longest_s))
        return CountCurve(exceeding(arriving, utilisation, mean, tail, points).tolist(), tail)

    def above(self, n: int) -> float:
        """P(N > n)."""
        if n < 0:
            return 1.0
        if n < len(self.exceeded):
            return self.exceeded[n]
        return self.tail.chance * math.exp(-self.tail.decay * n)

    def percentile(self, p: float) -> int:
        if 1 - p >= self.exceeded[-1]:
            return next(n for n, chance in enumerate(self.exceeded) if chance <= 1 - p)
        return math.ceil(math.log(self.tail.chance / (1 - p)) / self.tail.decay)
