"""Truncated Pareto durations against numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from headgate.errors import SetupError
from headgate.workload.pareto import TruncatedPareto

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
