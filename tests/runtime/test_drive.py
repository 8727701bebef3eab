"""The one loop, over an engine in virtual time."""

from __future__ import annotations

import logging

import pytest
from tests.runtime.networks import chains

from headgate.errors import StalledError
from headgate.model.event import Event, ProfilesLearnt, TuplesArrived
from headgate.model.network import Network
from headgate.model.profile import Profile, Profiles
from headgate.model.view import SystemView, Turn
from headgate.runtime.drive import drive
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.scheduling import strategy_named


class OneTick:
    """An engine of a single tick: the forecast itself."""

    def __init__(self, network: Network, events: list[Event], budget_s: float = 1e9) -> None:
        self.network = network
        self._profiles = {name: Profile() for name in network.operators}
        queues = {
            name: ForecastQueue(10.0 if name.endswith(".0") else 0.0, 0.0, 0.0) for name in network.operators
        }
        self.forecast = Forecast(network, self._profiles, queues, 0.0, budget_s)
        self._events = events

    def profiles(self) -> Profiles:
        return self._profiles

    def view(self) -> SystemView:
        return self.forecast.view()

    def accepts_turn(self) -> bool:
        return not self.forecast.spent

    def start(self, turn: Turn) -> None:
        self.forecast.run(turn)

    def next_event(self) -> Event | None:
        return self._events.pop(0) if self._events else None


class Counting:
    """Fifo that counts how often it prepares."""

    name = "counting"

    def __init__(self) -> None:
        self.prepared = 0
        self._inner = strategy_named("fifo")

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.prepared += 1
        self._inner.prepare(network, profiles)

    def choose(self, view: SystemView) -> Turn | None:
        return self._inner.choose(view)


class Nothing(Counting):
    """Chooses turns of no tuples."""

    name = "nothing"

    def choose(self, view: SystemView) -> Turn | None:
        return Turn((next(iter(view.queues)),), 0)


def test_the_loop_asks_until_nothing_is_ready() -> None:
    engine = OneTick(chains(3, 2), [TuplesArrived(0.0, {})])
    drive(engine, strategy_named("round-robin"))
    assert engine.view().ready() == []
    assert engine.forecast.taken["0.2"] == pytest.approx(10)
    assert engine.forecast.taken["1.1"] == pytest.approx(10)


def test_a_strategy_prepares_anew_when_profiles_are_learnt() -> None:
    strategy = Counting()
    drive(OneTick(chains(2), [ProfilesLearnt(0.0), TuplesArrived(0.0, {})]), strategy)
    assert strategy.prepared == 2


def test_an_observer_that_raises_is_unplugged_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("broken observer")

    events: list[Event] = [TuplesArrived(0.0, {}), TuplesArrived(1.0, {})]
    with caplog.at_level(logging.ERROR, "headgate"):
        drive(OneTick(chains(2), list(events)), strategy_named("fifo"), [broken, seen.append])
    assert seen == events
    assert sum("unplugged" in record.message for record in caplog.records) == 1


def test_a_turn_of_no_tuples_is_an_error_rather_than_an_endless_loop() -> None:
    with pytest.raises(StalledError, match="nothing"):
        drive(OneTick(chains(2), [TuplesArrived(0.0, {})]), Nothing())
