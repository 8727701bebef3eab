"""What eddy workers publish: work done since the last time, queues, and in the end a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class Count:
    """Work done by a predicate."""

    tuples_in: int = 0
    done: int = 0
    out: int = 0
    busy_s: float = 0.0

    def add(self, other: Count) -> None:
        self.tuples_in += other.tuples_in
        self.done += other.done
        self.out += other.out
        self.busy_s += other.busy_s


@dataclass(frozen=True)
class Publication:
    """Work since the last publication, by predicate, and the queues of a worker now."""

    counts: Mapping[str, Count]
    queues: Mapping[str, int]
    elapsed_s: float


@dataclass(frozen=True)
class Report:
    """What a worker reports in the end: its last publication, all its work, and how long slots were in use.

    Before that, it waited ``waited_s`` for other workers to give up their slots.
    """

    last: Publication
    counts: Mapping[str, Count]
    active_s: float
    waited_s: float = 0.0
    settled: int = 0
    """Tuples that were finished, dropped, or sent on to a probe."""
    is_settled: bool = False
    """Whether the worker has no tuples left, but for those that it may hand back."""
