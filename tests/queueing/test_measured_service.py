"""Queues of measured service times, against recursions over single tuples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from headgate.queueing import MG1, ParameterError
from headgate.queueing.measured_service import StalledQueue, Stalls, service_of, waits_of

Floats = NDArray[np.float64]


def test_the_distribution_of_measured_times_keeps_the_mean_and_the_rare_long_ones() -> None:
    times_s = np.random.default_rng(1).normal(20e-6, 1e-6, 50_000)
    times_s[::5000] = 5e-3
    found = service_of(times_s)
    assert found.moments[0] == pytest.approx(times_s.mean(), rel=1e-12)
    assert found.moments[1] == pytest.approx((times_s**2).mean(), rel=1e-3)
    assert found.longest_s == pytest.approx(5e-3)
    assert len(found.points) < 400
    for wrong in ([], [1.0, 0.0], [1.0, np.inf]):
        with pytest.raises(ParameterError):
            service_of(np.array(wrong))


def test_waits_of_given_arrivals_are_those_of_the_recursion() -> None:
    generator = np.random.default_rng(2)
    arrivals_s, services_s = np.cumsum(generator.exponential(1.0, 2000)), generator.exponential(0.9, 2000)
    expected, free_s = [], arrivals_s[0] + 3.0
    for arrival_s, service_s in zip(arrivals_s, services_s, strict=True):
        start_s = max(arrival_s, free_s)
        expected.append(start_s - arrival_s)
        free_s = start_s + service_s
    assert waits_of(arrivals_s, services_s, 3.0) == pytest.approx(np.array(expected), abs=1e-9)
    assert waits_of(arrivals_s, services_s)[0] == 0


def stalled_waits(rate: float, services_s: Floats, stalls_per_idle_s: float, stall_s: Floats) -> Floats:
    """Waits where an idle server stalls at random: one tuple after the other."""
    generator = np.random.default_rng(3)
    gaps_s = generator.exponential(1 / rate, len(services_s))
    waits, now_s, free_s, stall = [], 0.0, 0.0, 0
    for gap_s, service_s in zip(gaps_s, services_s, strict=True):
        now_s += gap_s
        while free_s < now_s:
            begin_s = free_s + generator.exponential(1 / stalls_per_idle_s)
            if begin_s >= now_s:
                break
            free_s = begin_s + stall_s[stall % len(stall_s)]
            stall += 1
        waits.append(max(0.0, free_s - now_s))
        free_s = max(free_s, now_s) + service_s
    return np.array([*waits, stall / now_s])


def test_an_idle_server_that_stalls_makes_tuples_wait_as_predicted() -> None:
    generator = np.random.default_rng(4)
    services_s = generator.choice([0.5, 1.5], 200_000)
    lengths_s = generator.choice([2.0, 6.0], 50_000)
    *waits, stalls_per_s = stalled_waits(0.4, services_s, 0.1, lengths_s)
    found = StalledQueue(MG1(0.4, service_of(services_s)), Stalls(stalls_per_s, service_of(lengths_s)))
    waits_s = np.array(waits)
    assert found.mean_wait == pytest.approx(waits_s.mean(), rel=0.03)
    for t in (0.0, 0.4, 1.0, 3.0, 8.0):
        assert found.wait_cdf(t) == pytest.approx((waits_s <= t).mean(), abs=0.01)
    for share in (0.5, 0.9, 0.99):
        assert (waits_s <= found.wait_percentile(share)).mean() == pytest.approx(share, abs=0.01)
    # tuples that arrive while one is in the system are those that it leaves behind
    sojourns_s = waits_s + services_s
    behind = generator.poisson(0.4 * sojourns_s)
    assert found.mean_in_system == pytest.approx(behind.mean(), rel=0.03)
    for n in (0, 1, 3, 6):
        assert found.cdf_in_system(n) == pytest.approx((behind <= n).mean(), abs=0.01)
    p99 = found.percentile_in_system(0.99)
    assert found.cdf_in_system(p99) >= 0.99 > found.cdf_in_system(p99 - 1)


def test_without_stalls_it_is_the_queue_itself() -> None:
    queue = MG1(0.5, [(0.5, 1.0), (0.5, 2.0)])
    found = StalledQueue(queue, Stalls.of(np.array([]), 10.0))
    assert found.mean_wait == queue.mean_wait and found.chance == 0
    assert found.wait_percentile(0.9) == queue.wait_percentile(0.9)
    assert found.percentile_in_system(0.99) == queue.percentile_in_system(0.99)
    assert found.wait_cdf(1.3) == queue.wait_cdf(1.3) and found.mean_in_system == queue.mean_in_system
