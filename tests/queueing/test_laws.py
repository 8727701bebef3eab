"""Laws of queues: scaling, conservation, order; held for any rates and service times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.queueing.oracles import simulated

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import StreamInput
from headgate.model.profile import Profile
from headgate.queueing import MG1
from headgate.queueing.latency_models import ByPriority, OnServer
from headgate.queueing.load_model import LoadModel
from headgate.queueing.prediction import LoadPrediction

loads = st.floats(0.01, 0.99)
times = st.floats(1e-6, 10.0)


@st.composite
def services(draw: st.DrawFn) -> list[tuple[float, float]]:
    weights = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    seconds = draw(st.lists(st.integers(1, 400), min_size=len(weights), max_size=len(weights)))
    unit_s = draw(st.sampled_from([1.0, 0.001, 0.03]))
    return [(w / sum(weights), s * unit_s) for w, s in zip(weights, seconds, strict=True)]


def queue(points: list[tuple[float, float]], load: float) -> MG1:
    return MG1(load / sum(p * s for p, s in points), points)


@settings(max_examples=40, deadline=None)
@given(services(), loads, st.floats(0.01, 100))
def test_speed_and_rate_times_k_keep_the_queue_and_divide_the_wait(
    points: list[tuple[float, float]], load: float, k: float
) -> None:
    m = queue(points, load)
    faster = MG1(k * m.rate, [(p, s / k) for p, s in points])
    assert faster.mean_in_system == pytest.approx(m.mean_in_system, rel=1e-9)
    assert faster.var_in_system == pytest.approx(m.var_in_system, rel=1e-9)
    assert faster.mean_wait * k == pytest.approx(m.mean_wait, rel=1e-9)
    assert faster.var_wait * k * k == pytest.approx(m.var_wait, rel=1e-9)
    assert faster.wait_percentile(0.95) * k == pytest.approx(m.wait_percentile(0.95), rel=1e-6, abs=1e-9)
    assert [faster.pmf(n) for n in range(5)] == pytest.approx([m.pmf(n) for n in range(5)], abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(services(), loads)
def test_queue_lengths_are_rates_times_waits(points: list[tuple[float, float]], load: float) -> None:
    m = queue(points, load)
    assert m.mean_in_system == pytest.approx(m.rate * m.mean_time_in_system, rel=1e-12)
    # what Little's law is to means: a departing tuple leaves behind what came while it was there
    squared = m.var_in_system + m.mean_in_system**2
    times_squared = m.var_time_in_system + m.mean_time_in_system**2
    assert squared - m.mean_in_system == pytest.approx(m.rate**2 * times_squared, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(services(), st.floats(0.05, 0.9), st.integers(0, 2**32))
def test_every_order_that_never_idles_is_done_at_the_same_time(
    points: list[tuple[float, float]], load: float, seed: int
) -> None:
    m = queue(points, load)
    generator = np.random.default_rng(seed)
    chances, seconds = zip(*points, strict=True)
    services_s = generator.choice(seconds, 2_000, p=np.array(chances))
    arrivals_s = np.cumsum(generator.exponential(1 / m.rate, 2_000))
    first, last = (_served(arrivals_s, services_s, newest) for newest in (False, True))
    # whoever is served, the number in system is the same if all take the same time
    if len(set(seconds)) == 1:
        assert np.sort(first) == pytest.approx(np.sort(last), rel=1e-9)
    # the last done is done at the same time under every order that does not idle
    assert first.max() == pytest.approx(last.max(), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 5), st.floats(0.01, 2), st.integers(0, 3)), min_size=1, max_size=5),
    st.floats(0.05, 0.95),
)
def test_waits_weighted_by_load_are_conserved_under_every_priority(
    classes: list[tuple[float, float, int]], load: float
) -> None:
    names = [f"c{number}" for number in range(len(classes))]
    network = Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in names),
        (),
        tuple(Synthetic(f"{name}.1", (StreamInput(name, name, ()),)) for name in names),
        tuple(QueryDefinition(name, (f"{name}.1",), SinkDefinition("none")) for name in names),
    )
    slower = load / sum(rate * seconds for rate, seconds, _ in classes)
    rates = {name: rate for name, (rate, _, _) in zip(names, classes, strict=True)}
    profiles = {
        f"{name}.1": Profile(seconds * slower) for name, (_, seconds, _) in zip(names, classes, strict=True)
    }
    plan = LoadModel(network, profiles, rates)
    levels = {f"{name}.1": level for name, (_, _, level) in zip(names, classes, strict=True)}
    conserved = {weighted_waits(model.predict(plan), plan) for model in (OnServer(), ByPriority(levels))}
    assert max(conserved) == pytest.approx(min(conserved), rel=1e-6)


def weighted_waits(figures: LoadPrediction, plan: LoadModel) -> float:
    return sum(
        plan.busy[path.operators[0]] * (path.latency.mean_s - plan.seconds(path.operators[0]))
        for path in figures.paths
    )


def _served(arrivals_s: np.ndarray, services_s: np.ndarray, newest: bool) -> np.ndarray:
    """When each is done under first or last come, first served."""
    done, waiting, now_s, coming = np.zeros(len(arrivals_s)), [], 0.0, 0
    while coming < len(arrivals_s) or waiting:
        if not waiting:
            now_s = max(now_s, arrivals_s[coming])
        while coming < len(arrivals_s) and arrivals_s[coming] <= now_s:
            waiting.append(coming)
            coming += 1
        chosen = waiting.pop() if newest else waiting.pop(0)
        now_s += services_s[chosen]
        done[chosen] = now_s
    return done


def test_last_come_first_served_waits_as_long_on_average() -> None:
    m = MG1(0.4, [(0.5, 1.0), (0.5, 3.0)])
    generator = np.random.default_rng(3)
    services_s = generator.choice([1.0, 3.0], 200_000)
    arrivals_s = np.cumsum(generator.exponential(1 / m.rate, len(services_s)))
    waits_s = _served(arrivals_s, services_s, newest=True) - arrivals_s - services_s
    batches = waits_s.reshape(20, -1).mean(axis=1)
    assert abs(batches.mean() - m.mean_wait) < 3.9 * batches.std(ddof=1) / 20**0.5


@settings(max_examples=40, deadline=None)
@given(services(), loads, st.floats(0.5, 0.999))
def test_more_load_is_more_wait(points: list[tuple[float, float]], load: float, p: float) -> None:
    low, high = queue(points, load * 0.9), queue(points, load)
    assert low.mean_wait < high.mean_wait
    assert low.wait_percentile(p) <= high.wait_percentile(p)
    assert low.wait_cdf(points[0][1]) >= high.wait_cdf(points[0][1]) - 1e-9
    assert low.percentile_in_system(p) <= high.percentile_in_system(p)


@settings(max_examples=60, deadline=None)
@given(services(), loads)
def test_probabilities_are_none_below_0_and_sum_to_1(points: list[tuple[float, float]], load: float) -> None:
    m = queue(points, load)
    end = m.percentile_in_system(1 - 1e-12)
    chances = [m.pmf(n) for n in range(end + 1)]
    assert min(chances) >= 0 and sum(chances) == pytest.approx(1, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(times, loads)
def test_splitting_one_time_into_equal_ones_changes_nothing(seconds: float, load: float) -> None:
    one = MG1(load / seconds, [(1.0, seconds)])
    same = MG1(load / seconds, [(0.25, seconds), (0.75, seconds)])
    for t in (0.3 * seconds, seconds, 4.2 * seconds):
        assert same.wait_cdf(t) == pytest.approx(one.wait_cdf(t), abs=1e-9)
    assert same.wait_percentile(0.99) == pytest.approx(one.wait_percentile(0.99), rel=1e-9)


def test_the_oracle_itself_counts_right() -> None:
    run = simulated(1e-9, np.ones(100), seed=1)
    assert run.waits_s.max() == 0 and run.found.max() == 0 and run.times_s == pytest.approx(1.0, abs=1e-6)
