"""Whole plans: predicted composed along paths, beside the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.queueing.plans import plan_named, simulated_plan, slower

from headgate.model.joins import FullWindowJoin, JoinSide, LeftWindowJoin, WindowJoin
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Project, Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.model.window import RowWindow, TimeWindow, Window
from headgate.queueing import MG1, Overloaded, ParameterError, md1
from headgate.queueing.latency_models import ByPriority, OnServer, OwnServers, waiting_share
from headgate.queueing.load_model import LoadModel, mixture, work_by_operator
from headgate.queueing.prediction import LoadPrediction
from headgate.queueing.recorded_arrivals import Dispersion
from headgate.queueing.tick_model import InTicks
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool
from headgate.simulator.virtual_engine import static_priority

PLANS = ("path", "two paths", "two queries of a stream", "join")


def one_operator(seconds: float = 0.5, selectivity: float = 0.3) -> LoadModel:
    network = Network(
        (StreamDefinition("s", "synthetic", None),),
        (),
        (Synthetic("a", (StreamInput("s", "s", ()),)),),
        (QueryDefinition("q", ("a",), SinkDefinition("none")),),
    )
    return LoadModel(network, {"a": Profile(seconds, selectivity, 10.0)}, {"s": 1.6})


def priorities(plan: LoadModel, strategy: str) -> ByPriority:
    found = static_priority(strategy_named(strategy), plan.network, plan.profiles)
    assert found is not None
    return ByPriority(dict(zip(plan.network.operators, found.levels, strict=True)))


def mean_latency(predicted: LoadPrediction, plan: LoadModel, query: str) -> float:
    """Over all results of a query: each path by what it puts out."""
    total = weighted = 0.0
    for path in predicted.paths_of(query):
        rate = plan.leaf_rate(path.operators[0])
        rate *= float(np.prod([plan.profiles[name].selectivity for name in path.operators]))
        total, weighted = total + rate, weighted + rate * path.latency.mean_s
    return weighted / total


def test_one_operator_is_one_queue_under_every_model() -> None:
    plan, queue = one_operator(), md1(1.6, 0.5)
    for model in (OnServer(), ByPriority({"a": 0}), OwnServers()):
        predicted = model.predict(plan)
        [path] = predicted.paths
        assert predicted.utilisation == pytest.approx(0.8)
        assert path.latency.mean_s == pytest.approx(queue.mean_time_in_system)
        assert predicted.operators["a"].tuples == pytest.approx(queue.mean_in_system)
        assert predicted.operators["a"].bytes == pytest.approx(10 * queue.mean_in_system)
        assert predicted.memory["q"].var_s == pytest.approx(100 * queue.var_in_system)
        # a gamma distribution in place of the true one, but on one server
        exact = queue.time_in_system_percentile(0.99)
        assert path.latency.percentile(0.99) == pytest.approx(
            exact, rel=1e-9 if model == OnServer() else 0.05
        )
        assert predicted.queue_bytes("q", 0.99) == pytest.approx(
            10 * queue.percentile_in_system(0.99), rel=0.1
        )


def merging(rates: dict[str, float]) -> LoadModel:
    """An operator over streams, and over another operator whose output is far from Poisson."""
    streams = tuple(StreamDefinition(name, "synthetic", None) for name in ("busy", *rates))
    read = tuple(StreamInput(name, name, ()) for name in rates)
    network = Network(
        streams,
        (),
        (
            Synthetic("below", (StreamInput("busy", "busy", ()),)),
            Synthetic("merge", (*read, OperatorInput("below"))),
        ),
        (QueryDefinition("q", ("merge",), SinkDefinition("none")),),
    )
    profiles = {"below": Profile(0.18, 1.0), "merge": Profile(0.08, 1.0)}
    return LoadModel(network, profiles, {"busy": 5.0, **rates})


def test_a_poisson_stream_in_two_parts_makes_no_difference_where_operators_have_servers() -> None:
    whole, parts = merging({"r": 5.0}), merging({"r": 2.0, "s": 3.0})
    one, two = (OwnServers().predict(plan).operators["merge"].delay for plan in (whole, parts))
    assert two.mean_s == pytest.approx(one.mean_s)
    assert two.percentile(0.99) == pytest.approx(one.percentile(0.99))
    assert two.mean_s == pytest.approx(simulated_merge_s(), rel=0.05)


def simulated_merge_s() -> float:
    """Mean time at the operator that merges, by Lindley's recursion over single tuples."""
    generator = np.random.default_rng(3)

    def poisson() -> np.ndarray:
        return np.cumsum(generator.exponential(1 / 5.0, 150_000))

    def served(arrivals: np.ndarray, seconds: float) -> np.ndarray:
        # a tuple leaves a service after the later of its arrival and the departure before it
        steps = np.arange(len(arrivals)) * seconds
        return np.maximum.accumulate(arrivals - steps) + steps + seconds

    merged = np.sort(np.concatenate([poisson(), served(poisson(), 0.18)]))
    return float((served(merged, 0.08) - merged).mean())


