"""Runs in which strategies know what the window before has shown, and not what the scenario states."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headgate.errors import SetupError
from headgate.model.event import ProfilesLearnt
from headgate.model.profile import Profile, Profiles
from headgate.runtime.drive import Observer, drive
from headgate.scheduling import Strategy, room_of
from headgate.simulator.entries import Entry
from headgate.simulator.results import Result
from headgate.simulator.scenario import Scenario
from headgate.simulator.virtual_engine import Room, VirtualEngine


class LearningEngine(VirtualEngine):
    """Divides time into windows, and measures operators in each; strategies see the last window's profiles.

    An operator that served nothing in a window keeps its profile. Before the first measurement all operators
    have the same one, so a chart contains nothing but the length of its path.
    """

    def __init__(self, scenario: Scenario, window_s: float, room_bytes: Room | None = None) -> None:
        super().__init__(scenario, room_bytes)
        self._window = self._window_end = scenario.numbered.grid.ticks(window_s)
        if self._window <= 0:
            raise SetupError(f"a window of {window_s:g} s is too short; write a number above 0")
        self._learnt = dict.fromkeys(self._names, Profile())
        self._begin_window()

    def profiles(self) -> Profiles:
        return dict(self._learnt)

    def _begin_window(self) -> None:
        # tuples served, their bytes, their results
        self._measured = np.zeros((len(self._names), 3))
        self._busy_before = list(self._busy_ticks)

    def _results(self, operator: int, entry: Entry) -> list[tuple[int, float]]:
        results = super()._results(operator, entry)
        self._measured[operator] += entry.amount, entry.bytes, sum(amount for _, amount in results)
        return results

    def _next_instant(self) -> int | None:
        instant = super()._next_instant()
        return None if instant is None else min(instant, self._window_end)

    def _advance(self, instant: int) -> None:
        super()._advance(instant)
        if instant == self._window_end:
            self._learn()
            self._events.append(ProfilesLearnt(self.now_s))
            self._begin_window()
            self._window_end += self._window

    def _learn(self) -> None:
        for operator, (tuples, size_bytes, results) in enumerate(self._measured.tolist()):
            if tuples > 0:
                busy_s = self._grid.seconds(self._busy_ticks[operator] - self._busy_before[operator])
                profile = Profile(busy_s / tuples, results / tuples, size_bytes / tuples)
                self._learnt[self._names[operator]] = profile


def simulate_learning(
    scenario: Scenario, strategy: Strategy, window_s: float, observers: Iterable[Observer] = ()
) -> Result:
    """Run to the end; the strategy prepares anew after every window, with the statistics of that window."""
    engine = LearningEngine(scenario, window_s, room_of(strategy))
    drive(engine, strategy, observers)
    return Result.of(strategy.name, scenario, engine.records())
