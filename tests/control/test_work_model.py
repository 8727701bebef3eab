"""Head-room by the queueing model."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest

from headgate.control.work_model import TICK_OF_BOUND, capacity_of
from headgate.model.profile import TickCosts
from headgate.queueing.prediction import TickLatency

COSTS = TickCosts(1.0, 0.0, 0.5, spread=0.1, samples=20)


def test_ticks_that_differ_more_leave_less_for_operators() -> None:
    capacities = [capacity_of(replace(COSTS, spread=spread), 6.0, 2, 0.0) for spread in (0.0, 0.1, 0.2, 0.3)]
    assert capacities == sorted(capacities, reverse=True)
    # without any spread, ticks may be as long as they should be
    assert capacities[0] == pytest.approx((1 - 1 / 6) / 0.5, rel=0.01)


def test_arriving_tuples_and_processors_that_are_not_there_are_not_left_for_operators() -> None:
    taken = capacity_of(COSTS, 6.0, 2, 0.0) - capacity_of(replace(COSTS, intake_s=1e-5), 6.0, 2, 10_000)
    assert taken == pytest.approx(0.1 / 0.5)
    assert capacity_of(COSTS, 6.0, 1, 0.0) == pytest.approx(0.5 * capacity_of(COSTS, 6.0, 2, 0.0))


def test_one_tuple_in_a_thousand_takes_longer_than_the_bound() -> None:
    utilisation = 0.7
    ticks = TickLatency(TICK_OF_BOUND, 0.2 / sqrt(1 - utilisation**2), utilisation).percentile(0.999)
    assert ticks == pytest.approx(1.0, rel=0.1)
