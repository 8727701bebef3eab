"""What a strategy may know of the running system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class QueueView:
    """The queue before an operator.

    ``ready`` of its ``length`` tuples can be taken now; the others wait for timestamp order.
    ``oldest_s`` is when the head of the queue arrived, on the clock of ``SystemView.now_s``; ``arrivals_s``
    when each of its tuples did, in order, if the engine tells. ``begun``: work on the head was interrupted.
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
    """The instant at which a strategy decides."""

    now_s: float
    queues: Mapping[str, QueueView]

    def ready(self) -> list[QueueView]:
        """Queues with something to take."""
        return [queue for queue in self.queues.values() if queue.ready > 0]


@dataclass(frozen=True)
class Turn:
    """Take up to ``max_tuples`` from the queue of the first operator, carry them through all."""

    operators: tuple[str, ...]
    max_tuples: float
