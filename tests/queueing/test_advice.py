"""Advice and drift: what breaks, when, and what would help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.queueing.plans import plan_named

from headgate.model.joins import JoinSide, WindowJoin
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Project
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile, TickCosts
from headgate.model.window import TimeWindow
from headgate.queueing import LatencyBound, ParameterError, largest_rate
from headgate.queueing.advice import Drift, advise, broken_bounds
from headgate.queueing.latency_models import ByPriority, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel, mixture, work_by_operator
from headgate.queueing.recorded_arrivals import tick_latencies
from headgate.queueing.tick_model import InTicks

MODELS = [OnServer(), OnServer(3), InTicks(0.5), OwnServers()]


def joined(latency_s: float, rate: float = 100.0) -> LoadModel:
    sides = tuple(
        JoinSide(StreamInput(s, s, ("k",)), s, s, TimeWindow(2_000_000), (n, n)) for n, s in enumerate("rs")
    )
    network = Network(
        tuple(StreamDefinition(s, "synthetic", None) for s in "rs"),
        (),
        (WindowJoin("j", sides, ()), Project("p", OperatorInput("j"), ())),
        (QueryDefinition("q", ("p",), SinkDefinition("none"), latency_s=latency_s),),
    )
    return LoadModel(network, {"j": Profile(1e-3, 4.0), "p": Profile(1e-3, 1.0)}, {"r": rate, "s": rate})


def test_a_plan_within_its_bounds_fits_and_one_beyond_does_not() -> None:
    fits = advise(plan_named("path", 0.5, latency_s=60.0, memory_bytes=10_000), OnServer())
    assert fits.fits and fits.queries["q"].remedies is None and fits.largest_factor > 1
    late = advise(plan_named("path", 0.5, latency_s=2.0), OnServer())
    [broken] = late.queries["q"].broken
    assert not late.fits and broken.bound == "latency" and broken.times > 1
    assert late.prediction is not None
    assert broken.predicted == late.prediction.latency_s("q", 0.99)
    assert "latency p99 would be" in str(broken) and "its bound of 2 s" in str(broken)
    large = advise(plan_named("path", 0.5, memory_bytes=100), OnServer())
    assert large.queries["q"].broken[0].bound == "memory"


def test_what_is_read_at_a_cost_has_a_largest_rate_even_if_operators_cost_nothing() -> None:
    plan = plan_named("path", 0.5)
    free = replace(plan, profiles={name: Profile(0.0) for name in plan.profiles})
    assert advise(free, InTicks(0.5)).largest_factor == float("inf")
    [rate] = free.rates.values()
    found = advise(free, InTicks(0.5, intake_s=0.1 / rate))
    assert found.largest_factor == pytest.approx(10.0, rel=1e-3)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["path", "two paths", "two queries of a stream", "join"])
def test_the_largest_factor_keeps_the_bounds_and_a_little_more_breaks_them(
    name: str, model: LatencyModel
) -> None:
    plan = plan_named(name, 0.5, latency_s=8.0, memory_bytes=5_000)
    factor = advise(plan, model).largest_factor
    assert factor > 0
    assert not broken_bounds(plan.scaled(factor), model)
    assert broken_bounds(plan.scaled(factor * 1.001), model)


@pytest.mark.parametrize("model", [OnServer(), InTicks(0.3), ByPriority({"r.1": 0, "r.2": 1, "r.3": 2})])
def test_remedies_make_a_query_fit(model: LatencyModel) -> None:
    plan = plan_named("path", 1.4, latency_s=18.0)
    advice = advise(plan, model)
    assert advice.prediction is None and advice.utilisation == pytest.approx(1.4)
    assert advice.queries["q"].broken[0].bound == "capacity"
    remedies = advice.queries["q"].remedies
    assert remedies is not None and remedies.processors is not None and remedies.shed_share is not None
    assert not broken_bounds(plan, model.with_processors(remedies.processors))
    assert broken_bounds(plan, model.with_processors(remedies.processors - 1))
    assert not broken_bounds(plan.shedding("q", remedies.shed_share + 1e-9), model)
    assert broken_bounds(plan.shedding("q", remedies.shed_share - 0.001), model)
    assert remedies.window_factor is None
    assert str(remedies).startswith("it would fit with 2 processors, or shedding")


def test_one_query_can_shed_for_both() -> None:
    plan = plan_named("two queries of a stream", 1.2)
    advice = advise(plan, OnServer())
    for query, own in advice.queries.items():
        assert own.remedies is not None and own.remedies.shed_share is not None
        assert OnServer().predict(plan.shedding(query, own.remedies.shed_share + 1e-6)).utilisation < 1
    # half of one query's input is gone, all of the other's is there
    shed = plan.shedding("q1", 0.5)
    assert shed.arriving["r.1"] == plan.arriving["r.1"] / 2 and shed.arriving["b.1"] == plan.arriving["b.1"]
    work = mixture([(1.0, work_by_operator(shed)["r.1"]), (2.0, work_by_operator(shed)["b.1"])])
    assert shed.busy_processors == pytest.approx(work.moments[0] * 1.5 * plan.rates["r"])


def test_shorter_windows_help_a_join() -> None:
    plan = joined(latency_s=0.5)
    advice = advise(plan, OnServer())
    assert advice.prediction is None
    remedies = advice.queries["q"].remedies
    assert remedies is not None and remedies.window_factor is not None and 0 < remedies.window_factor < 1
    assert not broken_bounds(plan.with_windows("q", remedies.window_factor), OnServer())
    assert broken_bounds(plan.with_windows("q", remedies.window_factor * 1.01), OnServer())
    assert plan.with_windows("q", 0.5).state_tuples("j") == plan.state_tuples("j") / 2


def test_a_join_that_waits_for_a_slow_stream_is_told_apart() -> None:
    plan = joined(latency_s=0.2, rate=1.0)
    advice = advise(plan, OnServer())
    remedies = advice.queries["q"].remedies
    assert not advice.fits and remedies is not None and remedies.waits_for_order
    assert "waits for the next tuple of a slow stream" in str(remedies)


def test_the_largest_rate_of_one_queue_is_that_of_the_inverse_problem() -> None:
    plan = plan_named("path", 0.5, latency_s=5.0)
    one = LoadModel(plan.network, {**plan.profiles, "r.1": Profile(0.5, 0.0)}, {"r": 1.0})
    found = advise(one, OnServer()).largest_rates()["r"]
    path_s = sum(one.seconds(name) for name in one.network.operators)
    # what is left for the wait, and the service itself
    bound = LatencyBound(5.0 - path_s + 0.5)
    assert found == pytest.approx(largest_rate([(1.0, 0.5)], bound), rel=1e-3)


def test_ticks_are_as_measured() -> None:
    model = InTicks.measured(TickCosts(0.2, 1e-5, 0.6))
    assert (model.processors, model.overhead_s) == (2, 0.2)
    assert model.work_s == pytest.approx(0.6)
    assert model.with_processors(4).work_s == pytest.approx(0.3)
    plan = plan_named("path", 0.5)
    costs = TickCosts(0.2, 1e-5, 0.6)
    tick_s = model.tick_s(plan)
    assert tick_s == pytest.approx(costs.seconds(tick_s * 1.0, tick_s * 0.5))
    assert InTicks.measured(TickCosts(0.2, 0.0, 0.0)).processors == 1


def test_ticks_driven_by_poisson_arrivals_are_those_of_the_formula() -> None:
    plan = plan_named("path", 0.6)
    model = InTicks(50.0)
    arrivals = {"r": np.sort(np.random.default_rng(1).uniform(0, 40_000, 40_000))}
    latencies = tick_latencies(arrivals, {"r": plan.busy_processors}, 50.0)["r"]
    assert latencies.min() >= 50.0
    figures = model.predict(plan)
    assert latencies.mean() == pytest.approx(figures.paths[0].latency.mean_s, rel=0.05)
    assert np.percentile(latencies, 99) == pytest.approx(figures.latency_s("q", 0.99), rel=0.25)


def test_ticks_take_what_has_come() -> None:
    # ticks begin at 0 (nothing there), 1, 2.5 (took two), 3.75 (took one), 4.75
    found = tick_latencies({"s": np.array([0.1, 0.9, 1.5])}, {"s": 0.25}, 1.0)["s"]
    assert found == pytest.approx([2.4, 1.6, 2.25])
    alone = {"s": np.array([2.0, 9.0])}
    assert tick_latencies(alone, {"s": 0.5}, 0.0)["s"] == pytest.approx([0.5, 0.5])
    assert tick_latencies(alone, {"s": 0.5}, 0.0, 4.0)["s"] == pytest.approx([6.0, 7.0])


def test_drift_tells_when_a_query_will_break() -> None:
    plan = plan_named("path", 0.5, latency_s=8.0)
    watch = Drift(plan, OnServer(), horizon_s=1000)
    assert watch.warnings() == ()
    generator = np.random.default_rng(4)
    for tick in range(60):
        watch.observe(float(tick), {"r": 1.0 + 0.005 * tick + generator.normal(0, 0.01)})
    trend = watch.trends()["r"]
    assert trend.change_per_s2 == pytest.approx(0.005, rel=0.1)
    assert trend.per_s == pytest.approx(1.295, rel=0.02)
    [warning] = watch.warnings()
    # the rate that breaks it, reached at the true slope
    expected_s = (advise(plan, OnServer()).largest_factor - 1.295) / 0.005
    assert warning.in_s == pytest.approx(expected_s, rel=0.15, abs=3)
    assert str(warning).startswith("query q will break in")


def test_drift_takes_noise_for_no_trend_and_sees_what_is_broken() -> None:
    plan = plan_named("path", 0.5, latency_s=8.0)
    noisy = Drift(plan, OnServer(), horizon_s=10_000)
    generator = np.random.default_rng(2)
    for tick in range(60):
        noisy.observe(float(tick), {"r": 1.0 + generator.normal(0, 0.2)})
    assert noisy.trends()["r"].change_per_s2 == 0 and noisy.warnings() == ()
    broken = Drift(plan, OnServer())
    for tick in range(10):
        broken.observe(float(tick), {"r": 3.0})
    [warning] = broken.warnings()
    assert warning.in_s == 0 and warning.broken.bound == "capacity" and "breaks now" in str(warning)
    # only the last minute counts
    for tick in range(100, 161):
        broken.observe(float(tick), {"r": 0.5})
    assert broken.warnings() == ()


def test_drift_refuses_what_it_cannot_use() -> None:
    watch = Drift(plan_named("path"), OnServer())
    watch.observe(1.0, {"r": 1.0})
    for at_s, rates in ((0.5, {"r": 1.0}), (2.0, {"r": -1.0}), (2.0, {"x": 1.0})):
        with pytest.raises(ParameterError):
            watch.observe(at_s, rates)
    watch.learn(replace(plan_named("path"), rates={"r": 5.0}), OnServer())
