"""A strategy that cuts queues at random places."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn


class RandomCuts:
    """For some ticks each operator takes all, some or none of what it could; then everything.

    Unlike a tiny budget it ends soon, however slow the machine is.
    """

    name = "random-cuts"

    def __init__(self, seed: int, wild_ticks: int) -> None:
        self._rng = Random(seed)
        self._ticks_left = wild_ticks
        self._operators: tuple[str, ...] = ()
        self._turn: Iterator[str] | None = None

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Operators from the streams to the results."""
        self._operators = tuple(network.operators)

    def choose(self, view: SystemView) -> Turn | None:
        """The next operator with its share; None ends the tick."""
        if self._turn is None:
            self._turn = iter(self._operators)
        for name in self._turn:
            share = self._share()
            if view.queues[name].ready > 0 and share > 0:
                return Turn((name,), view.queues[name].ready * share)
        self._turn = None
        self._ticks_left -= 1
        return None

    def _share(self) -> float:
        if self._ticks_left <= 0:
            return 1.0
        return self._rng.choice((0.0, 1.0, self._rng.random(), self._rng.random()))
