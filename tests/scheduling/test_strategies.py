"""Every strategy, found by name, keeps the same promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.networks import chains

from headgate.errors import SetupError
from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.scheduling import strategy_named, strategy_names

NETWORK = chains(3, 1, 2)
PROFILES = {name: Profile(1e-3, 0.5) for name in NETWORK.operators}


def view(ready: dict[str, float], oldest_s: dict[str, float] | None = None) -> SystemView:
    ages = oldest_s or {}
    return SystemView(
        10.0,
        {
            name: QueueView(name, ready.get(name, 0), ready.get(name, 0), 1.0, ages.get(name, 0.0))
            for name in NETWORK.operators
        },
    )


@pytest.mark.parametrize("name", strategy_names())
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


@pytest.mark.parametrize("name", strategy_names())
@given(arrivals=st.lists(st.floats(1, 1e5), min_size=3, max_size=3), budget_s=st.floats(1e-3, 1e3))
def test_a_strategy_drains_every_queue(name: str, arrivals: list[float], budget_s: float) -> None:
    strategy = strategy_named(name)
    strategy.prepare(NETWORK, PROFILES)
    queues = {operator: ForecastQueue(0.0, 0.0, 0.0) for operator in NETWORK.operators}
    for number, tuples in enumerate(arrivals):
        queues[f"{number}.0"] = ForecastQueue(tuples, 0.0, float(number))
    tick = Forecast(NETWORK, PROFILES, queues, 0.0, 1e12)
    for _ in range(10_000):
        turn = strategy.choose(tick.view())
        if turn is None:
            break
        tick.run(turn)
    assert tick.view().ready() == []


@pytest.mark.parametrize("name", strategy_names())
def test_a_strategy_survives_changed_profiles(name: str) -> None:
    strategy = strategy_named(name)
    strategy.prepare(NETWORK, PROFILES)
    strategy.choose(view({"0.0": 5}))
    strategy.prepare(NETWORK, {n: Profile(1.0, 3.0) for n in NETWORK.operators})
    assert strategy.choose(view({"2.1": 5})) is not None


def test_fifo_takes_the_oldest_tuple_through_its_whole_path() -> None:
    strategy = strategy_named("fifo")
    strategy.prepare(NETWORK, PROFILES)
    turn = strategy.choose(view({"0.0": 5, "2.0": 7}, {"0.0": 2.0, "2.0": 1.0}))
    assert turn is not None and turn.operators == ("2.0", "2.1") and turn.max_tuples == 7


def test_round_robin_gives_every_ready_operator_its_turn() -> None:
    strategy = strategy_named("round-robin")
    strategy.prepare(NETWORK, PROFILES)
    ready = {name: 5.0 for name in NETWORK.operators}
    served = [strategy.choose(view(ready)) for _ in NETWORK.operators]
    assert {turn.operators for turn in served if turn} == {(name,) for name in NETWORK.operators}


def test_an_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(SetupError, match=r"unknown strategy lifo; known: .*fifo.*round-robin"):
        strategy_named("lifo")
