"""Leases of slots: who may call functions of a pool now, and who is next. Decides, and does no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

Worker = TypeVar("Worker", bound=Hashable)


class _Request(NamedTuple):
    job: int
    number: int


@dataclass(eq=False)
class LeaseTable(Generic[Worker]):
    """Grants no more slots of a pool than it has.

    Workers of earlier jobs come first, since their tuples have waited longer; those of one job take turns. A
    slot of a computing pool occupies a processor of its worker's executor: whoever comes first but has no
    processor left lets others pass. Every method returns what it grants: pools and workers, each as often as
    it does.
    """

    _slots: Callable[[], Mapping[str, int]]
    """Slots of every pool now. If there are fewer than before, leases are not revoked: they run out."""
    _computing: Collection[str] = ()
    """Pools whose calls use a processor each."""
    _executor: Callable[[Worker], Hashable] = lambda worker: worker
    processors: int = 1
    """Of every executor."""
    _held: Counter[tuple[str, Worker]] = field(default_factory=Counter)
    _used: Counter[str] = field(default_factory=Counter)
    _busy: Counter[Hashable] = field(default_factory=Counter)
    """Processors in use, by executor."""
    _waiting: dict[_Request, tuple[str, Worker]] = field(default_factory=dict)
    _requests: int = 0

    def request(self, pool: str, worker: Worker, job: int) -> list[tuple[str, Worker]]:
        self._requests += 1
        self._waiting[_Request(job, self._requests)] = pool, worker
        return self.grant()

    def take_turns(self, pool: str, worker: Worker, job: int) -> list[tuple[str, Worker]]:
        """Pass a slot on to a worker that comes first, or else to the same one again."""
        return [*self.request(pool, worker, job), *self.release(pool, worker)]

    def release(self, pool: str, worker: Worker) -> list[tuple[str, Worker]]:
        if not self._held[pool, worker]:
            return []
        self._count(pool, worker, -1)
        return self.grant()

    def forget(self, worker: Worker) -> list[tuple[str, Worker]]:
        """Take back all leases and requests of a worker that has ended."""
        self._waiting = {key: request for key, request in self._waiting.items() if request[1] != worker}
        for pool in [pool for pool, holder in self._held if holder == worker]:
            self._count(pool, worker, -self._held[pool, worker])
            del self._held[pool, worker]
        return self.grant()

    def grant(self) -> list[tuple[str, Worker]]:
        """Grant what is free; needed by itself only after pools or executors have got more."""
        granted = []
        for key in sorted(self._waiting):
            pool, worker = self._waiting[key]
            if self._used[pool] < self._slots().get(pool, 0) and self._has_processor(pool, worker):
                del self._waiting[key]
                self._count(pool, worker, 1)
                granted.append((pool, worker))
        return granted

    def _has_processor(self, pool: str, worker: Worker) -> bool:
        return pool not in self._computing or self._busy[self._executor(worker)] < self.processors

    def _count(self, pool: str, worker: Worker, change: int) -> None:
        self._used[pool] += change
        self._held[pool, worker] += change
        if pool in self._computing:
            self._busy[self._executor(worker)] += change

    def used(self, pool: str) -> int:
        """Slots in use."""
        return self._used[pool]
