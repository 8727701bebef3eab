"""Threshold: low latency while there is memory, low memory when there is not."""

from __future__ import annotations

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.scheduling.path_capacity import PathCapacity
from headgate.scheduling.simplified_segment import SimplifiedSegment
from headgate.scheduling.strategy import Strategy

_DEFAULT_BYTES = 64 * 1024 * 1024


def thresholds(memory_bytes: float, mean_bytes: float, beta: float) -> tuple[float, float]:
    """Queue memory at which to leave saving mode, and at which to enter it."""
    alpha = mean_bytes / memory_bytes
    enter = min((1 + alpha) / 2 * memory_bytes, beta * memory_bytes)
    return min(mean_bytes, beta * enter), enter


class Threshold:
    """Path capacity; from an upper threshold of queue memory down to a lower one, simplified segments.

    The limit is ``memory_bytes``, or what the queries allow together, or 64 MB. Memory is looked at every
    ``interval_s`` when queues are empty, the more often the nearer it is to the limit.
    """

    name = "threshold"

    def __init__(
        self,
        memory_bytes: float | None = None,
        beta: float = 0.9,
        interval_s: float = 0.1,
        normal: Strategy | None = None,
        saving: Strategy | None = None,
    ) -> None:
        if not 0.5 < beta < 1:
            raise SetupError(f"beta = {beta:g} is out of range; write a number between 0.5 and 1")
        if memory_bytes is not None and memory_bytes <= 0:
            raise SetupError(f"memory_bytes = {memory_bytes:g} is no limit; write a number above 0")
        self.memory_bytes = memory_bytes
        self.beta = beta
        self.interval_s = interval_s
        self.normal = normal or PathCapacity()
        self.saving = saving or SimplifiedSegment()
        self.is_saving = False
        self._allowed_bytes: float = _DEFAULT_BYTES
        self._byte_seconds = 0.0
        self._first_s: float | None = None
        self._looked_s = 0.0
        self._look_again_s = 0.0
        self._bytes = 0.0

    @property
    def limit_bytes(self) -> float:
        """The limit that counts; set ``memory_bytes`` to change it."""
        return self._allowed_bytes if self.memory_bytes is None else self.memory_bytes

    @property
    def mean_bytes(self) -> float:
        """Queue memory so far, averaged over time."""
        elapsed_s = self._looked_s - (self._first_s or 0.0)
        return self._byte_seconds / elapsed_s if elapsed_s > 0 else 0.0

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare both modes."""
        bounds = [query.memory_bytes for query in network.queries.values() if query.memory_bytes]
        self._allowed_bytes = float(sum(bounds)) if bounds else _DEFAULT_BYTES
        self.normal.prepare(network, profiles)
        self.saving.prepare(network, profiles)

    def choose(self, view: SystemView) -> Turn | None:
        """What the present mode says."""
        if self._first_s is None or view.now_s >= self._look_again_s:
            self._look(view)
        return (self.saving if self.is_saving else self.normal).choose(view)

    def _look(self, view: SystemView) -> None:
        if self._first_s is None:
            self._first_s = self._looked_s = view.now_s
        self._byte_seconds += self._bytes * max(0.0, view.now_s - self._looked_s)
        self._looked_s = max(view.now_s, self._looked_s)
        self._bytes = sum(queue.bytes for queue in view.queues.values())
        leave, enter = thresholds(self.limit_bytes, min(self.mean_bytes, self.limit_bytes), self.beta)
        if self._bytes >= enter:
            self.is_saving = True
        elif self._bytes <= leave:
            self.is_saving = False
        self._look_again_s = view.now_s + self.interval_s * max(0.0, 1 - self._bytes / self.limit_bytes)
