"""The throttle keeps ticks short whatever a tuple costs, and opens when it can."""

from __future__ import annotations

import pytest

from headgate.control.throttle import Throttle, TickLoad

TARGET_S, OVERHEAD_S = 2.0, 0.3


def ticks(
    throttle: Throttle, work_s_per_s: float, power: float, number: int, first_s: float = 1.0
) -> list[float]:
    """Lengths of ticks, each of which works on what came in during the one before."""
    lengths = [first_s]
    for _ in range(number):
        arrived_s = lengths[-1]
        seconds = OVERHEAD_S + work_s_per_s * throttle.keep_ratio**power * arrived_s
        throttle.add(TickLoad(seconds, arrived_s, OVERHEAD_S, tuples=1000 * arrived_s))
        lengths.append(max(seconds, 0.5))
    return lengths


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("load", [1.5, 3.0, 8.0])
def test_ticks_come_back_below_what_is_wanted(load: float, power: float) -> None:
    throttle = Throttle(TARGET_S)
    lengths = ticks(throttle, load, power, 60)
    assert max(lengths) < load * (OVERHEAD_S + load) + OVERHEAD_S + 1e-9
    assert max(lengths[20:]) < 1.5 * TARGET_S
    assert throttle.keep_ratio > 0.1 / load


def test_what_fits_is_not_shed_and_one_pause_changes_nothing() -> None:
    throttle = Throttle(TARGET_S)
    ticks(throttle, 0.7, 1.0, 20)
    assert throttle.keep_ratio == 1.0
    assert throttle.add(TickLoad(1.5, 1.0, OVERHEAD_S, 1000)) == ""
    assert throttle.keep_ratio == 1.0


def test_it_opens_when_the_load_falls() -> None:
    throttle = Throttle(TARGET_S)
    ticks(throttle, 5.0, 1.0, 20)
    assert throttle.keep_ratio < 0.5
    ticks(throttle, 0.5, 1.0, 20)
    assert throttle.keep_ratio == 1.0
