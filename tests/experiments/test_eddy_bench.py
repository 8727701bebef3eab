"""S3 on Spark: the rates of its runs, without Spark."""

from __future__ import annotations

import math
import time
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.experiments.eddy_bench import (
    SECONDS,
    SELECTIVITIES,
    SWAPPED,
    PoolRun,
    computes,
    largest_rate_of,
    largest_rate_of_an_interpreter,
)


def test_the_swap_makes_s3_harder() -> None:
    assert largest_rate_of(SELECTIVITIES) == pytest.approx(243.7, abs=0.05)
    assert largest_rate_of(SWAPPED) == pytest.approx(212.5, abs=0.05)


def test_one_interpreter_serves_what_the_cheapest_order_takes() -> None:
    def seconds_of(order: tuple[str, ...]) -> float:
        seconds, share = 0.0, 1.0
        for name in order:
            seconds, share = seconds + share * SECONDS[name], share * SELECTIVITIES[name]
        return seconds

    cheapest_s = min(map(seconds_of, permutations(SECONDS)))
    # at the largest rate the queue is at its limit, so utilisation is a little below 1
    assert largest_rate_of_an_interpreter() == pytest.approx(1 / cheapest_s, rel=1e-3)


def test_a_cpu_bound_predicate_takes_its_service_time_of_a_processor() -> None:
    call = computes("op1", lambda value: value > 3)
    began_s = time.thread_time()
    assert [call(value) for value in (3, 4)] == [False, True]
    assert time.thread_time() - began_s >= 2 * SECONDS["op1"]


@pytest.mark.parametrize(("ticks", "growth"), [(100, 0.25), (4, math.inf)])
def test_growth_is_that_of_the_second_half_if_it_has_enough_ticks(ticks: int, growth: float) -> None:
    # 200 tuples per second; none stays behind in the first half, a quarter in the second
    times_s = [60.0 * tick / ticks for tick in range(ticks)]
    history = [SimpleNamespace(at_s=s, backlog_tuples=50 * max(0.0, s - 30)) for s in times_s]
    status: Any = SimpleNamespace(history=history)
    run = PoolRun(200, 60.0, status, {}, (0, 0), (0, 0))
    assert run.growth == pytest.approx(growth)
    assert not run.is_sustained
