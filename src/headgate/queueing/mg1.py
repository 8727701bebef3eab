"""M/G/1 queues, in general and of relational operators; the largest rate or window that keeps a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headgate.queueing.distributions import CountCurve, WaitCurve, first_true
from headgate.queueing.service_times import (
    Discrete,
    Exponential,
    Overloaded,
    ParameterError,
    Service,
    as_service,
    check_amount,
    check_share,
    constant,
)

# a tuple leaves behind those that arrived during its stay; of so many, chance changes only a few per mille
_CROWD = 30_000
# doubling from 1 reaches any number
_DOUBLINGS = 200


@dataclass(frozen=True, init=False)
class MG1:
    """A queue with ``rate`` Poisson arrivals per second, first come first served by one server.

    ``service`` is a list of (probability, seconds), or ``Exponential(mean_s)``. In system is what waits in
    the queue or is served. All times are in seconds. A percentile takes a share, as in
    ``wait_percentile(0.99)``, and is the least value that is not exceeded with that probability.
    Utilisation of 1 or more raises ``Overloaded``.
    """

    rate: float
    service: Service

    def __init__(self, rate: float, service: Service | Iterable[Sequence[float]]) -> None:
        known = as_service(service)
        number = check_amount("rate", rate)
        if number * known.moments[0] >= 1:
            raise Overloaded(number * known.moments[0])
        object.__setattr__(self, "rate", number)
        object.__setattr__(self, "service", known)

    @property
    def utilisation(self) -> float:
        return self.rate * self.service.moments[0]

    @property
    def mean_in_system(self) -> float:
        return self.rate * self.mean_time_in_system

    @property
    def mean_in_queue(self) -> float:
        return self.rate * self.mean_wait

    @property
    def var_in_system(self) -> float:
        rate = self.rate
        mean, second, third = self.service.moments
        busy, idle = rate * mean, 1 - rate * mean
        squared = rate * rate * second
        return (
            busy * idle
            + squared * (3 - 2 * busy) / (2 * idle)
            + rate**3 * third / (3 * idle)
            + squared * squared / (4 * idle * idle)
        )

    @property
    def mean_wait(self) -> float:
        mean, second, _ = self.service.moments
        return self.rate * second / (2 * (1 - self.rate * mean))

    @property
    def var_wait(self) -> float:
        third = self.service.moments[2]
        return self.rate * third / (3 * (1 - self.utilisation)) + self.mean_wait**2

    @property
    def mean_time_in_system(self) -> float:
        return self.mean_wait + self.service.moments[0]

    @property
    def var_time_in_system(self) -> float:
        mean, second, _ = self.service.moments
        return self.var_wait + second - mean * mean

    def pmf(self, n: int) -> float:
        if n != int(n) or n < 0:
            return 0.0
        if self._is_markov:
            return (1 - self.utilisation) * self.utilisation**n
        return max(0.0, self._above(int(n) - 1) - self._above(int(n)))

    def cdf_in_system(self, n: float) -> float:
        return 1 - self._above(math.floor(n)) if n >= 0 else 0.0

    def percentile_in_system(self, p: float) -> int:
        p = check_share("p", p)
        if p <= 1 - self.utilisation:
            return 0
        if self._is_markov:
            # rounding must not push an exact power over to the next number
            return max(0, math.ceil(math.log(1 - p) / math.log(self.utilisation) - 1 - 1e-12))
        if self._is_crowded:
            return math.floor(self.rate * self.time_in_system_percentile(p))
        return self._counts.percentile(p)

    def wait_cdf(self, t: float) -> float:
        if t < 0:
            return 0.0
        if self.utilisation == 0:
            return 1.0
        if self._is_markov:
            return 1 - self.utilisation * math.exp(-t * self._spare)
        return self._waits.at(t)

    def wait_percentile(self, p: float) -> float:
        p = check_share("p", p)
        if p <= 1 - self.utilisation:
            return 0.0
        if self._is_markov:
            return math.log(self.utilisation / (1 - p)) / self._spare
        return self._waits.percentile(p)

    def time_in_system_cdf(self, t: float) -> float:
        if t < 0:
            return 0.0
        if isinstance(self.service, Exponential):
            return 1.0 if self.service.mean_s == 0 else -math.expm1(-t * self._spare)
        return sum(p * self.wait_cdf(t - seconds) for p, seconds in self.service.points if seconds <= t)

    def time_in_system_percentile(self, p: float) -> float:
        p = check_share("p", p)
        if isinstance(self.service, Exponential):
            return -math.log1p(-p) / self._spare if self.service.mean_s else 0.0
        # no tuple is served for longer
        most_s = self.wait_percentile(p) + self.service.longest_s
        if self.time_in_system_cdf(0.0) >= p:
            return 0.0
        if len(self.service.points) == 1:
            return most_s
        return first_true(lambda t: self.time_in_system_cdf(t) >= p, 0.0, most_s, 44)

    @property
    def _is_markov(self) -> bool:
        """Whether distributions are known without inversion."""
        return isinstance(self.service, Exponential) or self.utilisation == 0

    @property
    def _is_crowded(self) -> bool:
        """Whether so many arrive during the longest service that their number follows from their time."""
        return isinstance(self.service, Discrete) and self.rate * self.service.longest_s > _CROWD

    @property
    def _spare(self) -> float:
        """Services per second that could still be done, if services are exponential."""
        return 1 / self.service.moments[0] - self.rate

    def _above(self, n: int) -> float:
        if n < 0:
            return 1.0
        if self._is_markov:
            return self.utilisation ** (n + 1)
        if self._is_crowded:
            return 1 - self.time_in_system_cdf((n + 0.5) / self.rate) if n else self.utilisation
        return self._counts.above(n)

    @cached_property
    def _waits(self) -> WaitCurve:
        assert isinstance(self.service, Discrete)
        return WaitCurve.of(self.rate, self.service)

    @cached_property
    def _counts(self) -> CountCurve:
        assert isinstance(self.service, Discrete)
        return CountCurve.of(self.rate, self.service, self.mean_in_system)


def md1(rate: float, seconds: float) -> MG1:
    """Constant service."""
    return MG1(rate, constant(seconds))


def mm1(rate: float, mean_s: float) -> MG1:
    """Exponential service."""
    return MG1(rate, Exponential(mean_s))


# conjuncts in the order of their evaluation: (seconds, selectivity) each
Conditions = Sequence[tuple[float, float]]


def select(rate: float, seconds: float | None = None, conditions: Conditions = ()) -> MG1:
    """A selection: one condition of constant time, or conjuncts that are evaluated until one fails."""
    if (seconds is None) == (not conditions):
        both = "the seconds of one condition, or conditions=[(seconds, selectivity), ...]"
        raise ParameterError(f"give either {both}")
    return MG1(rate, _stopping_early(conditions)) if seconds is None else md1(rate, seconds)


def select_exponential(rate: float, conditions: Conditions) -> MG1:
    """A selection by conjuncts whose time is taken to be exponential, of the same mean."""
    return mm1(rate, _stopping_early(conditions).moments[0])


def _stopping_early(conditions: Conditions) -> Discrete:
    points, reached, spent_s = [], 1.0, 0.0
    for number, (seconds, selectivity) in enumerate(conditions):
        if check_amount("selectivity", selectivity) > 1:
            raise ParameterError(f"selectivity {selectivity!r} of a condition is wrong; write 0 to 1")
        spent_s += check_amount("seconds", seconds)
        stops = 1.0 if number == len(conditions) - 1 else 1 - selectivity
        points.append((reached * stops, spent_s))
        reached *= selectivity
    if not points:
        raise ParameterError("a selection needs a condition; write conditions=[(seconds, selectivity), ...]")
    return Discrete(tuple(points))


def project(rate: float, seconds: float) -> MG1:
    """A projection that keeps duplicates: constant time."""
    return md1(rate, seconds)


def relation_join(rate: float, seconds: float, page_seconds: float = 0.0) -> MG1:
    """A join with a stored relation: constant time, and ``page_seconds`` more if it is paged from disk."""
    return md1(rate, check_amount("seconds", seconds) + check_amount("page_seconds", page_seconds))


@dataclass(frozen=True)
class LastRows:
    """A window of the latest ``count`` tuples."""

    count: int


# a window of a join: a number of seconds, or of rows
Window = float | LastRows


def window_join(
    rates: tuple[float, float],
    windows: tuple[Window, Window],
    hash_seconds: float,
    compare_seconds: float,
    buckets: tuple[int, int] = (1, 1),
    output_seconds: float = 0.0,
    selectivity: float = 0.0,
    overhead: float = 1.0,
) -> MG1:
    """A symmetric hash join of two windows, as one queue of two classes, first come first served.

    A tuple is hashed twice (into its own table, and into the other), compared with one bucket of the other
    window, and passes on its matches: ``selectivity`` times the other window, at ``output_seconds`` each.
    ``overhead`` is a factor for accepting and expiring tuples. The service times are those of a tuple of the
    left and of the right stream.
    """
    hashing = 2 * check_amount("hash_seconds", hash_seconds)
    comparing = check_amount("compare_seconds", compare_seconds)
    passing_on = check_amount("output_seconds", output_seconds) * check_amount("selectivity", selectivity)
    factor = check_amount("overhead", overhead)
    for count in buckets:
        if not count >= 1:
            raise ParameterError(f"buckets = {count!r} is wrong; write a whole number of 1 or more")
    probing = [
        factor * (hashing + _tuples_in(window, rate) * (comparing / count + passing_on))
        for window, rate, count in zip(windows, rates, buckets, strict=True)
    ]
    left, right = (check_amount("rate", rate) for rate in rates)
    total = left + right
    shares = (left / total, right / total) if total else (0.5, 0.5)
    # each tuple probes the window of the other stream
    return MG1(total, Discrete(((shares[0], probing[1]), (shares[1], probing[0]))))


def _tuples_in(window: Window, rate: float) -> float:
    if isinstance(window, LastRows):
        return check_amount("rows of a window", window.count)
    return check_amount("rate", rate) * check_amount("seconds of a window", window)


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
        return queue.time_in_system_cdf(self.seconds) >= self.percentile


@dataclass(frozen=True)
class WaitBound(_TimeBound):
    """A share ``percentile`` of all tuples begins service within ``seconds`` of its arrival."""

    def kept_by(self, queue: MG1) -> bool:
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
            raise ParameterError("bytes_per_tuple = 0 is wrong; write a number above 0")

    def kept_by(self, queue: MG1) -> bool:
        return queue.cdf_in_system(self.bytes / self.bytes_per_tuple) >= self.percentile


QueueBound = LatencyBound | WaitBound | MemoryBound


def largest_rate(service: Service | Iterable[Sequence[float]], bound: QueueBound) -> float:
    """The highest rate at which the queue keeps the bound; 0 if there is none."""
    known = as_service(service)
    mean_s = known.moments[0]
    return _largest(lambda rate: MG1(rate, known), bound, 1 / mean_s) if mean_s else math.inf


def largest_window(queue_with: Callable[[float], MG1], bound: QueueBound) -> float:
    """The longest window, in seconds or rows, at which the queue that it makes keeps the bound.

    >>> largest_window(lambda s: window_join((100, 100), (s, s), 1e-5, 1e-6), LatencyBound(0.1))
    """
    return _largest(queue_with, bound)


def least_capacity(rate: float, service: Service | Iterable[Sequence[float]], bound: QueueBound) -> float:
    """The least factor on the speed of the server; inf if no speed is enough."""
    known = as_service(service)
    slowest = _largest(lambda slowness: MG1(rate, known.faster(1 / slowness)), bound)
    return 1 / slowest if slowest > 0 else math.inf


def _largest(queue_with: Callable[[float], MG1], bound: QueueBound, limit: float = math.inf) -> float:
    def keeps(setting: float) -> bool:
        try:
            return bound.kept_by(queue_with(setting))
        except Overloaded:
            return False

    return largest_kept(keeps, limit)


def largest_kept(keeps: Callable[[float], bool], limit: float = math.inf, precision: float = 1e-12) -> float:
    """The largest setting up to a limit that is kept, while larger ones are not; 0 if none, inf if all."""
    low, high = 0.0, min(1.0, limit)
    if keeps(high):
        for _ in range(_DOUBLINGS):
            if high == limit:
                return limit
            low, high = high, min(2 * high, limit)
            if not keeps(high):
                break
        else:
            return math.inf
    else:
        for _ in range(_DOUBLINGS):
            low = high / 2
            if keeps(low):
                break
            high = low
        else:
            return 0.0
    while high - low > precision * high:
        middle = (low + high) / 2
        if keeps(middle):
            low = middle
        else:
            high = middle
    return low
