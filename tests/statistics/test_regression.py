"""The regression of tick times finds the costs that ticks were made of."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.profile import TickCosts
from headgate.model.status import TickRecord
from headgate.statistics.estimators import JoinCosts, Term, fit, tick_costs


def tick(at_s: float, rows: int, busy_s: float) -> TickRecord:
    return TickRecord(at_s, 0.0, rows, 0, 0, 0, 0, {}, {}, busy_s)


def test_the_length_of_ticks_is_explained_by_what_they_do() -> None:
    true = TickCosts(0.2, 2e-6, 0.6)
    history, at_s = [tick(0.0, 0, 0.0)], 0.0
    for rows, busy_s in [(1000, 0.1), (50_000, 0.4), (20_000, 1.5), (0, 0.7), (90_000, 0.2)]:
        at_s += true.seconds(rows, busy_s)
        history.append(tick(at_s, rows, busy_s))
    found = tick_costs([history])
    assert found is not None
    assert (found.overhead_s, found.intake_s, found.work_s) == pytest.approx((0.2, 2e-6, 0.6), rel=1e-3)
    assert tick_costs([history[:3]]) is None


def test_under_a_steady_load_the_time_of_ticks_is_work() -> None:
    at_s = [0.0, 0.7, 1.6, 2.7, 3.5, 4.3]
    rows = [0, 1000, 2000, 3000, 1500, 1500]
    history = [tick(at, n, n * 1e-4) for at, n in zip(at_s, rows, strict=True)]
    found = tick_costs([history])
    assert found is not None
    assert found.intake_s * 2000 < 0.01 < found.work_s


COSTS = st.lists(st.floats(0, 10), min_size=2, max_size=4)


@given(COSTS, st.integers(0, 2**32 - 1), st.floats(0.5, 1.0))
def test_exact_ticks_give_the_costs_they_are_made_of(costs: list[float], seed: int, memory: float) -> None:
    amounts = np.random.default_rng(seed).uniform(1, 1000, (20, len(costs)))
    found = fit(amounts.tolist(), (amounts @ costs).tolist(), [Term()] * len(costs), memory)
    assert found.coefficients == pytest.approx(costs, rel=1e-4, abs=1e-6)
    even = fit(amounts.tolist(), (amounts @ costs).tolist(), [Term()] * len(costs))
    assert even.errors == pytest.approx([0.0] * len(costs), abs=1e-4)


def test_errors_are_those_of_ordinary_least_squares() -> None:
    rng = np.random.default_rng(7)
    amounts = rng.uniform(1, 10, (30, 2))
    seconds = amounts @ [3.0, 5.0] + rng.normal(0, 0.5, 30)
    found = fit(amounts.tolist(), seconds.tolist(), [Term()] * 2)
    solution, squares, *_ = np.linalg.lstsq(amounts, seconds, rcond=None)
    covariance = squares[0] / 28 * np.linalg.inv(amounts.T @ amounts)
    assert found.coefficients == pytest.approx(solution.tolist())
    assert found.covariance == pytest.approx(covariance)
    assert found.errors == pytest.approx(np.sqrt(np.diag(covariance)).tolist())
    # of the first alone, and of both together
    assert found.error_of_sum([2.0]) == pytest.approx(2 * found.errors[0])
    weights = np.array([1.0, 4.0])
    assert found.error_of_sum([1.0, 4.0]) == pytest.approx(float(np.sqrt(weights @ covariance @ weights)))


def test_work_is_not_done_faster_than_by_all_processors() -> None:
    # the larger ticks found other programs gone: their lengths tell of ten processors
    history, at_s = [tick(0.0, 0, 0.0)], 0.0
    for busy_s in [0.5, 1.0, 1.5, 0.8, 1.2]:
        at_s += 1.0 + 0.1 * busy_s
        history.append(tick(at_s, 1000, busy_s))
    assert (found := tick_costs([history])) is not None and found.work_s == pytest.approx(0.1)
    bounded = tick_costs([history], processors=2)
    assert bounded is not None and bounded.work_s == pytest.approx(0.5)
    # a tick of the mean length is still one
    assert bounded.seconds(1000, 1.0) == pytest.approx(1.1, rel=0.02)
    slow = tick_costs([history], processors=20)
    assert slow is not None and slow.work_s == pytest.approx(0.1)


def test_two_ticks_say_nothing_about_the_error_of_two_costs() -> None:
    amounts, seconds = [(100.0, 1.0), (300.0, 1.0)], [0.5, 0.9]
    found = fit(amounts, seconds, [Term()] * 2)
    assert found.coefficients == pytest.approx((0.002, 0.3))
    assert found.errors == (np.inf, np.inf) and found.error_of_sum([1.0, 1.0]) == np.inf


def test_what_rests_on_a_previous_estimate_is_no_better_known_than_that() -> None:
    # the two are never apart, so that only their sum is measured
    rng = np.random.default_rng(2)
    sizes = rng.uniform(50, 150, 30)
    seconds = (sizes * 0.03 + rng.normal(0, 0.01, 30)).tolist()
    amounts = np.column_stack([sizes, sizes]).tolist()
    held = fit(amounts, seconds, [Term(0.1, 0.015, 1e-9, 0.004)] * 2)
    # what is too much in one is missing in the other
    assert held.errors == pytest.approx((0.004 / 2**0.5,) * 2, rel=0.1)
    assert held.error_of_sum([1.0, 1.0]) < 0.0005
    # nothing was measured before: the first may well be all of it
    assumed = fit(amounts, seconds, [Term(0.1, 0.015, 1e-9)] * 2)
    assert min(assumed.errors) > 0.01


def test_ticks_that_vary_say_so() -> None:
    true, rng = TickCosts(0.2, 2e-6, 0.6), np.random.default_rng(5)
    history, at_s = [tick(0.0, 0, 0.0)], 0.0
    for _ in range(90):
        rows, busy_s = int(rng.integers(1000, 90_000)), float(rng.uniform(0.1, 1.5))
        at_s += true.seconds(rows, busy_s) * float(rng.normal(1, 0.1))
        history.append(tick(at_s, rows, busy_s))
    found = tick_costs([history])
    assert found is not None and found.samples == 90
    assert found.spread == pytest.approx(0.1, rel=0.25)
    assert found.error == pytest.approx(found.spread * (3 / 90) ** 0.5)
    assert TickCosts(0.2, 2e-6, 0.6).error == 0
    assert found.overhead_s == pytest.approx(0.2, abs=2 * found.overhead_error_s)
    assert 0 < found.overhead_error_s < 0.05
    assert found.shortest_s == found.overhead_s + 2 * found.overhead_error_s < found.least_s


def test_ticks_that_do_not_tell_what_is_fixed_are_as_long_as_the_shortest() -> None:
    # the fewer tuples, the longer: other programs were at work
    history, at_s = [tick(0.0, 0, 0.0)], 0.0
    for seconds, busy_s in [
        (0.9, 0.6),
        (3.0, 0.2),
        (1.0, 0.7),
        (2.4, 1.9),
        (2.8, 2.9),
        (1.4, 1.6),
        (0.9, 0.5),
    ]:
        at_s += seconds
        history.append(tick(at_s, 1000, busy_s))
    found = tick_costs([history])
    assert found is not None and found.least_s == pytest.approx(0.9)
    assert found.seconds(0, 0.0) >= 0.9 and found.overhead_error_s > 0.3


@given(COSTS, st.integers(0, 2**32 - 1))
def test_no_cost_is_negative_whatever_ticks_took(costs: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    amounts = rng.uniform(0, 1000, (20, len(costs)))
    found = fit(amounts.tolist(), rng.exponential(1.0, 20).tolist(), [Term(0.1, c, 1e-6) for c in costs])
    assert min(found.coefficients) >= 0 and min(found.errors) >= 0


def test_what_ticks_do_not_separate_stays_near_the_previous_estimate() -> None:
    amounts, seconds = [(100.0, 100.0)] * 10, [3.0] * 10
    held = fit(amounts, seconds, (Term(0.1, 0.01, 1e-9), Term(0.1, 0.02, 1e-9)))
    assert held.coefficients == pytest.approx((0.01, 0.02), rel=1e-3)
    # held to zero, the first one explains nothing
    small = fit(amounts, seconds, (Term(0.1), Term()))
    assert small.coefficients == pytest.approx((0.0, 0.03), abs=1e-6)


def test_costs_of_joins_are_separated_from_those_of_other_operators() -> None:
    rng, costs = random.Random(1), JoinCosts()
    for _ in range(40):
        handled, other_s = rng.uniform(1e5, 1e6), rng.uniform(0.05, 0.5)
        costs.add(handled, other_s, 0.2 + 3e-6 * handled + 2 * other_s)
    assert costs.handled_s == pytest.approx(3e-6, rel=0.1)
    assert costs.other == pytest.approx(2, rel=0.3)
    assert costs.fixed_s < 0.4
    before = costs.handled_s
    costs.add(1e9, 1.0, 0.0)
    assert costs.handled_s == before
