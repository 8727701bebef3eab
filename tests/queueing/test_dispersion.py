"""The index of dispersion: 1 for Poisson arrivals, 0 for even ones, large where bursts are."""

from __future__ import annotations

import numpy as np
import pytest

from headgate.queueing.dispersion import burstiness, dispersion
from headgate.queueing.faults import WrongFigure


def test_poisson_arrivals_have_an_index_of_1_at_every_scale() -> None:
    times_s = np.cumsum(np.random.default_rng(1).exponential(0.01, 200_000))
    found = dispersion(times_s)
    assert len(found) > 5 and found[-1].seconds / found[0].seconds > 1000
    for scale in found:
        # the standard error of a variance ratio
        assert abs(scale.index - 1) < 4.5 * np.sqrt(2 / scale.intervals)


def test_even_arrivals_have_an_index_near_0() -> None:
    assert burstiness(dispersion(np.arange(0, 100, 0.01), [0.5, 2.0])) < 0.01


def test_bursts_show_from_their_own_time_scale_on() -> None:
    generator = np.random.default_rng(2)
    # 40 tuples within 0.1 s, once a second on average
    starts_s = np.cumsum(generator.exponential(1.0, 4000))
    times_s = np.sort((starts_s[:, None] + generator.uniform(0, 0.1, (4000, 40))).ravel())
    small, large = dispersion(times_s, [0.001, 10.0])
    assert small.index < 3 and large.index == pytest.approx(40, rel=0.25)
    assert burstiness((small, large)) == large.index


def test_too_few_arrivals_are_refused() -> None:
    with pytest.raises(WrongFigure):
        dispersion(np.arange(50.0))
    with pytest.raises(WrongFigure):
        dispersion(np.ones(200))
