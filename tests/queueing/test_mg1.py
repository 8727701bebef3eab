"""The M/G/1 queue against closed forms, an embedded chain, and a simulation of single tuples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.queueing.oracles import embedded_pmf, erlang_wait_cdf, simulated, wait_cdf_of_two

from headgate.errors import HeadgateError
from headgate.queueing import MG1, Discrete, Exponential, Overloaded, ParameterError, constant, md1, mm1

LOADS = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99)
SERVICES = {
    "constant": [(1.0, 2.0)],
    "one twice the other": [(0.5, 1.0), (0.5, 2.0)],
    "decimals": [(0.3, 0.00097), (0.7, 0.000431)],
    "no common unit": [(0.4, math.pi), (0.6, math.sqrt(2))],
    "rare and long": [(0.95, 0.1), (0.05, 9.0)],
    "some for nothing": [(0.25, 0.0), (0.5, 1.0), (0.25, 1.5)],
}
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)


def queue(points: list[tuple[float, float]], load: float) -> MG1:
    return MG1(rate=load / sum(p * s for p, s in points), service=points)


@pytest.mark.parametrize("load", LOADS)
def test_exponential_service_has_the_closed_forms_of_mm1(load: float) -> None:
    m, mu = mm1(load / 0.5, 0.5), 2.0
    spare = mu - m.rate
    assert m.utilisation == pytest.approx(load, abs=1e-12)
    assert m.mean_in_system == pytest.approx(load / (1 - load), rel=1e-9)
    assert m.var_in_system == pytest.approx(load / (1 - load) ** 2, rel=1e-9)
    assert m.mean_wait == pytest.approx(load / spare, rel=1e-9)
    assert m.mean_time_in_system == pytest.approx(1 / spare, rel=1e-9)
    assert m.var_time_in_system == pytest.approx(1 / spare**2, rel=1e-9)
    assert m.var_wait == pytest.approx(load * (2 - load) / spare**2, rel=1e-9)
    for n in (0, 1, 7, 100):
        assert m.pmf(n) == pytest.approx((1 - load) * load**n, abs=1e-12)
    for t in (0.0, 0.3, 2.0, 50.0):
        assert m.wait_cdf(t) == pytest.approx(1 - load * math.exp(-spare * t), abs=1e-12)
        assert m.time_in_system_cdf(t) == pytest.approx(1 - math.exp(-spare * t), abs=1e-12)
    assert m.time_in_system_percentile(0.9) == pytest.approx(math.log(10) / spare, rel=1e-9)


@pytest.mark.parametrize("load", LOADS)
def test_constant_service_waits_as_erlang_says(load: float) -> None:
    m = md1(load, 1.0)
    for t in (0, 1e-6, 0.3, 0.999, 1, 1.001, 1.5, 2, 2.7, 4.9, 8.1, 9.2, 10.5, 14.3, 25.1, 40.0):
        assert m.wait_cdf(t) == pytest.approx(erlang_wait_cdf(load, 1.0, t), abs=1e-9)
    for p in (0.5, 0.9, 0.99):
        t = m.wait_percentile(p)
        assert erlang_wait_cdf(load, 1.0, t) == pytest.approx(max(p, 1 - load), abs=1e-9)


@pytest.mark.parametrize("load", [0.2, 0.7, 0.95])
@pytest.mark.parametrize("name", ["one twice the other", "decimals", "no common unit", "rare and long"])
def test_two_service_times_wait_as_the_double_sum_says(name: str, load: float) -> None:
    points = SERVICES[name]
    m, longest = queue(points, load), max(s for _, s in points)
    # times without a common unit are moved to one that nearly fits
    within = 1e-9 if name in ("one twice the other", "decimals") else 5e-7
    # the terms of the sum grow with the square of the time
    for t in (0.0, 0.1, 0.55, 0.9, 1.3, 2.2, 3.7):
        exact = wait_cdf_of_two(m.rate, points, t * longest)
        assert m.wait_cdf(t * longest) == pytest.approx(exact, abs=within)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"some for nothing"}))
def test_numbers_in_system_are_those_of_the_embedded_chain(name: str, load: float) -> None:
    m = queue(SERVICES[name], load)
    expected = embedded_pmf(m.rate, SERVICES[name], 200)
    assert [m.pmf(n) for n in range(200)] == pytest.approx(expected.tolist(), abs=1e-10)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", SERVICES)
def test_probabilities_sum_to_1_and_have_the_mean_and_variance_of_the_formulas(
    name: str, load: float
) -> None:
    m = queue(SERVICES[name], load)
    numbers = np.arange(m.percentile_in_system(1 - 1e-13) + 1)
    chances = np.array([m.pmf(n) for n in numbers.tolist()])
    assert chances.min() >= 0
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    mean = float(numbers @ chances)
    assert mean == pytest.approx(m.mean_in_system, rel=1e-7)
    assert float((numbers - mean) ** 2 @ chances) == pytest.approx(m.var_in_system, rel=1e-6)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", SERVICES)
def test_waiting_times_integrate_to_the_mean_and_percentiles_rise(name: str, load: float) -> None:
    m = queue(SERVICES[name], load)
    assert m.wait_cdf(0) == pytest.approx(1 - load, abs=1e-9)
    end_s = m.wait_percentile(1 - 1e-10)
    t = (np.arange(20_000) + 0.5) * end_s / 20_000
    below = np.array([m.wait_cdf(x) for x in t.tolist()])
    assert np.all(np.diff(below) >= -1e-10)
    assert float((1 - below).mean() * end_s) == pytest.approx(m.mean_wait, rel=2e-5)
    for percentile, cdf in (
        (m.wait_percentile, m.wait_cdf),
        (m.time_in_system_percentile, m.time_in_system_cdf),
    ):
        found = [percentile(p) for p in SHARES]
        assert found == sorted(found)
        for p, t_s in zip(SHARES, found, strict=True):
            assert cdf(t_s * (1 + 1e-12)) >= p - 1e-9
            assert t_s == 0 or cdf(t_s * (1 - 1e-6)) < p + 1e-9
    in_system = [m.percentile_in_system(p) for p in SHARES]
    assert in_system == sorted(in_system)
    for p, n in zip(SHARES, in_system, strict=True):
        assert m.cdf_in_system(n) >= p - 1e-12 and (n == 0 or m.cdf_in_system(n - 1) < p)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8, 0.9])
@pytest.mark.parametrize("name", [*SERVICES, "exponential"])
def test_figures_lie_within_the_confidence_interval_of_a_simulation(name: str, load: float) -> None:
    tuples, generator = 400_000, np.random.default_rng(5)
    if name == "exponential":
        m = mm1(load, 1.0)
        services_s = generator.exponential(1.0, tuples)
    else:
        chances, seconds = zip(*SERVICES[name], strict=True)
        m = queue(SERVICES[name], load)
        services_s = generator.choice(seconds, tuples, p=chances)
    run = simulated(m.rate, services_s, seed=7)
    checks = {
        "wait": (m.mean_wait, run.waits_s),
        "time in system": (m.mean_time_in_system, run.times_s),
        "in system": (m.mean_in_system, run.found),
        "squared wait": (m.var_wait + m.mean_wait**2, run.waits_s**2),
        "squared number": (m.var_in_system + m.mean_in_system**2, run.found**2),
        "nobody there": (m.pmf(0), run.found == 0),
        "three there": (m.pmf(3), run.found == 3),
        "p90": (m.wait_cdf(m.wait_percentile(0.9)), run.waits_s <= m.wait_percentile(0.9) * (1 + 1e-9)),
        "p99": (0.99, run.times_s <= m.time_in_system_percentile(0.99) * (1 + 1e-9)),
    }
    for what, (expected, values) in checks.items():
        if what == "p99" and m.time_in_system_cdf(m.time_in_system_percentile(0.99)) > 0.991:
            continue
        estimate = run.estimate(values.astype(np.float64))
        assert abs(expected - estimate.mean) <= estimate.within + 1e-12, (what, expected, estimate)


@pytest.mark.parametrize("rate", [0.5, 0.50001, 2.0])
def test_an_overloaded_queue_gives_its_utilisation_and_no_figure(rate: float) -> None:
    with pytest.raises(Overloaded) as raised:
        MG1(rate=rate, service=[(1.0, 2.0)])
    assert raised.value.utilisation == pytest.approx(rate * 2)
    assert "overloaded" in str(raised.value) and "\n" not in str(raised.value)
    assert isinstance(raised.value, HeadgateError)


@pytest.mark.parametrize(
    ("rate", "service", "message"),
    [
        (-1, [(1.0, 0.1)], "rate = -1 is wrong; write a number of 0 or more"),
        (math.nan, [(1.0, 0.1)], "rate = nan is wrong"),
        (1, [(0.5, 0.1), (0.4, 0.2)], "probabilities of service times sum to 0.9; they must sum to 1"),
        (1, [(1.5, 0.1), (-0.5, 0.2)], "probability 1.5 of a service time is wrong"),
        (1, [(1.0, -0.1)], "service time -0.1 is wrong; write seconds of 0 or more"),
        (1, [(1.0, math.inf)], "service time inf is wrong"),
        (1, [(1.0, 1e-200)], "service time 1e-200 is too short; write 0"),
        (1, [], "probabilities of service times sum to 0"),
        (1, [0.1], "service [0.1] is wrong; write [(probability, seconds), ...]"),
        (1, 0.1, "service 0.1 is wrong; write [(probability, seconds), ...]"),
        (1, [("a", 0.1)], "service [('a', 0.1)] is wrong"),
    ],
)
def test_wrong_figures_are_refused_in_one_line(rate: float, service: object, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        MG1(rate=rate, service=service)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("p", [-0.1, 1, 99, math.nan])
def test_percentiles_take_shares(p: float) -> None:
    for percentile in (md1(0.5, 1).wait_percentile, md1(0.5, 1).percentile_in_system):
        with pytest.raises(ParameterError):
            percentile(p)


@pytest.mark.parametrize("service", [Exponential(0.0), constant(0.0), Discrete(((0.5, 0.0), (0.5, 0.0)))])
def test_no_work_is_no_wait(service: Discrete | Exponential) -> None:
    m = MG1(3.0, service)
    assert (m.utilisation, m.mean_wait, m.mean_in_system, m.pmf(0), m.pmf(1)) == (0, 0, 0, 1, 0)
    assert (m.wait_cdf(0), m.wait_percentile(0.99), m.time_in_system_percentile(0.99)) == (1, 0, 0)


def test_nothing_arrives() -> None:
    m = MG1(0.0, [(0.5, 1.0), (0.5, 3.0)])
    assert (m.mean_wait, m.mean_time_in_system, m.mean_in_system, m.pmf(0)) == (0, 2, 0, 1)
    assert m.time_in_system_percentile(0.99) == pytest.approx(3)
    assert (m.wait_cdf(-1), m.wait_cdf(0), m.pmf(-1), m.pmf(0.5)) == (0, 1, 0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("idle", [1e-3, 1e-5, 1e-6, 1e-8, 1e-11, 1e-15])
@pytest.mark.parametrize("name", SERVICES)
def test_close_to_saturation_waits_are_exponential(name: str, idle: float) -> None:
    points = SERVICES[name]
    rate = (1 - idle) / sum(p * s for p, s in points)
    m = MG1(rate, points)
    # heavy traffic, but for terms as small as the idle time
    expected = math.log(100) * m.mean_wait
    assert m.wait_percentile(0.99) == pytest.approx(expected, rel=10 * idle + 1e-6)
    assert m.percentile_in_system(0.99) == pytest.approx(expected * rate, rel=10 * idle + 1e-6, abs=5)
    assert m.wait_cdf(expected) == pytest.approx(0.99, abs=idle + 1e-6)


def test_rare_services_during_which_crowds_come_have_figures_too() -> None:
    m = MG1(45_000.0, [(1 - 1e-6, 1e-6), (1e-6, 10.0)])
    assert m.pmf(0) == pytest.approx(1 - m.utilisation)
    n = m.percentile_in_system(0.99)
    assert m.cdf_in_system(n) == pytest.approx(0.99, abs=1e-4)
    assert n == pytest.approx(m.rate * m.time_in_system_percentile(0.99), rel=1e-5)
    assert m.wait_percentile(0.9) < m.wait_percentile(0.99) < m.wait_percentile(0.999)
