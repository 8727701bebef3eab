"""A tick in predicted time, before it reads a tuple: queues are counts, turns cost what profiles predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn

# below this many expected tuples a queue counts as empty
_NOTHING = 1e-6


@dataclass
class ForecastQueue:
    """Expected tuples before an operator.

    ``ready`` ones can be taken in this tick, ``blocked`` ones wait for timestamp order. Of the tuples
    delivered during the tick, ``ready_share`` will be ready.
    """

    ready: float
    blocked: float
    oldest_s: float
    ready_share: float = 1.0

    @property
    def length(self) -> float:
        return self.ready + self.blocked


class Forecast:
    """The predicted state of a tick while its turns are chosen.

    ``most`` are the tuples that turns may take from the queue of an operator, whatever they are predicted to
    cost; of an operator that is not listed, all.
    """

    def __init__(
        self,
        network: Network,
        profiles: Profiles,
        queues: Mapping[str, ForecastQueue],
        now_s: float,
        budget_s: float,
        processors: int = 1,
        most: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._network = network
        self._profiles = profiles
        self._queues = queues
        self._start_s = now_s
        self._budget_s = budget_s
        self._processors = processors
        self._most = most
        self.spent_s = 0.0
        """Processor seconds that the turns so far take."""
        self.offered: dict[str, float] = {name: queue.ready for name, queue in queues.items()}
        self.taken: dict[str, float] = dict.fromkeys(network.operators, 0.0)
        self.turns: dict[tuple[str, ...], float] = {}
        """Tuples of all turns, by the operators that they pass through."""

    @property
    def spent(self) -> bool:
        return self.spent_s >= self._budget_s

    @property
    def now_s(self) -> float:
        return self._start_s + self.spent_s / self._processors

    def extend(self, seconds: float) -> None:
        """Grant more processor time: backlog above the memory budget holds the source back."""
        self._budget_s = max(self._budget_s, self.spent_s) + seconds

    def backlog_bytes(self) -> float:
        return sum(q.length * self._profiles[n].bytes_per_tuple for n, q in self._queues.items())

    def taken_share(self, operator: str) -> float:
        """Share of an operator's ready tuples that the turns of this tick take."""
        offered = self.offered[operator]
        return 1.0 if offered <= _NOTHING else min(1.0, self.taken[operator] / offered)

    def view(self) -> SystemView:
        queues = {
            name: QueueView(
                operator=name,
                length=queue.length,
                ready=self._ready(name),
                bytes=queue.length * self._profiles[name].bytes_per_tuple,
                oldest_s=queue.oldest_s,
            )
            for name, queue in self._queues.items()
        }
        return SystemView(self.now_s, queues)

    def _ready(self, operator: str) -> float:
        """Tuples that a turn may still take from the queue of an operator."""
        ready = min(self._queues[operator].ready, self._most.get(operator, inf) - self.taken[operator])
        return ready if ready > _NOTHING else 0.0

    def run(self, turn: Turn) -> None:
        """Spend a turn's predicted time; the budget cuts the turn where it ends."""
        per_tuple_s = self._seconds_through(turn.operators)
        affordable = max(0.0, self._budget_s - self.spent_s) / max(per_tuple_s, 1e-12)
        # at least one tuple: a tick that moves nothing would never end a backlog
        tuples = min(turn.max_tuples, self._ready(turn.operators[0]), max(1.0, affordable))
        self.spent_s += tuples * per_tuple_s
        self.turns[turn.operators] = self.turns.get(turn.operators, 0.0) + tuples
        self._move(turn.operators, tuples)

    def _seconds_through(self, operators: tuple[str, ...]) -> float:
        seconds, surviving = 0.0, 1.0
        for name in operators:
            surviving *= self._queues[name].ready_share if name != operators[0] else 1.0
            seconds += surviving * self._profiles[name].seconds_per_tuple
            surviving *= self._profiles[name].selectivity
        return seconds

    def _move(self, operators: tuple[str, ...], tuples: float) -> None:
        oldest_s = self._queues[operators[0]].oldest_s
        for position, name in enumerate(operators):
            queue = self._queues[name]
            if position > 0:
                self._deliver(name, tuples, oldest_s)
                tuples *= queue.ready_share
            self.taken[name] += tuples
            queue.ready = max(0.0, queue.ready - tuples)
            tuples *= self._profiles[name].selectivity
            following = operators[position + 1 : position + 2]
            for reader in self._network.readers(name):
                if reader not in following:
                    self._deliver(reader, tuples, oldest_s)

    def _deliver(self, reader: str, tuples: float, oldest_s: float) -> None:
        queue = self._queues[reader]
        if queue.length <= _NOTHING:
            queue.oldest_s = oldest_s
        queue.ready += tuples * queue.ready_share
        queue.blocked += tuples * (1.0 - queue.ready_share)
        self.offered[reader] += tuples * queue.ready_share
