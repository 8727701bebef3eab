"""The M/G/1 queue: Poisson arrivals, one server, discrete or exponential service, first come first served."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headgate.queueing.curves import CountCurve, WaitCurve
from headgate.queueing.faults import Overloaded, check_amount, check_share
from headgate.queueing.service import Discrete, Exponential, Service, constant, service_of

# what a tuple leaves behind is what has come meanwhile; of so many, chance moves but a few in a thousand
_CROWD = 30_000


@dataclass(frozen=True, init=False)
class MG1:
    """A queue with ``rate`` arrivals a second; utilisation of 1 or more raises ``Overloaded``.

    ``service`` is a list of (probability, seconds), or ``Exponential(mean_s)``. All times are in seconds, all
    percentiles take a share: ``wait_percentile(0.99)``.
    """

    rate: float
    service: Service

    def __init__(self, rate: float, service: Service | Iterable[Sequence[float]]) -> None:
        known = service_of(service)
        number = check_amount("rate", rate)
        if number * known.moments[0] >= 1:
            raise Overloaded(number * known.moments[0])
        object.__setattr__(self, "rate", number)
        object.__setattr__(self, "service", known)

    @property
    def utilisation(self) -> float:
        """Share of the time in which the server is busy."""
        return self.rate * self.service.moments[0]

    @property
    def mean_in_system(self) -> float:
        """Tuples that wait or are served, on average."""
        return self.rate * self.mean_time_in_system

    @property
    def mean_in_queue(self) -> float:
        """Tuples that wait, on average."""
        return self.rate * self.mean_wait

    @property
    def var_in_system(self) -> float:
        """Variance of the number of tuples that wait or are served."""
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
        """Seconds in the queue, on average."""
        mean, second, _ = self.service.moments
        return self.rate * second / (2 * (1 - self.rate * mean))

    @property
    def var_wait(self) -> float:
        """Variance of the time in the queue."""
        third = self.service.moments[2]
        return self.rate * third / (3 * (1 - self.utilisation)) + self.mean_wait**2

    @property
    def mean_time_in_system(self) -> float:
        """Seconds in the queue and in service, on average."""
        mean, second, _ = self.service.moments
        return self.rate * second / (2 * (1 - self.rate * mean)) + mean

    @property
    def var_time_in_system(self) -> float:
        """Variance of the time in the queue and in service."""
        mean, second, _ = self.service.moments
        return self.var_wait + second - mean * mean

    def pmf(self, n: int) -> float:
        """Chance that ``n`` tuples wait or are served."""
        if n != int(n) or n < 0:
            return 0.0
        if self._is_markov:
            return (1 - self.utilisation) * self.utilisation**n
        return max(0.0, self._above(int(n) - 1) - self._above(int(n)))

    def cdf_in_system(self, n: float) -> float:
        """Chance that at most ``n`` tuples wait or are served."""
        return 1 - self._above(math.floor(n)) if n >= 0 else 0.0

    def percentile_in_system(self, p: float) -> int:
        """The least number of tuples that is not exceeded in a share ``p`` of the time."""
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
        """Chance to wait ``t`` seconds at most."""
        if t < 0:
            return 0.0
        if self.utilisation == 0:
            return 1.0
        if self._is_markov:
            return 1 - self.utilisation * math.exp(-t * self._spare)
        return self._waits.at(t)

    def wait_percentile(self, p: float) -> float:
        """The least time within which a share ``p`` of all tuples has its turn."""
        p = check_share("p", p)
        if p <= 1 - self.utilisation:
            return 0.0
        if self._is_markov:
            return math.log(self.utilisation / (1 - p)) / self._spare
        return self._waits.percentile(p)

    def time_in_system_cdf(self, t: float) -> float:
        """Chance to be done ``t`` seconds after arrival."""
        if t < 0:
            return 0.0
        if isinstance(self.service, Exponential):
            return 1.0 if self.service.mean_s == 0 else -math.expm1(-t * self._spare)
        return sum(p * self.wait_cdf(t - seconds) for p, seconds in self.service.points if seconds <= t)

    def time_in_system_percentile(self, p: float) -> float:
        """The least time within which a share ``p`` of all tuples is done."""
        p = check_share("p", p)
        if isinstance(self.service, Exponential):
            return -math.log1p(-p) / self._spare if self.service.mean_s else 0.0
        waits_s = self.wait_percentile(p)
        if len(self.service.points) == 1:
            return waits_s + self.service.longest_s if p > 0 else 0.0
        return least_time(self.time_in_system_cdf, p, waits_s + self.service.longest_s)

    @property
    def _is_markov(self) -> bool:
        """Whether distributions are known without inversion."""
        return isinstance(self.service, Exponential) or self.utilisation == 0

    @property
    def _is_crowded(self) -> bool:
        """Whether so many come during the longest service that their number is as good as their time."""
        return isinstance(self.service, Discrete) and self.rate * self.service.longest_s > _CROWD

    @property
    def _spare(self) -> float:
        """Services a second that could still come, if services are exponential."""
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


def least_time(cdf: Callable[[float], float], p: float, above: float) -> float:
    """The least time at which a distribution reaches ``p``; it has done so at ``above``."""
    if cdf(0.0) >= p:
        return 0.0
    low, high = 0.0, above
    while high - low > 1e-13 * above:
        middle = (low + high) / 2
        if cdf(middle) < p:
            low = middle
        else:
            high = middle
    return high


def md1(rate: float, seconds: float) -> MG1:
    """Constant service: M/D/1."""
    return MG1(rate, constant(seconds))


def mm1(rate: float, mean_s: float) -> MG1:
    """Exponential service: M/M/1."""
    return MG1(rate, Exponential(mean_s))
