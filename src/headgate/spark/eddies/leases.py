"""Leases of slots: who may call functions of a pool now, and who is next. Decides, and does no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Worker = TypeVar("Worker", bound=Hashable)


@dataclass(eq=False)
class LeaseTable(Generic[Worker]):
    """Grants no more slots of a pool than it has.

    Workers of earlier jobs come first, since their tuples have waited longer; those of one job take turns.
    Every method returns the workers to which it grants a slot, each as often as it does.
    """

    _slots: Callable[[], Mapping[str, int]]
    """Slots of every pool now. If there are fewer than before, leases are not revoked: they run out."""
    _held: Counter[tuple[str, Worker]] = field(default_factory=Counter)
    _used: Counter[str] = field(default_factory=Counter)
    _waiting: dict[str, list[tuple[int, int, Worker]]] = field(default_factory=dict)
    _requests: int = 0

    def request(self, pool: str, worker: Worker, job: int) -> list[Worker]:
        self._requests += 1
        self._waiting.setdefault(pool, []).append((job, self._requests, worker))
        return self.grant(pool)

    def take_turns(self, pool: str, worker: Worker, job: int) -> list[Worker]:
        """Pass a slot on to a worker that comes first, or else to the same one again."""
        return [*self.request(pool, worker, job), *self.release(pool, worker)]

    def release(self, pool: str, worker: Worker) -> list[Worker]:
        if not self._held[pool, worker]:
            return []
        self._held[pool, worker] -= 1
        self._used[pool] -= 1
        return self.grant(pool)

    def forget(self, worker: Worker) -> list[tuple[str, Worker]]:
        """Take back all leases and requests of a worker that has ended; returns pools and grants."""
        for pool, waiting in self._waiting.items():
            self._waiting[pool] = [request for request in waiting if request[2] != worker]
        pools = [pool for pool, holder in self._held if holder == worker]
        for pool in pools:
            self._used[pool] -= self._held.pop((pool, worker))
        return [(pool, granted) for pool in pools for granted in self.grant(pool)]

    def grant(self, pool: str) -> list[Worker]:
        """Grant what is free; needed by itself only after a pool has got more slots."""
        granted = []
        waiting = self._waiting.get(pool, [])
        while waiting and self._used[pool] < self._slots().get(pool, 0):
            first = min(waiting, key=lambda request: request[:2])
            waiting.remove(first)
            self._used[pool] += 1
            self._held[pool, first[2]] += 1
            granted.append(first[2])
        return granted

    def used(self, pool: str) -> int:
        """Slots in use."""
        return self._used[pool]
