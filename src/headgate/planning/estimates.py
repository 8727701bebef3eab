"""Aggregates over what drop boxes let through, scaled up, with the confidence interval of each.

Every tuple was kept with a chance of its own, the share of its box at that time. Weighing each kept tuple
by one over its chance makes COUNT and SUM right in the mean (Horvitz and Thompson); AVG is their ratio. All
of it is made of five sums over kept tuples, which any SQL engine can keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

# half of a 95 % interval, in standard errors
Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A figure, and how far the true one may be away in 95 of 100 cases."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.half_width


@dataclass(frozen=True)
class ShedSums:
    """Sums over kept tuples with chance ``x`` and value ``v``; windows add up, whatever their shares were."""

    count: float = 0.0  # of 1/x
    count_spread: float = 0.0  # of (1-x)/x^2
    total: float = 0.0  # of v/x
    total_spread: float = 0.0  # of (1-x) v^2/x^2
    mixed_spread: float = 0.0  # of (1-x) v/x^2

    @staticmethod
    def of(kept: Iterable[tuple[float, float]]) -> ShedSums:
        """Of pairs of value and chance."""
        sums = ShedSums()
        for value, x in kept:
            spread = (1 - x) / x**2
            sums += ShedSums(1 / x, spread, value / x, spread * value**2, spread * value)
        return sums

    def __add__(self, other: ShedSums) -> ShedSums:
        return ShedSums(
            self.count + other.count,
            self.count_spread + other.count_spread,
            self.total + other.total,
            self.total_spread + other.total_spread,
            self.mixed_spread + other.mixed_spread,
        )

    def counted(self) -> Estimate:
        """COUNT."""
        return Estimate(self.count, Z_95 * sqrt(self.count_spread))

    def summed(self) -> Estimate:
        """SUM."""
        return Estimate(self.total, Z_95 * sqrt(self.total_spread))

    def averaged(self) -> Estimate | None:
        """AVG; nothing of no tuples."""
        if self.count == 0:
            return None
        mean = self.total / self.count
        spread = self.total_spread - 2 * mean * self.mixed_spread + mean**2 * self.count_spread
        # rounding can make it less than nothing
        return Estimate(mean, Z_95 * sqrt(max(spread, 0.0)) / self.count)


@dataclass(frozen=True)
class ShedAggregate:
    """An aggregate over shed tuples in SQL: the figure and half of its interval, as expressions over sums."""

    value: str
    half_width: str


def shed_count(keep: str, argument: str | None = None) -> ShedAggregate:
    """COUNT(*), or COUNT of an argument; ``keep`` is the column with the chance that a tuple had."""
    count, spread, *_ = _sums(keep, argument)
    return ShedAggregate(count, f"{Z_95} * sqrt({spread})")


def shed_sum(keep: str, argument: str) -> ShedAggregate:
    """SUM of an argument."""
    _, _, total, spread, _ = _sums(keep, argument)
    return ShedAggregate(total, f"{Z_95} * sqrt({spread})")


def shed_avg(keep: str, argument: str) -> ShedAggregate:
    """AVG of an argument."""
    count, count_spread, total, total_spread, mixed_spread = _sums(keep, argument)
    mean = f"({total} / nullif({count}, 0))"
    spread = f"{total_spread} - 2 * {mean} * {mixed_spread} + {mean} * {mean} * {count_spread}"
    return ShedAggregate(mean, f"{Z_95} * sqrt(greatest({spread}, 0)) / nullif({count}, 0)")


def _sums(keep: str, argument: str | None) -> tuple[str, str, str, str, str]:
    """The sums of ``ShedSums``; tuples whose argument is NULL do not count, as in SQL."""
    x, v = f"({keep})", "1" if argument is None else f"({argument})"
    there = "" if argument is None else f" FILTER (WHERE {v} IS NOT NULL)"
    spread = f"(1 - {x}) / ({x} * {x})"
    terms = (f"1 / {x}", spread, f"{v} / {x}", f"{spread} * {v} * {v}", f"{spread} * {v}")
    count, count_spread, total, total_spread, mixed_spread = (f"sum({term}){there}" for term in terms)
    return f"coalesce({count}, 0)", f"coalesce({count_spread}, 0)", total, total_spread, mixed_spread
