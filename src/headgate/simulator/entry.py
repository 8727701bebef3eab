"""What stands in a queue."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Entry:
    """A page or a tuple before an operator. ``rank`` is its source tuple's place among all arrivals."""

    rank: int
    edge: int
    identity: int
    amount: float
    width: float
    """Of one tuple, as a multiple of the arriving tuple's."""
    units: int
    arrival_tick: int
    stream: int
    remaining_ticks: int = -1
    """What is left of the service; -1 before it begins."""


class Queue:
    """Entries before an operator in timestamp order, and what of them is being served."""

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.serving: list[Entry] = []
        self.amount = 0.0
        """Of all entries, those in service included."""
        self.bytes = 0.0

    def add(self, entry: Entry, entry_bytes: float) -> None:
        """Put a new entry where its timestamp belongs, after its equals."""
        if not self.waiting and not self.serving:
            # sums start anew, without the rounding of the last busy time
            self.amount = self.bytes = 0.0
        self.amount += entry.amount
        self.bytes += entry_bytes
        place = len(self.waiting)
        while place and _key(self.waiting[place - 1]) > _key(entry):
            place -= 1
        self.waiting.insert(place, entry)

    def begin(self) -> Entry:
        """Take the head into service."""
        entry = self.waiting.popleft()
        self.serving.append(entry)
        return entry

    def interrupt(self, entry: Entry) -> None:
        """Put an entry back from service, before its equals."""
        self.serving.remove(entry)
        place = 0
        while place < len(self.waiting) and _key(self.waiting[place]) < _key(entry):
            place += 1
        self.waiting.insert(place, entry)

    def finish(self, entry: Entry, entry_bytes: float) -> None:
        """Remove an entry from service for good."""
        self.serving.remove(entry)
        self.amount -= entry.amount
        self.bytes -= entry_bytes

    def oldest_rank(self, otherwise: int) -> int:
        """The least rank of all entries, waiting or in service."""
        ranks = [entry.rank for entry in self.serving]
        if self.waiting:
            ranks.append(self.waiting[0].rank)
        return min(ranks, default=otherwise)


def _key(entry: Entry) -> tuple[int, int]:
    return entry.rank, entry.edge
