"""ShedResult aggregates: intervals that cover what they should, and the same in SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

import duckdb
import numpy as np
import pytest

from headgate.model.expression import Expression
from headgate.planning.rules.scale_aggregates import (
    FEW,
    FEW_VALUES,
    SHED_AGGREGATES,
    Z_95,
    shed_terms,
)

TRIALS = 2000


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
        return Estimate(self.count, self._half(FEW) * sqrt(self.count_spread))

    def summed(self) -> Estimate:
        """SUM."""
        return Estimate(self.total, self._half(FEW_VALUES) * sqrt(self.total_spread))

    def averaged(self) -> Estimate | None:
        """AVG; nothing of no tuples."""
        if self.count == 0:
            return None
        mean = self.total / self.count
        spread = self.total_spread - 2 * mean * self.mixed_spread + mean**2 * self.count_spread
        # rounding can make it less than nothing
        return Estimate(mean, self._half(FEW_VALUES) * sqrt(max(spread, 0.0)) / self.count)


def kept_sums(values: np.ndarray, chances: np.ndarray, kept: np.ndarray) -> list[ShedSums]:
    """A window a row, over the tuples that were kept in it."""
    weight = kept / chances
    spread = kept * (1 - chances) / chances**2
    columns = (weight, spread, weight * values, spread * values**2, spread * values, kept)
    return [ShedSums(*row) for row in np.stack([c.sum(axis=1) for c in columns], axis=1)]


@pytest.mark.parametrize("shares", [(0.5,), (0.1,), (1.0, 0.3, 0.05), (0.8, 0.2)])
@pytest.mark.parametrize("distribution", ["uniform", "lognormal", "signed"])
def test_intervals_cover_the_truth_in_93_to_97_of_100_trials(
    shares: tuple[float, ...], distribution: str
) -> None:
    rng = np.random.default_rng([len(shares), int(shares[0] * 100), len(distribution)])
    draws = {
        "uniform": rng.uniform(0, 100, 3000),
        "lognormal": rng.lognormal(3, 0.7, 3000),
        "signed": rng.normal(5, 40, 3000),
    }
    values = draws[distribution]
    # boxes changed while the window was filled: every tuple has the share of its own time
    chances = np.resize(np.repeat(shares, 100), len(values))
    kept = rng.random((TRIALS, len(values))) < chances
    sums = kept_sums(values, chances, kept)
    truth = {"counted": len(values), "summed": values.sum(), "averaged": values.mean()}
    for name, true_value in truth.items():
        estimates = [getattr(one, name)() for one in sums]
        covered = np.mean([e.low <= true_value <= e.high for e in estimates])
        assert 0.93 <= covered <= 0.97, (name, covered)
        mean = np.mean([e.value for e in estimates])
        error = np.std([e.value for e in estimates]) / TRIALS**0.5
        assert abs(mean - true_value) < 4 * error


def test_what_was_not_shed_is_exact() -> None:
    sums = ShedSums.of((value, 1.0) for value in (1.0, 2.0, 6.0))
    assert (sums.counted(), sums.summed(), sums.averaged()) == (
        Estimate(3.0, 0.0),
        Estimate(9.0, 0.0),
        Estimate(3.0, 0.0),
    )


def test_no_tuple_has_no_average() -> None:
    assert ShedSums().averaged() is None and ShedSums().counted() == Estimate(0.0, 0.0)


def test_sums_of_parts_add_up() -> None:
    parts = [ShedSums.of([(3.0, 0.5), (4.0, 0.25)]), ShedSums.of([(5.0, 1.0)])]
    assert parts[0] + parts[1] == ShedSums.of([(3.0, 0.5), (4.0, 0.25), (5.0, 1.0)])


def test_sql_computes_the_same() -> None:
    rows = [(3.0, 0.5), (4.0, 0.25), (None, 0.5), (-2.0, 0.5), (8.0, 1.0)]
    known = ShedSums.of((v, x) for v, x in rows if v is not None)
    everything = ShedSums.of((0.0, x) for _, x in rows)
    all_rows, of_v = (
        {name: Expression.parse(f"sum({term})").tree for name, term in shed_terms(of_argument).items()}
        for of_argument in (False, True)
    )
    wanted = [("COUNT", all_rows), ("COUNT", of_v), ("SUM", of_v), ("AVG", of_v)]
    written = [(sql, sums) for function, sums in wanted for sql in SHED_AGGREGATES[function]]
    columns = ", ".join(Expression.parse(sql).over(sums).text for sql, sums in written)
    table = ", ".join(f"({'NULL' if v is None else v}::DOUBLE, {x}::DOUBLE)" for v, x in rows)
    [got] = duckdb.sql(f"SELECT {columns} FROM (VALUES {table}) AS kept(v, x)").fetchall()
    expected = [everything.counted(), known.counted(), known.summed(), known.averaged()]
    assert list(got) == pytest.approx([n for e in expected if e for n in (e.value, e.half_width)])
    [none] = duckdb.sql(f"SELECT {columns} FROM (VALUES {table}) AS kept(v, x) WHERE x > 2").fetchall()
    # NULL, whatever the greater of NULL and 0 is elsewhere
    assert none[:4] == (0, 0, 0, 0) and none[4] is None and none[6] is None
