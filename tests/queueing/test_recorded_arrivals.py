"""The index of dispersion: 1 for Poisson arrivals, 0 for even ones, large where bursts are."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.queueing.recorded_arrivals import Dispersion, dispersion, index_at
from headgate.queueing.service_times import ParameterError


def test_poisson_arrivals_have_an_index_of_1_at_every_scale() -> None:
    times_s = np.cumsum(np.random.default_rng(1).exponential(0.01, 200_000))
    found = dispersion(times_s)
    assert len(found) > 5 and found[-1].seconds / found[0].seconds > 1000
    for scale in found:
        # the standard error of a variance ratio
        assert abs(scale.index - 1) < 4.5 * np.sqrt(2 / scale.intervals)


def test_even_arrivals_have_an_index_near_0() -> None:
    assert all(scale.index < 0.01 for scale in dispersion(np.arange(0, 100, 0.01), [0.5, 2.0]))


def test_bursts_show_from_their_own_time_scale_on() -> None:
    generator = np.random.default_rng(2)
    # 40 tuples within 0.1 s, once a second on average
    starts_s = np.cumsum(generator.exponential(1.0, 4000))
    times_s = np.sort((starts_s[:, None] + generator.uniform(0, 0.1, (4000, 40))).ravel())
    small, large = dispersion(times_s, [0.001, 10.0])
    assert small.index < 3 and large.index == pytest.approx(40, rel=0.25)


def test_too_few_arrivals_are_refused() -> None:
    with pytest.raises(ParameterError):
        dispersion(np.arange(50.0))
    with pytest.raises(ParameterError):
        dispersion(np.ones(200))


def test_the_index_between_two_scales_lies_between_theirs() -> None:
    scales = (Dispersion(10.0, 9.0, 50), Dispersion(0.1, 1.0, 50))
    assert index_at(scales, 1.0) == pytest.approx(5.0)
    assert index_at(scales, 0.01) == 1.0 and index_at(scales, 100.0) == 9.0
    assert index_at(scales, 0.0) == 1.0
