"""The two distributions of a queue as tables with exact tails: waiting time and number in system."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headgate.queueing.lattice import (
    Complexes,
    Floats,
    Tail,
    Units,
    circle_less_one,
    even_length,
    exceeding,
    exp_less_one,
    is_saturated,
    tail_of,
    units_of,
)
from headgate.queueing.service import Discrete


@dataclass(frozen=True)
class WaitCurve:
    """The distribution of the waiting time at multiples of ``unit_s``, polynomials in between."""

    unit_s: float
    cdf: Floats
    pieces: Floats
    tail: Tail

    @staticmethod
    def of(rate: float, service: Discrete) -> WaitCurve:
        """Invert the transform of a queue that is not overloaded and has something to do."""
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
        """The least t with P(W <= t) >= p."""
        if p <= self.cdf[0]:
            return 0.0
        if p > self.cdf[-1]:
            return math.log(self.tail.chance / (1 - p)) / self.tail.decay
        index = int(np.searchsorted(self.cdf, p)) - 1
        piece = self.pieces[index].tolist()
        low, high = 0.0, 1.0
        for _ in range(45):
            middle = (low + high) / 2
            if _polynomial(piece, middle) < p:
                low = middle
            else:
                high = middle
        return (index + high) * self.unit_s


def _polynomial(piece: list[float], x: float) -> float:
    a, b, c, d, e, f = piece
    return a + x * (b + x * (c + x * (d + x * (e + x * f))))


def _batches(arrivals: float, units: Units, points: int) -> Complexes:
    """What arrives in a unit, counted in units of work: its generating function less 1."""
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
        """Invert the transform of a queue that is not overloaded and has something to do."""
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
        """The least n with P(N <= n) >= p."""
        if 1 - p >= self.exceeded[-1]:
            return next(n for n, chance in enumerate(self.exceeded) if chance <= 1 - p)
        return math.ceil(math.log(self.tail.chance / (1 - p)) / self.tail.decay)