@pytest.mark.parametrize("load", [0.3, 0.8])
@pytest.mark.parametrize("name", PLANS)
def test_first_in_first_out_on_one_processor_is_as_simulated(name: str, load: float) -> None:
    plan = plan_named(name, load)
    predicted, run = OnServer().predict(plan), simulated_plan(plan, "fifo", Pool(1))
    backlog = sum(operator.tuples for operator in predicted.operators.values())
    assert backlog == pytest.approx(run.result.backlog.mean, rel=0.08)
    for query in plan.network.queries:
        latencies = run.latencies_s(query)
        assert mean_latency(predicted, plan, query) == pytest.approx(latencies.mean(), rel=0.08)
        assert predicted.latency_s(query, 0.99) == pytest.approx(np.percentile(latencies, 99), rel=0.1)


@pytest.mark.parametrize("name", PLANS)
def test_first_in_first_out_on_three_processors_is_nearly_as_simulated(name: str) -> None:
    plan = plan_named(name, 2.1)
    predicted, run = OnServer(3).predict(plan), simulated_plan(plan, "fifo", Pool(3))
    assert predicted.utilisation == pytest.approx(0.7)
    for query in plan.network.queries:
        latencies = run.latencies_s(query)
        assert mean_latency(predicted, plan, query) == pytest.approx(latencies.mean(), rel=0.2)
        assert predicted.latency_s(query, 0.99) == pytest.approx(np.percentile(latencies, 99), rel=0.2)


@pytest.mark.parametrize("strategy", ["chain", "greedy", "path-capacity"])
@pytest.mark.parametrize("name", PLANS)
def test_static_priorities_are_nearly_as_simulated(name: str, strategy: str) -> None:
    plan = plan_named(name, 0.6)
    predicted, run = priorities(plan, strategy).predict(plan), simulated_plan(plan, strategy, Pool(1))
    for query in plan.network.queries:
        latencies = run.latencies_s(query)
        assert mean_latency(predicted, plan, query) == pytest.approx(latencies.mean(), rel=0.2)
        assert predicted.latency_s(query, 0.99) == pytest.approx(np.percentile(latencies, 99), rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_servers_of_their_own_are_nearly_as_simulated(name: str) -> None:
    plan = plan_named(name)
    plan = slower(plan, 0.7 / max(plan.busy.values()))
    predicted, run = OwnServers().predict(plan), simulated_plan(plan, "fifo", OnePerOperator())
    assert predicted.utilisation == pytest.approx(0.7)
    for query in plan.network.queries:
        latencies = run.latencies_s(query)
        assert mean_latency(predicted, plan, query) == pytest.approx(latencies.mean(), rel=0.1)
        assert predicted.latency_s(query, 0.99) == pytest.approx(np.percentile(latencies, 99), rel=0.25)


def test_two_classes_wait_as_cobham_says() -> None:
    network = Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in "rs"),
        (),
        tuple(Synthetic(f"{name}1", (StreamInput(name, name, ()),)) for name in "rs"),
        tuple(QueryDefinition(name, (f"{name}1",), SinkDefinition("none")) for name in "rs"),
    )
    plan = LoadModel(network, {"r1": Profile(0.2), "s1": Profile(0.5)}, {"r": 2.0, "s": 0.8})
    predicted = ByPriority({"r1": 0, "s1": 1}).predict(plan)
    left = (2.0 * 0.2**2 + 0.8 * 0.5**2) / 2
    assert predicted.paths_of("r")[0].latency.mean_s == pytest.approx(left / (1 - 0.4) + 0.2)
    assert predicted.paths_of("s")[0].latency.mean_s == pytest.approx(left / ((1 - 0.4) * (1 - 0.8)) + 0.5)
    # conservation: work that waits is the same under any order
    fifo = OnServer().predict(plan)
    assert sum(
        plan.busy[f"{n}1"] * (predicted.paths_of(n)[0].latency.mean_s - plan.seconds(f"{n}1")) for n in "rs"
    ) == pytest.approx(
        sum(plan.busy[f"{n}1"] * (fifo.paths_of(n)[0].latency.mean_s - plan.seconds(f"{n}1")) for n in "rs")
    )


