"""Runs in which strategies know only what the window before has shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulator.networks import scenario, two_operators
from tests.simulator.random_scenarios import scenarios

from headgate.errors import SetupError
from headgate.model.event import Event, ProfilesLearnt
from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles
from headgate.scheduling import strategy_named
from headgate.scheduling.baselines import Fifo
from headgate.simulator import Behaviour, Scenario, simulate
from headgate.simulator.learning import simulate_learning


class Attentive(Fifo):
    """Fifo that remembers the profiles it was given."""

    def __init__(self) -> None:
        self.given: list[Profiles] = []

    def prepare(self, network: Network, profiles: Profiles) -> None:
        super().prepare(network, profiles)
        self.given.append(profiles)


def test_before_the_first_window_ends_all_operators_are_alike_and_then_as_measured() -> None:
    found, strategy = two_operators(), Attentive()
    simulate_learning(found, strategy, window_s=4.0)
    first, second = strategy.given[:2]
    assert set(first.values()) == {Profile()}
    assert second["a"] == found.profiles["a"] and second["b"] == found.profiles["b"]


def test_statistics_are_those_of_the_window_before_and_stay_where_nothing_was_served() -> None:
    # of the ten tuples of each burst, chance lets others through than the selectivity says
    bursts = [0.0] * 10 + [40.0] * 10
    plan = scenario(
        {"s": bursts}, {"a": ("s", Behaviour(0.5, 0.5))}, {"q": "a"}, fate="random", seed=3, time_unit_s=None
    )
    strategy = Attentive()
    events: list[Event] = []
    result = simulate_learning(plan, strategy, 10.0, [events.append])
    passed = [
        float(((result.outputs.times_s > begin) & (result.outputs.times_s <= begin + 10)).sum())
        for begin in (0.0, 40.0)
    ]
    selectivities = [profiles["a"].selectivity for profiles in strategy.given]
    # in the run's second to fourth window nothing is served; it ends before the sixth
    assert selectivities == [1.0, *[passed[0] / 10] * 4]
    assert [event.now_s for event in events if isinstance(event, ProfilesLearnt)] == [10.0, 20.0, 30.0, 40.0]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(scenarios(), st.floats(0.1, 10.0), st.sampled_from(["fifo", "chain", "segment"]))
def test_learning_loses_no_tuple(found: Scenario, window_s: float, name: str) -> None:
    learnt, true = simulate_learning(found, strategy_named(name), window_s), simulate(found, Fifo())
    assert sum(learnt.outputs.amounts) == pytest.approx(sum(true.outputs.amounts))
    assert learnt.turns == true.turns


def test_a_window_has_a_length() -> None:
    with pytest.raises(SetupError, match="a window of 0 s is too short; write a number above 0"):
        simulate_learning(two_operators(), strategy_named("chain"), 0.0)
