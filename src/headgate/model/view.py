"""The state of the running system that strategies see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class QueueView:
    """The queue before an operator.

    ``ready`` of its ``length`` tuples can be taken now; the others wait for timestamp order.
    ``oldest_s`` is the arrival time of the head, on the clock of ``SystemView.now_s``; ``arrivals_s`` has
    those of all tuples in order, if the engine knows them. ``begun``: work on the head was interrupted.
    """

    operator: str
    length: float
    ready: float
    bytes: float
    oldest_s: float
    arrivals_s: Sequence[float] = ()
    begun: bool = False


@dataclass(frozen=True)
class SystemView:
    """All queues at the instant at which a strategy decides."""

    now_s: float
    queues: Mapping[str, QueueView]

    def ready(self) -> list[QueueView]:
        """Queues with tuples to take."""
        return [queue for queue in self.queues.values() if queue.ready > 0]


@dataclass(frozen=True)
class Turn:
    """Take up to ``max_tuples`` from the queue of the first operator and pass them through all."""

    operators: tuple[str, ...]
    max_tuples: float
