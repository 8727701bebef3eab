"""Every operator in its turn."""

from __future__ import annotations

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn


class RoundRobin:
    """Cycles over the ready operators, each for a quantum of tuples or until drained."""

    name = "round-robin"

    def __init__(self, quantum_tuples: float = 10_000) -> None:
        self._quantum_tuples = quantum_tuples
        self._last = -1

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Fix the cycle: operators in topological order."""
        self._cycle = tuple(network.operators)

    def choose(self, view: SystemView) -> Turn | None:
        """The next ready operator after the last one served."""
        for step in range(1, len(self._cycle) + 1):
            position = (self._last + step) % len(self._cycle)
            queue = view.queues[self._cycle[position]]
            if queue.ready > 0:
                self._last = position
                return Turn((queue.operator,), min(queue.ready, self._quantum_tuples))
        return None
