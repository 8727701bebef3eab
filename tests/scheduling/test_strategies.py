"""Every strategy, found by name, keeps the same promises."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.networks import chains
from tests.simulator.random_scenarios import scenarios

import headgate.scheduling
from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.scheduling import strategy_named, strategy_names
from headgate.simulator import Pool, Result, Scenario, simulate

NETWORK = chains(3, 1, 2)
PROFILES = {name: Profile(1e-3, 0.5) for name in NETWORK.operators}
EVERY = [name + ending for name in strategy_names() for ending in ("", "+oldest", "+aging")]
EVERY = [name for name in EVERY if name != "chain-flush-exact+aging"]
# for tests in which drawing a scenario, and serving it in order, is most of the work
QUARTERS = [EVERY[first::4] for first in range(4)]


def view(ready: dict[str, float], oldest_s: dict[str, float] | None = None) -> SystemView:
    ages = oldest_s or {}
    return SystemView(
        10.0,
        {
            name: QueueView(name, ready.get(name, 0), ready.get(name, 0), 1.0, ages.get(name, 0.0))
            for name in NETWORK.operators
        },
    )


def test_every_strategy_class_in_the_folder_is_in_the_registry() -> None:
    there = set()
    for module in pkgutil.iter_modules(headgate.scheduling.__path__):
        loaded = importlib.import_module(f"headgate.scheduling.{module.name}")
        for _, found in inspect.getmembers(loaded, inspect.isclass):
            if found.__module__ == loaded.__name__ and isinstance(getattr(found, "name", None), str):
                there.add(found.name)
    assert there == set(strategy_names())


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=40)
@given(ready=st.dictionaries(st.sampled_from(sorted(NETWORK.operators)), st.floats(1, 1e6)))
def test_a_strategy_is_idle_only_if_nothing_is_ready(name: str, ready: dict[str, float]) -> None:
    strategy = strategy_named(name)
    strategy.prepare(NETWORK, PROFILES)
    turn = strategy.choose(view(ready))
    if not ready:
        assert turn is None
    else:
        assert turn is not None
        assert turn.operators[0] in ready and 0 < turn.max_tuples <= ready[turn.operators[0]]
        assert turn.operators == NETWORK.path_from(turn.operators[0])[: len(turn.operators)]


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=15, deadline=None)
@given(arrivals=st.lists(st.floats(1, 2e4), min_size=3, max_size=3))
def test_a_strategy_drains_large_and_fractional_queues_in_few_turns(name: str, arrivals: list[float]) -> None:
    strategy = strategy_named(name)
    strategy.prepare(NETWORK, PROFILES)
    queues = {operator: ForecastQueue(0.0, 0.0, 0.0) for operator in NETWORK.operators}
    for number, tuples in enumerate(arrivals):
        queues[f"{number}.0"] = ForecastQueue(tuples, 0.0, float(number))
    tick = Forecast(NETWORK, PROFILES, queues, 0.0, 1e12)
    for _ in range(2_000):
        turn = strategy.choose(tick.view())
        if turn is None:
            break
        tick.run(turn)
    assert tick.view().ready() == []


@pytest.mark.parametrize("name", EVERY)
def test_a_strategy_survives_changed_profiles(name: str) -> None:
    strategy = strategy_named(name)
    strategy.prepare(NETWORK, PROFILES)
    strategy.choose(view({"0.0": 5}))
    for profile in (Profile(1.0, 3.0), Profile(0.0, 1.0), Profile(0.0, 0.0), Profile(1e9, 0.0, 0.0)):
        strategy.prepare(NETWORK, {n: profile for n in NETWORK.operators})
        assert strategy.choose(view({"2.1": 5})) is not None


def outputs(result: Result) -> list[tuple[int, float, float]]:
    """What came out, whenever it did: query and amount by time of arrival."""
    out = result.outputs
    came, amounts = np.round(out.times_s - out.latencies_s, 6), np.round(out.amounts, 9)
    return sorted(zip(out.queries.tolist(), came.tolist(), amounts.tolist(), strict=True))


@pytest.mark.parametrize("names", QUARTERS, ids=" ".join)
@settings(max_examples=25, deadline=None)
@given(scenario=scenarios(processors=st.just(Pool(1))))
def test_whatever_the_strategy_no_tuple_is_lost_or_doubled_and_the_processor_never_idles(
    names: list[str], scenario: Scenario
) -> None:
    fifo = simulate(scenario, strategy_named("fifo"))
    in_order = outputs(fifo)
    for name in names:
        result = simulate(scenario, strategy_named(name))
        assert outputs(result) == in_order, name
        assert result.busy_s == pytest.approx(fifo.busy_s), name
        # the same work, and no rest: all are done at once
        assert result.end_s == pytest.approx(fifo.end_s), name
        again = simulate(scenario, strategy_named(name))
        assert np.array_equal(again.backlog.sizes, result.backlog.sizes), name
        assert np.array_equal(again.outputs.times_s, result.outputs.times_s), name


@pytest.mark.parametrize("name", EVERY)
def test_operators_that_no_query_reads_are_served_too(name: str) -> None:
    network = Network(tuple(NETWORK.streams.values()), (), tuple(NETWORK.operators.values()), ())
    strategy = strategy_named(name)
    strategy.prepare(network, PROFILES)
    for operator in network.operators:
        turn = strategy.choose(view({operator: 5.0}))
        assert turn is not None and turn.operators[0] == operator


def test_fifo_takes_the_oldest_tuple_through_its_whole_path() -> None:
    strategy = strategy_named("fifo")
    strategy.prepare(NETWORK, PROFILES)
    turn = strategy.choose(view({"0.0": 5, "2.0": 7}, {"0.0": 2.0, "2.0": 1.0}))
    assert turn is not None and turn.operators == ("2.0", "2.1") and turn.max_tuples == 7


def test_round_robin_gives_every_ready_operator_its_turn() -> None:
    strategy = strategy_named("round-robin:quantum_s=1")
    strategy.prepare(NETWORK, PROFILES)
    queues = view({name: 5000.0 for name in NETWORK.operators}).queues
    served = [strategy.choose(SystemView(now_s, queues)) for now_s in range(len(NETWORK.operators))]
    assert {turn.operators for turn in served if turn} == {(name,) for name in NETWORK.operators}
    # a thousand tuples of a millisecond each
    assert all(turn and turn.max_tuples == pytest.approx(1000) for turn in served)


def test_round_robin_stays_while_the_quantum_lasts() -> None:
    strategy = strategy_named("round-robin:quantum_s=1")
    strategy.prepare(NETWORK, PROFILES)
    queues = view({name: 5000.0 for name in NETWORK.operators}).queues
    turns = [strategy.choose(SystemView(now_s, queues)) for now_s in (0.0, 0.5, 0.99, 1.0)]
    operators = [turn.operators for turn in turns if turn]
    assert operators[0] == operators[1] == operators[2] != operators[3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lifo",
            r"unknown strategy lifo; did you mean fifo\? known: chain, .*, or your own as file.py:",
        ),
        ("chain+often", r"unknown ending \+often; known: chain\+aging, chain\+oldest"),
        ("mixed:gamma=1", "strategy mixed has no setting 'gamma'; it has least_slope"),
        ("mixed:least_slope=steep", "least_slope=steep is not a number; write a number from 0 to 1e15"),
        ("mixed:least_slope=-1", "strategy mixed: least_slope=-1 is out of range"),
        ("least-slack:latency_s=nan", "latency_s=nan is out of range; write a number from 0 to"),
        ("threshold:beta=0.3", "beta = 0.3 is out of range"),
        ("threshold:memory_bytes=0", "memory_bytes = 0 is out of range"),
        ("chain-flush-exact+aging", "has no priorities to raise"),
    ],
)
def test_an_unknown_strategy_or_setting_is_one_line(text: str, message: str) -> None:
    with pytest.raises(SetupError, match=message) as error:
        strategy_named(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", strategy_names())
def test_preparing_and_choosing_cost_next_to_nothing(name: str) -> None:
    network = chains(*[5] * 20)
    profiles = {n: Profile(1e-6 * (i % 7 + 1), 0.1 * (i % 10)) for i, n in enumerate(network.operators)}
    strategy = strategy_named(name)
    full = SystemView(1.0, {n: QueueView(n, 10.0, 10.0, 640.0, 0.5) for n in network.operators})

    def seconds(call: object, repeats: int = 20) -> float:
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            call()  # type: ignore[operator]
            times.append(time.perf_counter() - start)
        return min(times)

    # the best of several: what it costs, not what else the machine does
    assert seconds(lambda: strategy.prepare(network, profiles)) < 5e-3
    assert seconds(lambda: strategy.choose(full)) < 2e-3
