"""Rates and durations as users write them, and Pareto durations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from headgate.errors import SetupError
from headgate.workload.traffic import RatePhases, TruncatedPareto, traffic_time_us


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("60 s", 60_000_000),
        ("1.5min", 90_000_000),
        ("250 ms", 250_000),
        ("7 us", 7),
        ("1 Hour", 3_600_000_000),
    ],
)
def test_duration_is_a_number_and_a_unit(text: str, microseconds: int) -> None:
    assert traffic_time_us(text) == microseconds


@pytest.mark.parametrize("text", ["60", "s", "-1 s", "1 fortnight", ""])
def test_duration_without_a_known_unit_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="as in '60 s'"):
        traffic_time_us(text)


def test_phases_hold_from_their_start() -> None:
    phases = RatePhases.parse("500, 2000 from 60 s, 8000 from 2 min")
    assert phases == RatePhases((0, 60_000_000, 120_000_000), (500.0, 2000.0, 8000.0))
    assert phases.at(np.array([0, 59_999_999, 60_000_000, 10**12])).tolist() == [500, 500, 2000, 8000]


def test_expected_tuples_are_summed_over_phases() -> None:
    phases = RatePhases.parse("500, 2000 from 60 s")
    assert phases.expected(0, 60_000_000) == 30_000
    assert phases.expected(59_000_000, 61_000_000) == 2500
    assert phases.expected(61_000_000, 61_000_000) == 0


@pytest.mark.parametrize(
    "text",
    ["", "fast", "0", "-5", "nan", "inf", "5 from 1 s", "5, 6", "5, 6 from 2 s, 7 from 1 s", "5, 6 from 0 s"],
)
def test_rates_that_cannot_be_kept_are_refused(text: str) -> None:
    with pytest.raises(SetupError):
        RatePhases.parse(text)


MIDPOINTS = (np.arange(1_000_000) + 0.5) / 1_000_000


@pytest.mark.parametrize("shape", [0.9, 1.0, 1.2, 1.4, 2.5])
def test_mean_is_that_of_the_density(shape: float) -> None:
    pareto = TruncatedPareto(shape, 2.0, 500.0)
    mass, _ = integrate.quad(lambda x: x ** -(shape + 1), 2, 500)
    moment, _ = integrate.quad(lambda x: x**-shape, 2, 500)
    assert pareto.mean == pytest.approx(moment / mass, rel=1e-6)


@pytest.mark.parametrize("shape", [1.0, 1.2, 1.4])
def test_quantiles_average_to_the_mean_and_stay_in_bounds(shape: float) -> None:
    pareto = TruncatedPareto(shape, 2.0, 500.0)
    values = pareto.at(MIDPOINTS)
    assert values.mean() == pytest.approx(pareto.mean, rel=1e-3)
    assert values.min() >= 2 and values.max() <= 500


@pytest.mark.parametrize("shape", [1.0, 1.2, 1.4])
def test_residual_has_the_mean_of_the_renewal_theorem(shape: float) -> None:
    pareto = TruncatedPareto(shape, 2.0, 500.0)
    positions = np.random.default_rng(1).permutation(MIDPOINTS)
    square = np.square(pareto.at(MIDPOINTS)).mean()
    residual = pareto.residual_at(MIDPOINTS, positions).mean()
    assert residual == pytest.approx(square / (2 * pareto.mean), rel=0.01)


@pytest.mark.parametrize(("shape", "shortest", "longest"), [(0, 1, 2), (1.2, 0, 2), (1.2, 3, 2)])
def test_impossible_durations_are_refused(shape: float, shortest: float, longest: float) -> None:
    with pytest.raises(SetupError):
        TruncatedPareto(shape, shortest, longest)