def test_a_pool_waits_as_erlang_says() -> None:
    # M/M/2 at load 0.5: P(wait) = 1/3
    assert waiting_share(2, 0.5) * 0.5 == pytest.approx(1 / 3)
    assert waiting_share(1, 0.7) == pytest.approx(1.0)
    assert waiting_share(5, 0.0) == 0


def test_the_work_of_a_tuple_is_what_becomes_of_it() -> None:
    plan = plan_named("path")
    a, b, c = (plan.seconds(f"r.{n}") for n in (1, 2, 3))
    work = sorted(work_by_operator(plan)["r.1"], key=lambda point: point[1])
    assert [p for p, _ in work] == pytest.approx([0.5, 0.25, 0.25])
    assert [s for _, s in work] == pytest.approx([a, a + b, a + b + c])
    for name in PLANS:
        made = plan_named(name, 0.6)
        rates = [
            (made.leaf_rate(leaf), work_by_operator(made)[leaf])
            for s in made.rates
            for leaf in made.network.leaves(s)
        ]
        assert sum(r * sum(p * s for p, s in w) for r, w in rates) == pytest.approx(0.6)
        assert mixture(rates).moments[0] > 0


def test_ticks_grow_until_they_take_what_comes() -> None:
    # of clockwork, so that ticks are even
    plan = replace(one_operator(seconds=0.5), dispersions={"s": (Dispersion(1.0, 0.0, 100),)})
    model = InTicks(overhead_s=0.3)
    tick_s = model.tick_s(plan)
    assert tick_s == pytest.approx(0.3 + 1.6 * tick_s * 0.5)
    predicted = model.predict(plan)
    assert predicted.latency_s("q", 0.0) == pytest.approx(tick_s)
    assert predicted.latency_s("q", 0.5) == pytest.approx(1.5 * tick_s)
    assert predicted.operators["a"].tuples == pytest.approx(1.6 * 1.5 * tick_s)
    assert InTicks(0.3, processors=2).tick_s(plan) == pytest.approx(0.3 / 0.6)
    with pytest.raises(Overloaded) as raised:
        model.predict(plan.scaled(1.3))
    assert raised.value.utilisation == pytest.approx(1.04)


def join_of(kind: type[WindowJoin], windows: dict[str, Window]) -> LoadModel:
    sides = tuple(
        JoinSide(StreamInput(s, s, ("k",)), s, s, window, (n, n))
        for n, (s, window) in enumerate(windows.items())
    )
    network = Network(
        tuple(StreamDefinition(s, "synthetic", None, idle_after_us=1_000_000) for s in "rs"),
        (),
        (kind("j", sides, ()),),
        (QueryDefinition("q", ("j",), SinkDefinition("none")),),
    )
    return LoadModel(network, {"j": Profile(1e-3, 2.0, 10.0)}, {"r": 100.0, "s": 5.0})


def test_an_outer_join_keeps_the_other_side_for_both_windows() -> None:
    windows: dict[str, Window] = {"r": TimeWindow(4_000_000), "s": TimeWindow(2_000_000)}
    assert join_of(WindowJoin, windows).state_tuples("j") == pytest.approx(400 + 10)
    assert join_of(LeftWindowJoin, windows).state_tuples("j") == pytest.approx(400 + 30)
    assert join_of(FullWindowJoin, windows).state_tuples("j") == pytest.approx(600 + 30)


def test_a_join_in_order_waits_for_the_other_stream() -> None:
    plan = join_of(WindowJoin, {"r": TimeWindow(4_000_000), "s": RowWindow(50)})
    assert plan.arriving["j"] == 105
    assert plan.state_tuples("j") == pytest.approx(400 + 50)
    predicted = OnServer().predict(plan)
    assert predicted.state_bytes(plan, "q") == pytest.approx(4500)
    # the tuples of r wait for the next one of s
    latency_s = predicted.latency_s("q", 0.5)
    assert 0.1 < latency_s < 0.3
    silent = LoadModel(plan.network, plan.profiles, {"r": 100.0, "s": 0.0})
    assert OnServer().predict(silent).latency_s("q", 0.5) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("model", [OnServer(), InTicks(0.1), ByPriority({"a": 0}), OwnServers()])
