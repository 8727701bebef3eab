"""Sampling: turns that tell operators apart.

A tick has one time for all operators of a query. Ticks in which different operators rest say what each
of them takes; ticks in which nothing works make the next ones larger, which says what a tick costs anyway.
"""

from __future__ import annotations

import random

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn

# in every tick but each fourth, an operator rests with this chance
_REST = 0.4
_ALL_WORK_EVERY = 4
# ticks in a row in which nothing works
_MOST_IDLE = 2


class Sampling:
    """A strategy for measuring: operators take turns at resting, and what waits for them waits."""

    name = "sampling"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._ticks = 0
        self._has_worked = False
        self._idle = 0
        self._resting: frozenset[str] = frozenset()
        self._order: tuple[str, ...] = ()

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Note the operators, from the streams on."""
        self._order = tuple(network.operators)

    def choose(self, view: SystemView) -> Turn | None:
        """All that waits for the first operator that does not rest."""
        ready = {queue.operator: queue for queue in view.ready()}
        awake = [name for name in self._order if name in ready and name not in self._resting]
        if not awake and not self._has_worked and self._idle >= _MOST_IDLE:
            # nothing but what rests could be done
            awake = [name for name in self._order if name in ready]
        if not awake:
            self._next_tick()
            return None
        self._has_worked = True
        queue = ready[awake[0]]
        return Turn((queue.operator,), queue.ready)

    def _next_tick(self) -> None:
        self._idle = 0 if self._has_worked else self._idle + 1
        self._ticks += 1
        self._has_worked = False
        some = self._ticks % _ALL_WORK_EVERY != 0
        self._resting = frozenset(n for n in self._order if some and self._random.random() < _REST)
