"""Ticks whose lengths vary, and what is not known of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.queueing.plans import plan_named, slower

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile, TickCosts
from headgate.queueing.advice import advise
from headgate.queueing.latency_models import OnServer
from headgate.queueing.load_model import LoadModel
from headgate.queueing.prediction import TickLatency
from headgate.queueing.recorded_arrivals import Dispersion
from headgate.queueing.tick_model import InTicks


def simulated_s(variation: float, ticks: int = 300_000) -> np.ndarray:
    """Latencies of tuples that arrive at random, in ticks whose lengths are drawn."""
    generator = np.random.default_rng(4)
    lengths = generator.gamma(variation**-2, variation**2, ticks)
    begins = np.concatenate([[0.0], np.cumsum(lengths)])
    arrivals = generator.uniform(0, begins[-2], ticks)
    following = np.searchsorted(begins, arrivals, side="right")
    return np.asarray(begins[following + 1] - arrivals)


@pytest.mark.parametrize("variation", [0.05, 0.3, 1.0])
def test_latency_in_ticks_is_as_simulated(variation: float) -> None:
    found, latencies = TickLatency(1.0, variation), simulated_s(variation)
    assert found.mean_s == pytest.approx(latencies.mean(), rel=0.01)
    assert found.delay.var_s == pytest.approx(latencies.var(), rel=0.03)
    for share in (0.5, 0.9, 0.99):
        assert found.percentile(share) == pytest.approx(np.percentile(latencies, 100 * share), rel=0.02)
    assert TickLatency(7.0, variation).percentile(0.9) == pytest.approx(7 * found.percentile(0.9))


def test_even_ticks_take_from_one_to_two_of_them() -> None:
    even = TickLatency(0.4)
    assert [even.percentile(p) for p in (0.0, 0.5, 0.99)] == pytest.approx([0.4, 0.6, 0.796])
    assert even.mean_s == pytest.approx(0.6) and even.delay.var_s == pytest.approx(0.16 / 12)
    # a little unevenness changes little
    assert TickLatency(0.4, 0.003).percentile(0.99) == pytest.approx(0.796, rel=0.01)


def one_operator(rate: float, seconds: float, selectivity: float = 1.0) -> LoadModel:
    """A selection and what follows it: the second operator takes nine times as long."""
    operators = (
        Synthetic("a", (StreamInput("s", "s", ()),)),
        Synthetic("b", (OperatorInput("a"),)),
    )
    network = Network(
        (StreamDefinition("s", "synthetic", None),),
        (),
        operators,
        (QueryDefinition("q", ("b",), SinkDefinition("none")),),
    )
    first_s = seconds / (1 + 9 * selectivity)
    profiles = {"a": Profile(first_s, selectivity), "b": Profile(9 * first_s)}
    return LoadModel(network, profiles, {"s": rate})


def ticks_in_sequence(
    model: InTicks, plan: LoadModel, batch: int, number: int = 40_000
) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of ticks one after the other, and the latency of every tuple.

    Tuples arrive in batches, at random instants; a tick does the work of those that arrived during the one
    before it, and is longer or shorter by noise.
    """
    generator, mean_s = np.random.default_rng(9), model.tick_s(plan)
    rate, selectivity = plan.rates["s"], plan.profiles["a"].selectivity
    costs_s = [model.work_s * plan.profiles[name].seconds_per_tuple for name in "ab"]
    length_s, lengths, latencies = mean_s, [], []
    for noise_s in generator.normal(0.0, model.spread * mean_s, number):
        tuples = batch * generator.poisson(rate * length_s / batch)
        passing = generator.binomial(tuples, selectivity)
        next_s = model.overhead_s + costs_s[0] * tuples + costs_s[1] * passing + noise_s
        rest_s = np.repeat(generator.uniform(0.0, length_s, tuples // batch), batch)
        latencies.append(rest_s + next_s)
        lengths.append(length_s)
        length_s = max(1e-3, next_s)
    return np.array(lengths), np.concatenate(latencies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "plan", "batch"),
    [
        (InTicks(0.5, spread=0.1), one_operator(100.0, 5e-3), 1),
        (InTicks(0.2, spread=0.05), one_operator(200.0, 4e-3), 1),
        (InTicks(0.2), one_operator(40.0, 20e-3, selectivity=0.1), 1),
        (InTicks(0.3), one_operator(200.0, 3e-3), 20),
        (InTicks(0.4, processors=2, spread=0.1, efficiency=0.9), one_operator(100.0, 9e-3, 0.5), 5),
    ],
    ids=["noise", "busy", "uneven work", "bursts", "all of it"],
)
def test_latencies_are_those_of_ticks_in_sequence(model: InTicks, plan: LoadModel, batch: int) -> None:
    # batches at random have the same index of dispersion at all scales
    bursty = replace(plan, dispersions={"s": (Dispersion(1.0, float(batch), 100),)})
    lengths, latencies = ticks_in_sequence(model, plan, batch)
    found = model.predict(bursty).paths[0].latency
    assert isinstance(found, TickLatency)
    assert found.tick_s == pytest.approx(lengths.mean(), rel=0.02)
    assert found.variation == pytest.approx(lengths.std() / lengths.mean(), rel=0.05)
    assert found.mean_s == pytest.approx(latencies.mean(), rel=0.02)
    assert found.delay.var_s == pytest.approx(latencies.var(), rel=0.1)
    for share in (0.5, 0.9, 0.99):
        assert found.percentile(share) == pytest.approx(np.quantile(latencies, share), rel=0.04), share


def test_bursts_make_ticks_uneven_and_latencies_long() -> None:
    plan, model = one_operator(1000.0, 8e-4), InTicks(0.2)
    p99_s = [
        model.predict(replace(plan, dispersions={"s": (Dispersion(1.0, index, 100),)})).latency_s("q", 0.99)
        for index in (0.0, 1.0, 30.0, 300.0)
    ]
    # ticks of a second; those of clockwork are even
    assert p99_s[0] == pytest.approx(1.99)
    assert p99_s == sorted(p99_s) and p99_s[1] < 2.2 and p99_s[-1] > 3
    assert model.predict(plan).latency_s("q", 0.99) == p99_s[1]


def test_measured_ticks_know_their_processors_and_their_errors() -> None:
    costs = TickCosts(0.2, 1e-5, 0.6, spread=0.3, samples=12, work_error=0.1)
    model = InTicks.measured(costs, processors=4)
    assert model.processors == 4 and model.work_s == pytest.approx(0.6)
    assert (model.spread, model.error, model.work_error) == (0.3, pytest.approx(0.15), 0.1)
    worse = model.off_by(2.0)
    assert worse.overhead_s == pytest.approx(0.2 * 1.3) and worse.intake_s == pytest.approx(1.3e-5)
    assert worse.work_s == pytest.approx(0.6 * 1.3 * 1.2)
    assert model.off_by(-20.0).overhead_s > 0


def test_no_tick_is_promised_to_be_shorter_than_those_seen_if_these_do_not_tell_what_is_fixed() -> None:
    few = slower(plan_named("path", 0.5, latency_s=3.0), 1e-3)
    # many tuples, each of which takes little, so that their number hardly varies
    plan = LoadModel(few.network, few.profiles, {"r": 1000.0})
    # on a busy machine, ticks may differ so much that nothing seems to be fixed
    hidden = InTicks.measured(TickCosts(0.0, 0.0, 0.5, overhead_error_s=0.7, least_s=0.9), processors=2)
    assert hidden.tick_s(plan) == hidden.shortest_s == 0.9
    found = advise(plan, hidden)
    assert found.prediction is not None and found.prediction.latency_s("q", 0.5) >= 0.9
    # twice 0.7 s of overhead would be too much
    assert found.fits and not found.is_sure
    # where it is known, ticks with less to do may well be shorter
    known = InTicks.measured(TickCosts(0.2, 0.0, 0.5, overhead_error_s=0.01, least_s=0.9), processors=2)
    assert known.tick_s(plan.scaled(0)) == pytest.approx(0.22)
    # stated costs are taken as they are
    assert InTicks.measured(TickCosts(0.2, 0.0, 0.5)).tick_s(plan.scaled(0)) == 0.2


@pytest.mark.parametrize("model", [InTicks(1.0), OnServer()])
def test_costs_that_are_hardly_known_make_an_answer_unsure(model: InTicks | OnServer) -> None:
    plan = plan_named("path", 0.5, latency_s=20.0)
    assert advise(plan, model).is_sure
    vague = {
        name: Profile(own.seconds_per_tuple, own.selectivity, 100.0, 9, own.seconds_per_tuple)
        for name, own in plan.profiles.items()
    }
    found = advise(LoadModel(plan.network, vague, plan.rates), model)
    # twice as dear, one processor is not enough
    assert found.fits and not found.is_sure and not found.queries["q"].is_sure
    assert found.sure_factor < 1 < found.largest_factor
