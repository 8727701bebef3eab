"""What a run is: against a naive simulator, and properties that hold for every scenario."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.naive import Naive
from tests.simulator.networks import scenario
from tests.simulator.random_scenarios import scenarios

from headgate.errors import StalledError
from headgate.model.event import Event, TuplesArrived, TurnFinished
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.runtime.drive import drive
from headgate.scheduling import strategy_named, strategy_names
from headgate.simulator import Behaviour, OnePerOperator, Pool, Scenario, simulate
from headgate.simulator.virtual_engine import VirtualEngine


class Fixed:
    """Serves by a number for every operator, least first."""

    name = "fixed"

    def __init__(self, order: Mapping[str, int]) -> None:
        self._order = order

    def prepare(self, network: Network, profiles: Profiles) -> None:
        pass

    def choose(self, view: SystemView) -> Turn | None:
        ready = view.ready()
        if not ready:
            return None
        best = min(ready, key=lambda queue: self._order[queue.operator])
        return Turn((best.operator,), best.ready)


def pages(found: Scenario) -> Scenario:
    behaviours = {name: replace(f, service="constant") for name, f in found.behaviours.items()}
    return replace(found, fate="page", behaviours=behaviours)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(scenarios().map(pages), st.randoms(use_true_random=False))
def test_a_naive_simulator_finds_the_same(found: Scenario, random: Any) -> None:
    names = list(found.network.operators)
    order = dict(zip(names, random.sample(range(len(names)), len(names)), strict=True))
    result = simulate(found, Fixed(order))
    naive = Naive(found, order).run()
    steps = [(float(time), float(size)) for time, size in naive.sizes.items()]
    for time, size in zip(result.backlog.times_s, result.backlog.sizes, strict=True):
        assert size == pytest.approx([value for at, value in steps if at <= time][-1], abs=1e-9)
    for time, size in steps:
        assert result.backlog.at(time) == pytest.approx(size, abs=1e-9)
    outputs = zip(result.outputs.times_s, result.outputs.amounts, result.outputs.latencies_s, strict=True)
    expected = sorted((float(t), float(a), float(latency)) for t, a, latency in naive.outputs)
    assert np.array(sorted(outputs)).ravel() == pytest.approx(np.array(expected).ravel(), abs=1e-9)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(scenarios(), st.sampled_from(strategy_names()))
def test_every_entry_is_served_once_and_nothing_is_left(found: Scenario, name: str) -> None:
    result = simulate(found, strategy_named(name))
    again = simulate(found, strategy_named(name))
    assert result.backlog.sizes.tolist() == again.backlog.sizes.tolist()
    assert result.outputs.times_s.tolist() == again.outputs.times_s.tolist()
    assert len(result.backlog.sizes) == 0 or result.backlog.sizes[-1] == 0
    for leaf, turns in result.turns.items():
        streams = [i for i in found.network.operators[leaf].inputs if hasattr(i, "stream")]
        if len(streams) == len(found.network.operators[leaf].inputs):
            assert turns == sum(len(found.arrivals_s[i.stream]) for i in streams)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(scenarios(), st.sampled_from(strategy_names()), st.sampled_from(strategy_names()))
def test_a_tuple_has_the_same_fate_under_every_strategy(found: Scenario, one: str, other: str) -> None:
    first, second = simulate(found, strategy_named(one)), simulate(found, strategy_named(other))
    assert first.turns == second.turns
    assert first.busy_s == pytest.approx(second.busy_s)

    def counted(result: Any) -> Counter[tuple[int, float]]:
        outputs = result.outputs
        arrivals = (outputs.times_s - outputs.latencies_s).round(9)
        return Counter(zip(outputs.queries.tolist(), arrivals.tolist(), strict=True))

    assert counted(first) == counted(second)


class NeverIdle(VirtualEngine):
    """Fails if time goes on while a processor is free for ready work."""

    def next_event(self) -> Event | None:
        ready = any(queue.ready > 0 for queue in self.view().queues.values())
        assert not (self.accepts_turn() and ready)
        return super().next_event()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(scenarios(), st.sampled_from(strategy_names()))
def test_no_processor_is_idle_while_work_is_ready(found: Scenario, name: str) -> None:
    drive(NeverIdle(found), strategy_named(name))


@settings(max_examples=60, deadline=None)
@given(scenarios(processors=st.sampled_from([Pool(1), Pool(2)])), st.sampled_from(strategy_names()))
def test_processors_work_no_longer_than_there_is_time(found: Scenario, name: str) -> None:
    assert isinstance(found.processors, Pool)
    result = simulate(found, strategy_named(name))
    if len(result.backlog.times_s):
        span_s = result.end_s - result.backlog.times_s[0]
        assert sum(result.busy_s.values()) <= found.processors.processors * span_s + 1e-9


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_events_tell_every_arrival_and_every_turn(found: Scenario) -> None:
    events: list[Event] = []
    result = simulate(found, strategy_named("fifo"), [events.append])
    arrived: Counter[str] = Counter()
    for event in events:
        if isinstance(event, TuplesArrived):
            arrived.update(event.tuples)
    assert arrived == Counter({s: len(t) for s, t in found.arrivals_s.items() if len(t)})
    finished = Counter(e.turn.operators[0] for e in events if isinstance(e, TurnFinished))
    assert finished == Counter({name: turns for name, turns in result.turns.items() if turns})
    assert [e.now_s for e in events] == sorted(e.now_s for e in events)


def test_littles_law_and_the_closed_form_hold_for_a_tandem() -> None:
    arrivals = np.cumsum(np.random.default_rng(5).exponential(1.0, 200_000))
    tandem = scenario(
        {"s": arrivals.tolist()},
        {
            "a": ("s", Behaviour(0.5, service="exponential")),
            "b": ("a", Behaviour(0.7, service="exponential")),
        },
        {"q": "b"},
        processors=OnePerOperator(),
        fate="random",
    )
    result = simulate(tandem, strategy_named("fifo"))
    span_s = result.end_s - arrivals[0]
    # exact: everybody who came has left
    assert result.backlog.mean * span_s == pytest.approx(result.outputs.latencies_s.sum())
    assert result.backlog.mean == pytest.approx(0.5 / 0.5 + 0.7 / 0.3, rel=0.05)
    assert result.busy_s["b"] / span_s == pytest.approx(0.7, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("selectivity", [0.3, 1.0, 2.4])
def test_random_fates_give_the_selectivity_on_average(selectivity: float) -> None:
    found = scenario(
        {"s": np.arange(20_000.0).tolist()},
        {"a": ("s", Behaviour(0.1, selectivity))},
        {"q": "a"},
        fate="random",
    )
    result = simulate(found, strategy_named("fifo"))
    assert set(result.outputs.amounts.tolist()) == {1.0}
    assert len(result.outputs.times_s) / 20_000 == pytest.approx(selectivity, rel=0.03)
    other = simulate(replace(found, seed=1), strategy_named("fifo"))
    same = other.outputs.times_s.tolist() == result.outputs.times_s.tolist()
    assert same == (selectivity == 1)


def test_a_strategy_that_leaves_work_waiting_is_told_so() -> None:
    class Lazy(Fixed):
        def choose(self, view: SystemView) -> Turn | None:
            return None

    found = scenario({"s": [0, 1]}, {"a": ("s", Behaviour(1))}, {"q": "a"})
    with pytest.raises(StalledError, match="leaves tuples at a"):
        simulate(found, Lazy({}))


def test_a_strategy_that_chooses_an_empty_queue_is_told_so() -> None:
    class Wrong(Fixed):
        def choose(self, view: SystemView) -> Turn | None:
            return Turn(("b",), 1)

    found = scenario({"s": [0]}, {"a": ("s", Behaviour(1)), "b": ("a", Behaviour(1))}, {"q": "b"})
    with pytest.raises(StalledError, match="chose b, which has nothing ready"):
        simulate(found, Wrong({}))
