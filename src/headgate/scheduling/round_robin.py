"""Every operator in its turn."""

from __future__ import annotations

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn


class RoundRobin:
    """Cycles over the ready operators, each for a quantum of ``quantum_s`` seconds or until drained."""

    name = "round-robin"

    def __init__(self, quantum_s: float = 0.1) -> None:
        if quantum_s <= 0:
            raise SetupError(f"quantum_s = {quantum_s:g} is no quantum; write a number above 0")
        self._quantum_s = quantum_s
        self._position = -1
        self._until_s = 0.0

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Fix the cycle: operators in topological order."""
        self._cycle = tuple(network.operators)
        self._seconds = {name: profiles[name].seconds_per_tuple for name in self._cycle}

    def choose(self, view: SystemView) -> Turn | None:
        """The operator that is being served while its quantum lasts, then the next ready one."""
        if view.now_s >= self._until_s or not 0 <= self._position < len(self._cycle):
            return self._next(view)
        queue = view.queues[self._cycle[self._position]]
        return self._turn(queue, view.now_s) if queue.ready > 0 else self._next(view)

    def _next(self, view: SystemView) -> Turn | None:
        for step in range(1, len(self._cycle) + 1):
            position = (self._position + step) % len(self._cycle)
            queue = view.queues[self._cycle[position]]
            if queue.ready > 0:
                self._position, self._until_s = position, view.now_s + self._quantum_s
                return self._turn(queue, view.now_s)
        return None

    def _turn(self, queue: QueueView, now_s: float) -> Turn:
        # at least one tuple: the last of a quantum is not interrupted
        most = max(1.0, (self._until_s - now_s) / max(self._seconds[queue.operator], 1e-12))
        return Turn((queue.operator,), min(queue.ready, most))
