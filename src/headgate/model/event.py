"""Events of a running network: immutable facts for the loop and for observers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from operator import add

from headgate.formats.plain_json import finite
from headgate.model.shedding import TickSettings
from headgate.model.view import Turn


@dataclass(frozen=True)
class TickStarted:
    """A tick of the Spark engine has begun to take in what has arrived."""

    now_s: float
    batch_id: int


@dataclass(frozen=True)
class TuplesArrived:
    """New tuples are in the queues; ``shed`` others have arrived with them."""

    now_s: float
    tuples: Mapping[str, int]
    shed: int = 0


@dataclass(frozen=True)
class TurnFinished:
    """A turn has been executed (or, on Spark, planned into the current tick)."""

    now_s: float
    turn: Turn


@dataclass(frozen=True)
class TimeUnitEnded:
    """A time unit of the simulator has ended: work in progress is interrupted, all processors are free."""

    now_s: float


@dataclass(frozen=True)
class ProfilesLearnt:
    """Measured profiles have changed; strategies prepare again."""

    now_s: float


@dataclass(frozen=True)
class StreamCounts:
    """Exact tuple counts of one stream, and the number of unreadable files."""

    rows_in: int = 0
    late: int = 0
    bad: int = 0
    shed: int = 0
    files_set_aside: int = 0

    @property
    def usable(self) -> int:
        """Tuples that are neither late nor bad."""
        return self.rows_in - self.late - self.bad

    def __add__(self, other: StreamCounts) -> StreamCounts:
        return StreamCounts(*map(add, astuple(self), astuple(other)))


def keep_ratio(counts: Iterable[StreamCounts]) -> float:
    """The share of tuples at drop boxes that they kept."""
    total = sum(counts, StreamCounts())
    return 1 - total.shed / total.usable if total.usable else 1.0


@dataclass(frozen=True)
class QueryCounts:
    """Results of one query, their latencies as (seconds, how many), and the share of tuples behind them."""

    rows_out: int = 0
    latencies: tuple[tuple[float, float], ...] = ()
    keep_ratio: float = 1.0
    set_aside: int = 0
    """Tuples, or combinations of them, for which an expression of the query failed."""


@dataclass(frozen=True)
class OperatorCounts:
    """One operator in a tick: tuples that it took, and tuples and bytes that wait before it afterwards."""

    taken: float = 0.0
    waiting: float = 0.0
    waiting_bytes: float = 0.0


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
    lateness_us: Mapping[str, int] = field(default_factory=dict)
    """The watermark delay with which no tuple of a stream would have been late, where some were."""
    waiting: frozenset[str] = frozenset()
    """Streams that have brought as much as the tick was to take, so that more may wait in their sources."""
    operators: Mapping[str, OperatorCounts] = field(default_factory=dict)
    turns: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    """Tuples that the strategy let pass through these operators, by predicted numbers."""

    @property
    def totals(self) -> StreamCounts:
        return sum(self.streams.values(), StreamCounts())


@dataclass(frozen=True)
class SettingsChanged:
    """The tick after ``batch_id`` has other keep ratios or join orders, chosen by these statistics."""

    now_s: float
    batch_id: int
    reason: str
    before: TickSettings
    after: TickSettings
    statistics: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        changes = []
        for stream in sorted({*self.before.keep, *self.after.keep}):
            old, new = self.before.keep_ratio(stream), self.after.keep_ratio(stream)
            if old != new:
                changes.append(f"keep {new:.3g} of {stream} (was {old:.3g})")
        for name, order in self.after.orders.items():
            if self.before.orders.get(name) != order:
                changes.append(f"{name} in the order {order}")
        return f"{self.reason}: {', '.join(changes)}"

    def to_json(self) -> dict[str, object]:
        return {
            "tick": self.batch_id,
            "reason": self.reason,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "statistics": finite(self.statistics),
        }


@dataclass(frozen=True)
class _QueryChange:
    now_s: float
    query: str
    batch_id: int
    """The last tick before it."""


@dataclass(frozen=True)
class QueryAdded(_QueryChange):
    """A query runs from the next tick on; it sees tuples from ``start_us`` on, all if that is None."""

    start_us: int | None = None


@dataclass(frozen=True)
class QueryDropped(_QueryChange):
    """A query has ended; its results stay."""


@dataclass(frozen=True)
class QueryAltered(_QueryChange):
    """The quality of service of a query is another one from the next tick on."""


@dataclass(frozen=True)
class QueryPaused(_QueryChange):
    """The tuples of a query wait from the next tick on."""


@dataclass(frozen=True)
class QueryResumed(_QueryChange):
    """A paused query goes on."""


QueryChange = QueryAdded | QueryDropped | QueryAltered | QueryPaused | QueryResumed

Event = (
    TickStarted
    | TuplesArrived
    | TurnFinished
    | TimeUnitEnded
    | ProfilesLearnt
    | TickCommitted
    | SettingsChanged
    | QueryChange
)
