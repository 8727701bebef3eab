"""Starvation freedom for any strategy, in two forms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.scheduling.strategy import Strategy
from headgate.scheduling.units import Unit, UnitStrategy


class OldestInTurn:
    """Every ``period``-th turn goes to the oldest tuple, all the way to its output."""

    def __init__(self, base: Strategy, period: int = 16) -> None:
        if period < 2:
            raise SetupError(f"period = {period} leaves nothing to the strategy; write 2 or more")
        self.name = f"{base.name}+oldest"
        self.base = base
        self._period = period
        self._turns = 0

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare the strategy below."""
        self.base.prepare(network, profiles)
        self._path_from = {name: network.path_from(name) for name in network.operators}

    def choose(self, view: SystemView) -> Turn | None:
        """The turn of the strategy below, or one of the same size for the oldest tuple."""
        turn = self.base.choose(view)
        self._turns += turn is not None
        if turn is None or self._turns % self._period:
            return turn
        oldest = min(view.ready(), key=lambda queue: (queue.oldest_s, queue.operator))
        return Turn(self._path_from[oldest.operator], min(oldest.ready, turn.max_tuples))


class Aging:
    """Priorities that grow with waiting: times ``tau * Q``, both relative to the largest at the moment.

    ``tau`` is the wait of a unit's oldest tuple, ``Q`` what is queued in the unit.
    """

    def __init__(self, base: UnitStrategy) -> None:
        self.name = f"{base.name}+aging"
        self.base = base

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare the strategy below."""
        self.base.prepare(network, profiles)
        self._units = _positive(self.base.units)

    def choose(self, view: SystemView) -> Turn | None:
        """The ready unit with the highest priority at the moment; inside of it, what lies furthest first."""
        ready = {queue.operator for queue in view.ready()}
        waiting = [unit for unit in self._units if not ready.isdisjoint(unit.operators)]
        if not waiting:
            return None
        waits = [_wait_s(unit, view) for unit in waiting]
        sizes = [sum(view.queues[name].length for name in unit.operators) for unit in waiting]
        # what has just come has waited for nothing yet, and still counts
        longest_s, largest = max(waits) or 1.0, max(sizes)
        ages = [max(wait / longest_s, 1e-9) * size / largest for wait, size in zip(waits, sizes, strict=True)]
        _, _, unit = max(
            (unit.priority * age, -number, unit)
            for number, (unit, age) in enumerate(zip(waiting, ages, strict=True))
        )
        position = max(i for i, name in enumerate(unit.operators) if name in ready)
        queue = view.queues[unit.operators[position]]
        return Turn(unit.operators[position:], min(queue.ready, unit.tuples_per_round))


def _wait_s(unit: Unit, view: SystemView) -> float:
    heads = [view.queues[name].oldest_s for name in unit.operators if view.queues[name].length > 0]
    return max(0.0, view.now_s - min(heads))


def _positive(units: Sequence[Unit]) -> list[Unit]:
    """The same units in the same order, with priorities that a factor can raise: finite and above 0."""
    usual = [unit.priority for unit in units if 0 < unit.priority < math.inf] or [1.0]
    lowest, highest = min(usual) / 1000, max(usual) * 1000
    return [
        Unit(unit.operators, min(max(unit.priority, lowest), highest), unit.tuples_per_round)
        for unit in units
    ]
