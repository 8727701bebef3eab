"""Inverse problems: what is found keeps the bound, a little more breaks it."""

from __future__ import annotations

import math

import pytest

from headgate.queueing import (
    MG1,
    Exponential,
    LastRows,
    LatencyBound,
    MemoryBound,
    ParameterError,
    WaitBound,
    largest_rate,
    largest_window,
    least_capacity,
    window_join,
)
from headgate.queueing.mg1 import QueueBound

SERVICES = [[(1.0, 0.01)], [(0.7, 0.01), (0.3, 0.025)], Exponential(0.01)]
BOUNDS = [LatencyBound(0.1), LatencyBound(0.05, 0.9), WaitBound(0.02, 0.95), MemoryBound(640, 64)]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("service", SERVICES)
def test_the_largest_rate_keeps_the_bound_and_no_larger_one_does(
    service: Exponential, bound: QueueBound
) -> None:
    rate = largest_rate(service, bound)
    assert bound.kept_by(MG1(rate, service))
    assert not bound.kept_by(MG1(rate * (1 + 1e-6), service))


def test_the_largest_rate_of_mm1_is_that_of_its_closed_form() -> None:
    # the time in system is exponential with 1 / mean - rate
    assert largest_rate(Exponential(0.01), LatencyBound(0.1, 0.99)) == pytest.approx(
        100 - math.log(100) / 0.1
    )


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("service", SERVICES)
def test_the_least_capacity_keeps_the_bound_and_no_less_does(service: Exponential, bound: QueueBound) -> None:
    factor = least_capacity(250.0, service, bound)
    assert factor > 2.5

    def at(speed: float) -> MG1:
        # rates and speeds scale alike: the queue of a faster server is a slower one's at a lower rate
        return MG1(250.0, MG1(0, service).service.faster(speed))

    assert bound.kept_by(at(factor * (1 + 1e-9))) and not bound.kept_by(at(factor * (1 - 1e-6)))


def test_the_largest_window_keeps_the_bound_and_no_longer_one_does() -> None:
    bound = LatencyBound(0.2)

    def joined(seconds: float) -> MG1:
        return window_join((100, 100), (seconds, 2 * seconds), 1e-4, 1e-5, (10, 10))

    longest_s = largest_window(joined, bound)
    assert 1 < longest_s < 100
    assert bound.kept_by(joined(longest_s)) and not bound.kept_by(joined(longest_s * (1 + 1e-6)))
    rows = largest_window(lambda n: window_join((100, 100), (LastRows(int(n)), 1.0), 1e-4, 1e-5), bound)
    assert rows > 1


def test_what_cannot_be_kept_has_no_rate_and_what_always_is_has_no_limit() -> None:
    assert largest_rate([(1.0, 0.5)], LatencyBound(0.1)) == 0
    assert largest_rate([(1.0, 0.0)], LatencyBound(0.1)) == math.inf
    assert largest_window(lambda seconds: MG1(1.0, [(1.0, 0.1)]), LatencyBound(5)) == math.inf
    assert least_capacity(10, [(1.0, 0.1)], LatencyBound(0.0)) == math.inf


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: LatencyBound(-1),
        lambda: LatencyBound(1, 99),
        lambda: MemoryBound(-1),
        lambda: MemoryBound(10, 0),
    ],
)
def test_wrong_bounds_are_refused(wrong: object) -> None:
    with pytest.raises(ParameterError):
        wrong()  # type: ignore[operator]
