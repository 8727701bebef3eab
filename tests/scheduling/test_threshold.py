"""Threshold: its formulas, and switching by queue memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.networks import chains
from tests.simulator.networks import scenario

from headgate.model.profile import Profile
from headgate.model.view import QueueView, SystemView
from headgate.scheduling import strategy_named
from headgate.scheduling.capacity import Threshold, thresholds
from headgate.simulator import Behaviour, Scenario, simulate

NETWORK = chains(2)
PROFILES = {"0.0": Profile(1.0, 0.1), "0.1": Profile(20.0, 1.0)}


def view(now_s: float, queued_bytes: float) -> SystemView:
    queues = {
        "0.0": QueueView("0.0", 10, 10, queued_bytes / 2, 1.0),
        "0.1": QueueView("0.1", 10, 10, queued_bytes / 2, 0.0),
    }
    return SystemView(now_s, queues)


@pytest.mark.parametrize(
    ("mean", "leave", "enter"), [(0, 0, 50), (20, 20, 60), (60, 60, 80), (80, 80, 90), (100, 81, 90)]
)
def test_the_formulas(mean: float, leave: float, enter: float) -> None:
    assert thresholds(100.0, mean, 0.9) == pytest.approx((leave, enter))


@given(st.floats(1, 1e9), st.floats(0, 1), st.floats(0.51, 0.99))
def test_the_lower_threshold_is_below_the_upper_one_and_both_below_the_limit(
    memory_bytes: float, share: float, beta: float
) -> None:
    leave, enter = thresholds(memory_bytes, share * memory_bytes, beta)
    assert leave < enter < memory_bytes


def test_saving_mode_begins_at_the_upper_and_ends_at_the_lower_threshold() -> None:
    strategy = Threshold(memory_bytes=100.0, interval_s=1e-9)
    strategy.prepare(NETWORK, PROFILES)
    modes = []
    # the lower threshold is the mean so far, which is about 53 at the end
    for now_s, queued in enumerate([10.0, 49.0, 95.0, 60.0, 54.0, 50.0]):
        turn = strategy.choose(view(float(now_s), queued))
        assert turn is not None
        modes.append(strategy.is_saving)
        # path capacity first finishes what it began; simplified segments first shrink what comes
        assert turn.operators == (("0.0",) if strategy.is_saving else ("0.1",))
    assert modes == [False, False, True, True, True, False]


def test_memory_is_looked_at_more_often_the_nearer_it_is_to_the_limit() -> None:
    strategy = Threshold(memory_bytes=100.0, interval_s=10.0)
    strategy.prepare(NETWORK, PROFILES)
    strategy.choose(view(0.0, 40.0))
    # the next look is due after 6 of 10 seconds
    strategy.choose(view(5.9, 95.0))
    assert not strategy.is_saving
    strategy.choose(view(6.0, 95.0))
    assert strategy.is_saving
    # and now after half a second
    strategy.choose(view(6.4, 0.0))
    assert strategy.is_saving
    strategy.choose(view(6.5, 0.0))
    assert not strategy.is_saving


def test_the_limit_can_be_changed_while_it_runs() -> None:
    strategy = Threshold(memory_bytes=1000.0, interval_s=1e-9)
    strategy.prepare(NETWORK, PROFILES)
    strategy.choose(view(0.0, 95.0))
    assert not strategy.is_saving
    strategy.memory_bytes = 100.0
    strategy.choose(view(1.0, 95.0))
    assert strategy.is_saving


def test_without_a_limit_of_its_own_it_takes_what_the_queries_allow() -> None:
    strategy = Threshold()
    strategy.prepare(NETWORK, PROFILES)
    assert strategy.limit_bytes == 64 * 1024 * 1024


def overload() -> Scenario:
    """A minute in which ten times as much arrives as can be processed."""
    arrivals = [0.1 * number for number in range(600)]
    operators = {"a": ("s", Behaviour(0.05, 0.1)), "b": ("a", Behaviour(10.0, 1.0))}
    return scenario({"s": arrivals}, operators, {"q": "b"}, fate="random")


@pytest.mark.parametrize("name", ["threshold", "threshold+oldest", "threshold+aging"])
def test_what_saving_mode_cannot_hold_is_shed(name: str) -> None:
    # 20 tuples of 64 bytes, less than half of what simplified segments need
    limit_bytes = 20 * 64.0
    assert simulate(overload(), strategy_named("simplified-segment")).backlog.peak_bytes > 2 * limit_bytes
    base, plus, ending = name.partition("+")
    result = simulate(overload(), strategy_named(f"{base}:memory_bytes={limit_bytes}{plus}{ending}"))
    # room is used to the last tuple, and never exceeded
    assert result.backlog.peak_bytes == limit_bytes
    assert 0 < result.shed["s"] < 600
    assert result.turns["a"] == 600 - result.shed["s"]


def test_nothing_is_shed_where_saving_mode_is_enough() -> None:
    saving = simulate(overload(), strategy_named("simplified-segment"))
    limit_bytes = 2 * saving.backlog.peak_bytes
    assert simulate(overload(), strategy_named("path-capacity")).backlog.peak_bytes > limit_bytes
    result = simulate(overload(), strategy_named(f"threshold:memory_bytes={limit_bytes}"))
    assert result.shed == {"s": 0} and result.turns["a"] == 600