def test_an_overloaded_plan_has_no_figures(model: OnServer) -> None:
    with pytest.raises(Overloaded) as raised:
        model.predict(one_operator().scaled(2))
    assert raised.value.utilisation == pytest.approx(1.6)
    enough = model.with_processors(2).predict(one_operator().scaled(2))
    assert enough.utilisation == pytest.approx(0.8)


def test_bad_plans_are_refused() -> None:
    plan = one_operator()
    for rates in ({}, {"s": -1.0}, {"s": float("nan")}, {"s": 1.0, "t": 1.0}):
        with pytest.raises(ParameterError):
            LoadModel(plan.network, plan.profiles, rates)
    with pytest.raises(ParameterError, match="operator a has no profile; headgate profile makes one"):
        LoadModel(plan.network, {}, plan.rates)
    with pytest.raises(ParameterError):
        OnServer(0)
    with pytest.raises(ParameterError):
        InTicks(-1.0)
    with pytest.raises(ParameterError):
        ByPriority({}).predict(plan)


def test_nothing_comes_and_nothing_waits() -> None:
    for model in (OnServer(), InTicks(0.2), ByPriority({"a": 0}), OwnServers()):
        predicted = model.predict(one_operator().scaled(0))
        assert predicted.operators["a"].tuples == 0 and predicted.queue_bytes("q", 0.99) == 0
        assert predicted.latency_s("q", 0.99) > 0


def test_many_values_of_work_keep_their_mean() -> None:
    plan = plan_named("join", 0.5)
    profiles = {n: Profile(p.seconds_per_tuple, 7.3 if n == "j" else 0.9) for n, p in plan.profiles.items()}
    many = LoadModel(plan.network, profiles, plan.rates)
    work = work_by_operator(many)["a"]
    seconds = {n: many.seconds(n) for n in "ajp"}
    assert sum(p * s for p, s in work) == pytest.approx(
        seconds["a"] + 0.9 * (seconds["j"] + 7.3 * seconds["p"])
    )
    assert isinstance(MG1(0.001, work), MG1)


def joined(left: Window, right: Window) -> LoadModel:
    """A join whose tuples met three others each when it was measured."""
    sides = tuple(
        JoinSide(StreamInput(name, name, ()), name, name, window, (place, place))
        for place, (name, window) in enumerate((("a", left), ("b", right)))
    )
    join = WindowJoin("j", sides, ())
    network = Network(
        (StreamDefinition("a", "synthetic", None), StreamDefinition("b", "synthetic", None)),
        (),
        (join, Project("p", OperatorInput("j"), ())),
        (QueryDefinition("q", ("p",), SinkDefinition("none")),),
    )
    profiles = {"j": Profile(4e-6, 3.0, 100.0), "p": Profile(1e-6, 1.0, 100.0)}
    return LoadModel(network, profiles, {"a": 10.0, "b": 30.0})


def test_windows_by_time_hold_more_matches_at_higher_rates() -> None:
    plan = joined(TimeWindow(5_000_000), TimeWindow(2_000_000))
    twice = plan.scaled(2)
    assert twice.profile["j"].selectivity == pytest.approx(6.0)
    # a match costs a fiftieth of the tuple that finds it
    assert twice.profile["j"].seconds_per_tuple == pytest.approx(4e-6 * (1 + 6 / 50) / (1 + 3 / 50))
    # a join's results grow with the square of the rates
    assert twice.arriving["p"] == pytest.approx(4 * plan.arriving["p"])
    assert twice.scaled(0.5).profile == plan.profile
    # by the formula of the cost model: each side meets the other one's window
    uneven = plan.at({"a": 10.0, "b": 90.0})
    before, now = (10 * 30 * 2 + 30 * 10 * 5) / 40, (10 * 90 * 2 + 90 * 10 * 5) / 100
    assert uneven.profile["j"].selectivity == pytest.approx(3 * now / before)


def test_windows_by_rows_hold_the_same_at_any_rate() -> None:
    plan = joined(RowWindow(100), RowWindow(100))
    assert plan.scaled(7).profile == plan.profile
    assert plan.with_windows("q", 0.5).profile["j"].selectivity == pytest.approx(1.5)
