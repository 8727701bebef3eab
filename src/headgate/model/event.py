"""What happens while a network runs: immutable facts for the loop and for observers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headgate.model.shedding import Course
from headgate.model.view import Turn


@dataclass(frozen=True)
class TuplesArrived:
    """New tuples stand in the queues."""

    now_s: float
    tuples: Mapping[str, int]


@dataclass(frozen=True)
class TurnFinished:
    """A turn has been carried out (or, on Spark, planned into the current tick)."""

    now_s: float
    turn: Turn


@dataclass(frozen=True)
class TimeUnitEnded:
    """A time unit of the simulator is over: work under way is interrupted, every processor free."""

    now_s: float


@dataclass(frozen=True)
class ProfilesLearnt:
    """Measured profiles changed; strategies prepare anew."""

    now_s: float


@dataclass(frozen=True)
class StreamCounts:
    """Tuples of one stream, counted exactly, and the files whose tuples nobody can count."""

    rows_in: int = 0
    late: int = 0
    bad: int = 0
    shed: int = 0
    files_set_aside: int = 0

    def __add__(self, other: StreamCounts) -> StreamCounts:
        """Both together."""
        return StreamCounts(
            self.rows_in + other.rows_in,
            self.late + other.late,
            self.bad + other.bad,
            self.shed + other.shed,
            self.files_set_aside + other.files_set_aside,
        )


def kept_share(counts: Iterable[StreamCounts]) -> float:
    """Of the tuples that drop boxes have seen, the share that they let through."""
    seen = [(c.rows_in - c.late - c.bad, c.shed) for c in counts]
    total, shed = sum(s for s, _ in seen), sum(s for _, s in seen)
    return 1 - shed / total if total else 1.0


@dataclass(frozen=True)
class QueryCounts:
    """Results of one query; ``latencies`` are (seconds, how many) pairs.

    ``kept`` is the share of its streams' tuples that the results are based on.
    """

    rows_out: int = 0
    latencies: tuple[tuple[float, float], ...] = ()
    kept: float = 1.0


@dataclass(frozen=True)
class TickCommitted:
    """A tick of the Spark engine is durable. Counts are of this tick alone.

    ``now_s`` is when its results had been published, ``seconds`` after it began. ``busy_s`` is the processor
    time of its jobs, which is known once it is committed; 0 where the tick was too small to tell.
    """

    now_s: float
    batch_id: int
    seconds: float
    streams: Mapping[str, StreamCounts]
    queries: Mapping[str, QueryCounts]
    backlog_tuples: int
    backlog_bytes: int
    window_bytes: int
    phases_s: Mapping[str, float] = field(default_factory=dict)
    busy_s: float = 0.0
    until_s: Mapping[str, float] = field(default_factory=dict)
    """The highest timestamp of each stream so far, where there is one."""


@dataclass(frozen=True)
class CourseChanged:
    """From the tick behind ``batch_id`` on, other shares are kept, or joins run in another order."""

    now_s: float
    batch_id: int
    reason: str
    before: Course
    after: Course
    figures: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.reason}: {', '.join(self._differences())}"

    def _differences(self) -> Iterator[str]:
        for stream in sorted({*self.before.keep, *self.after.keep}):
            old, new = self.before.share(stream), self.after.share(stream)
            if old != new:
                yield f"keep {new:.3g} of {stream} (was {old:.3g})"
        for name, order in self.after.orders.items():
            if self.before.orders.get(name) != order:
                yield f"{name} in the order {', '.join(order)}"

    def to_json(self) -> dict[str, object]:
        """Old and new, the reason, the figures."""
        return {
            "tick": self.batch_id,
            "reason": self.reason,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "figures": dict(self.figures),
        }


Event = TuplesArrived | TurnFinished | TimeUnitEnded | ProfilesLearnt | TickCommitted | CourseChanged
