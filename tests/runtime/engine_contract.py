"""What every engine keeps to: a test class that each engine's own tests inherit.

An heir says how to start an engine whose streams come to an end, and what arrives before they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from headgate.errors import StalledError
from headgate.model.event import Event, TuplesArrived
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.runtime.drive import Engine, drive
from headgate.scheduling import strategy_named, strategy_names


class Watching:
    """Passes a strategy's choices on, and keeps what it was asked and what it said."""

    name = "watching"

    def __init__(self, inner: str = "fifo") -> None:
        self._inner = strategy_named(inner)
        self.prepared: list[tuple[Network, Profiles]] = []
        self.views: list[SystemView] = []
        self.turns: list[Turn] = []

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.prepared.append((network, profiles))
        self._inner.prepare(network, profiles)

    def choose(self, view: SystemView) -> Turn | None:
        self.views.append(view)
        turn = self._inner.choose(view)
        if turn is not None:
            self.turns.append(turn)
        return turn


class ChoosesNothing(Watching):
    """Chooses turns of no tuples."""

    def choose(self, view: SystemView) -> Turn | None:
        return Turn((next(iter(view.queues)),), 0)


class EngineContract:
    """Inherit, and say how to start an engine."""

    strategies: tuple[str, ...] = strategy_names()
    """Those to drive it with; fewer where a run takes long."""

    def started(self) -> AbstractContextManager[Engine]:
        """An engine whose streams end, from scratch each time; it is stopped at the end of the block."""
        raise NotImplementedError

    def arrivals(self) -> dict[str, int]:
        """How many tuples of each stream arrive in all."""
        raise NotImplementedError

    @contextmanager
    def driven(self, strategy: Watching) -> Iterator[tuple[Engine, list[Event]]]:
        with self.started() as engine:
            events: list[Event] = []
            drive(engine, strategy, [events.append])
            yield engine, events

    def test_a_strategy_is_prepared_before_it_is_asked_and_knows_every_operator(self) -> None:
        strategy = Watching()
        with self.driven(strategy) as (engine, _):
            network, profiles = strategy.prepared[0]
            assert network is engine.network
            assert set(profiles) == set(network.operators)
            assert all(set(view.queues) == set(network.operators) for view in strategy.views)

    def test_every_arrival_is_told_once(self) -> None:
        with self.driven(Watching()) as (_, events):
            arrived: Counter[str] = Counter()
            for event in events:
                if isinstance(event, TuplesArrived):
                    arrived.update(event.tuples)
            assert {stream: count for stream, count in arrived.items() if count} == self.arrivals()

    def test_time_never_goes_back(self) -> None:
        strategy = Watching()
        with self.driven(strategy) as (_, events):
            for times in ([e.now_s for e in events], [view.now_s for view in strategy.views]):
                assert times == sorted(times)

    def test_no_more_is_ready_than_there_is_and_a_head_is_no_younger_than_now(self) -> None:
        strategy = Watching()
        with self.driven(strategy):
            seen = [(view.now_s, queue) for view in strategy.views for queue in view.queues.values()]
            assert any(queue.ready > 0 for _, queue in seen)
            for now_s, queue in seen:
                assert 0 <= queue.ready <= queue.length + 1e-9
                assert queue.bytes >= 0
                assert queue.ready == 0 or queue.oldest_s <= now_s

    def test_nothing_is_ready_once_the_run_is_over(self) -> None:
        with self.driven(Watching()) as (engine, _):
            assert engine.next_event() is None
            assert not engine.accepts_turn()
            assert engine.view().ready() == []

    def test_every_strategy_can_drive_it(self) -> None:
        for name in self.strategies:
            strategy = Watching(name)
            with self.driven(strategy) as (engine, _):
                first = {turn.operators[0] for turn in strategy.turns}
                assert first <= set(engine.network.operators)
                assert first

    def test_a_turn_of_no_tuples_is_refused(self) -> None:
        with self.started() as engine, pytest.raises(StalledError, match="chose a turn of no tuples"):
            drive(engine, ChoosesNothing())
