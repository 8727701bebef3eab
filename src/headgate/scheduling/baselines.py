"""Fifo and round robin, which starve no tuple, and two wrappers that keep others from starving any."""

from __future__ import annotations

import math
from dataclasses import replace

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn
from headgate.scheduling.strategy import Strategy, UnitStrategy

_PERIOD = 16


class Fifo:
    """Oldest tuple first, through its whole path before the next one; of equals, that nearest to the end."""

    name = "fifo"

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self._path_from = {name: network.path_from(name) for name in network.operators}

    def choose(self, view: SystemView) -> Turn | None:
        def rank(queue: QueueView) -> tuple[float, int, str]:
            return queue.oldest_s, len(self._path_from[queue.operator]), queue.operator

        oldest = min(view.ready(), key=rank, default=None)
        return Turn(self._path_from[oldest.operator], oldest.ready) if oldest else None


class RoundRobin:
    """Cycles over the ready operators, each for a quantum of ``quantum_s`` seconds or until drained."""

    name = "round-robin"

    def __init__(self, quantum_s: float = 0.1) -> None:
        if quantum_s <= 0:
            raise SetupError(f"quantum_s = {quantum_s:g} is out of range; write a number above 0")
        self._quantum_s = quantum_s
        self._position = -1
        self._until_s = 0.0

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self._cycle = tuple(network.operators)
        self._seconds = {name: profiles[name].seconds_per_tuple for name in self._cycle}

    def choose(self, view: SystemView) -> Turn | None:
        count = len(self._cycle)
        # the operator being served goes on while its quantum lasts
        goes_on = view.now_s < self._until_s and 0 <= self._position < count
        for step in range(0 if goes_on else 1, count + 1):
            position = (self._position + step) % count
            queue = view.queues[self._cycle[position]]
            if queue.ready > 0:
                if step:
                    self._position, self._until_s = position, view.now_s + self._quantum_s
                # at least one tuple: a quantum does not interrupt its last one
                left_s = self._until_s - view.now_s
                most = max(1.0, left_s / max(self._seconds[queue.operator], 1e-12))
                return Turn((queue.operator,), min(queue.ready, most))
        return None


class OldestInTurn:
    """Every 16th turn goes to the oldest tuple, all the way to its output."""

    def __init__(self, base: Strategy) -> None:
        self.name = f"{base.name}+oldest"
        self.base = base
        self._turns = 0

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.base.prepare(network, profiles)
        self._path_from = {name: network.path_from(name) for name in network.operators}

    def choose(self, view: SystemView) -> Turn | None:
        turn = self.base.choose(view)
        self._turns += turn is not None
        if turn is None or self._turns % _PERIOD:
            return turn
        oldest = min(view.ready(), key=lambda queue: (queue.oldest_s, queue.operator))
        return Turn(self._path_from[oldest.operator], min(oldest.ready, turn.max_tuples))


class Aging:
    """Priorities that grow with waiting: multiplied by ``tau * Q``, both relative to the current maximum.

    ``tau`` is the wait of a unit's oldest tuple, ``Q`` what is queued in the unit. In the unit that goes
    first, the ready operator closest to its end is served.
    """

    def __init__(self, base: UnitStrategy) -> None:
        self.name = f"{base.name}+aging"
        self.base = base

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.base.prepare(network, profiles)
        # priorities that a factor can raise: finite and above 0
        usual = [unit.priority for unit in self.base.units if 0 < unit.priority < math.inf] or [1.0]
        lowest, highest = min(usual) / 1000, max(usual) * 1000
        self._units = [replace(u, priority=min(max(u.priority, lowest), highest)) for u in self.base.units]

    def choose(self, view: SystemView) -> Turn | None:
        ready = {queue.operator for queue in view.ready()}
        waiting = [unit for unit in self._units if not ready.isdisjoint(unit.operators)]
        if not waiting:
            return None
        queued = [[q for n in unit.operators if (q := view.queues[n]).length > 0] for unit in waiting]
        waits = [max(0.0, view.now_s - min(queue.oldest_s for queue in unit)) for unit in queued]
        sizes = [sum(queue.length for queue in unit) for unit in queued]
        # a tuple that has just arrived has not waited yet, and still counts
        longest_s, largest = max(waits) or 1.0, max(sizes)
        ages = [max(wait / longest_s, 1e-9) * size / largest for wait, size in zip(waits, sizes, strict=True)]
        unit, _ = max(zip(waiting, ages, strict=True), key=lambda pair: pair[0].priority * pair[1])
        position = max(i for i, name in enumerate(unit.operators) if name in ready)
        queue = view.queues[unit.operators[position]]
        return Turn(unit.operators[position:], min(queue.ready, unit.tuples_per_round))
