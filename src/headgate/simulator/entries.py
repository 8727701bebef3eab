"""Entries before operators, and their queues in timestamp order."""

from __future__ import annotations

from bisect import insort_left, insort_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.simulator.scenario import Grid


@dataclass(slots=True, eq=False)
class Entry:
    """A page or a tuple before an operator; ``rank`` is the number of its source tuple among all arrivals."""

    rank: int
    edge: int
    identity: int
    amount: float
    width: float
    """Of one tuple, as a multiple of the arriving tuple's."""
    units: int
    bytes: float
    arrival_tick: int
    stream: int
    remaining_ticks: int = -1
    """What is left of the service; -1 before it begins."""

    def place(self) -> tuple[int, int]:
        return self.rank, self.edge


class Queue:
    """Entries before an operator in timestamp order, and those of them in service."""

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.serving: list[Entry] = []
        self.amount = 0.0
        """Of all entries, those in service included."""
        self.bytes = 0.0

    def add(self, entry: Entry) -> None:
        """Insert a new entry by its timestamp, after its equals."""
        if not self.waiting and not self.serving:
            # sums restart without the rounding of the last busy period
            self.amount = self.bytes = 0.0
        self.amount += entry.amount
        self.bytes += entry.bytes
        insort_right(self.waiting, entry, key=Entry.place)

    def put_back(self, entry: Entry) -> None:
        """Put an entry back from service, before its equals."""
        self.serving.remove(entry)
        insort_left(self.waiting, entry, key=Entry.place)

    def finish(self, entry: Entry) -> None:
        self.serving.remove(entry)
        self.amount -= entry.amount
        self.bytes -= entry.bytes

    def oldest_rank(self, otherwise: int) -> int:
        if not self.serving:
            return self.waiting[0].rank if self.waiting else otherwise
        served = min(entry.rank for entry in self.serving)
        return min(served, self.waiting[0].rank) if self.waiting else served


class ArrivalsOf(Sequence[float]):
    """Arrival times of waiting entries, head first: a view, computed when it is read."""

    def __init__(self, waiting: deque[Entry], grid: Grid) -> None:
        self._waiting = waiting
        self._grid = grid

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[float]:
        return (self._grid.seconds(entry.arrival_tick) for entry in self._waiting)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return self._grid.seconds(self._waiting[index].arrival_tick)
