"""Aggregates over what drop boxes let through, scaled up, with the confidence interval of each.

Every tuple was kept with a chance of its own, the share of its box at that time. Weighing each kept tuple
by one over its chance makes COUNT and SUM right in the mean (Horvitz and Thompson); AVG is their ratio. All
of it is made of six sums over kept tuples, which any SQL engine can keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from math import sqrt

# half of a 95 % interval, in standard errors
Z_95 = 1.959963984540054
# of few tuples the standard error itself is a guess: Student's quantile, in its first term; twice that
# where it is guessed from values, whose distribution nobody knows
_FEW = (Z_95**2 + 1) / 4
_FEW_VALUES = 2 * _FEW


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
    kept: float = 0.0  # of 1

    @staticmethod
    def of(kept: Iterable[tuple[float, float]]) -> ShedSums:
        """Of pairs of value and chance."""
        sums = ShedSums()
        for value, x in kept:
            spread = (1 - x) / x**2
            sums += ShedSums(1 / x, spread, value / x, spread * value**2, spread * value, 1.0)
        return sums

    def __add__(self, other: ShedSums) -> ShedSums:
        return ShedSums(
            self.count + other.count,
            self.count_spread + other.count_spread,
            self.total + other.total,
            self.total_spread + other.total_spread,
            self.mixed_spread + other.mixed_spread,
            self.kept + other.kept,
        )

    def _half(self, few: float) -> float:
        """Half of an interval, in standard errors."""
        return Z_95 * (1 + few / self.kept) if self.kept else 0.0

    def counted(self) -> Estimate:
        """COUNT."""
        return Estimate(self.count, self._half(_FEW) * sqrt(self.count_spread))

    def summed(self) -> Estimate:
        """SUM."""
        return Estimate(self.total, self._half(_FEW_VALUES) * sqrt(self.total_spread))

    def averaged(self) -> Estimate | None:
        """AVG; nothing of no tuples."""
        if self.count == 0:
            return None
        mean = self.total / self.count
        spread = self.total_spread - 2 * mean * self.mixed_spread + mean**2 * self.count_spread
        # rounding can make it less than nothing
        return Estimate(mean, self._half(_FEW_VALUES) * sqrt(max(spread, 0.0)) / self.count)


@dataclass(frozen=True)
class ShedTerms:
    """The sums of ``ShedSums`` in SQL: what to add up over tuples, or the sums themselves."""

    count: str
    count_spread: str
    total: str
    total_spread: str
    mixed_spread: str
    kept: str

    @staticmethod
    def of(keep: str, argument: str | None = None) -> ShedTerms:
        """What every tuple adds; ``keep`` is the column with the chance that it had.

        Tuples whose argument is NULL add nothing, as in SQL.
        """
        x, v = f"({keep})", "1" if argument is None else f"({argument})"
        spread = f"(1 - {x}) / ({x} * {x})"

        def known(term: str) -> str:
            return term if argument is None else f"CASE WHEN {v} IS NOT NULL THEN {term} END"

        return ShedTerms(
            count=known(f"1 / {x}"),
            count_spread=known(spread),
            total=f"{v} / {x}",
            total_spread=f"{spread} * {v} * {v}",
            mixed_spread=f"{spread} * {v}",
            kept=known("1"),
        )

    def each(self, change: Callable[[str, str], str]) -> ShedTerms:
        """All of them changed, by name and text."""
        return ShedTerms(*(change(field.name, getattr(self, field.name)) for field in fields(self)))

    def half(self, few: float) -> str:
        """Half of an interval, in standard errors, over sums."""
        return f"{Z_95} * (1 + {few} / greatest(coalesce({self.kept}, 1), 1))"


@dataclass(frozen=True)
class ShedAggregate:
    """An aggregate over shed tuples in SQL: the figure and half of its interval, as expressions over sums."""

    value: str
    half_width: str


def shed_count(sums: ShedTerms) -> ShedAggregate:
    """COUNT(*), or COUNT of an argument."""
    return ShedAggregate(
        f"coalesce({sums.count}, 0)",
        f"{sums.half(_FEW)} * sqrt(greatest(coalesce({sums.count_spread}, 0), 0))",
    )


def shed_sum(sums: ShedTerms) -> ShedAggregate:
    """SUM of an argument."""
    return ShedAggregate(sums.total, f"{sums.half(_FEW_VALUES)} * sqrt(greatest({sums.total_spread}, 0))")


def shed_avg(sums: ShedTerms) -> ShedAggregate:
    """AVG of an argument."""
    mean = f"({sums.total} / nullif({sums.count}, 0))"
    spread = f"{sums.total_spread} - 2 * {mean} * {sums.mixed_spread} + {mean} * {mean} * {sums.count_spread}"
    return ShedAggregate(
        mean, f"{sums.half(_FEW_VALUES)} * sqrt(greatest({spread}, 0)) / nullif({sums.count}, 0)"
    )
