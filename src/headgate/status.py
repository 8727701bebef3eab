"""What a run has done so far, added up from its events."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import asdict, dataclass, field

from headgate.model.event import CourseChanged, Event, StreamCounts, TickCommitted, kept_share
from headgate.model.network import Network

_BIN = math.log(1.01)
_MOST_TICKS = 10_000
_MOST_WARNINGS = 100
_MOST_CHANGES = 1_000


@dataclass(frozen=True)
class Latency:
    """Seconds from arrival to result, over all results."""

    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True)
class QueryStatus:
    """One query so far."""

    rows_out: int
    latency_s: Latency
    kept: float = 1.0
    """Share of its streams' tuples that it has seen."""
    shed: int = 0
    """Tuples of its streams that it has not."""
    rows_in: int = 0
    """Tuples of its streams, but for late and bad ones: what it has seen and what was shed."""


@dataclass(frozen=True)
class TickRecord:
    """One tick, for plots."""

    at_s: float
    seconds: float
    rows_in: int
    rows_out: int
    backlog_tuples: int
    backlog_bytes: int
    window_bytes: int
    latency_s: dict[str, float]
    phases_s: dict[str, float]
    busy_s: float
    shed: int = 0


@dataclass(frozen=True)
class RunStatus:
    """A run so far."""

    queries: dict[str, QueryStatus]
    streams: dict[str, StreamCounts]
    peak_backlog_tuples: int
    peak_backlog_bytes: int
    backlog_tuples: int
    ticks: int
    seconds: float
    history: list[TickRecord] = field(repr=False, default_factory=list)
    warnings: tuple[str, ...] = ()
    changes: tuple[CourseChanged, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The document that ``run --json`` prints."""
        return {
            "queries": {
                name: {
                    "rows_in": q.rows_in,
                    "rows_out": q.rows_out,
                    "latency_s": vars(q.latency_s),
                    "kept": q.kept,
                    "shed": q.shed,
                }
                for name, q in self.queries.items()
            },
            "streams": {name: asdict(counts) for name, counts in self.streams.items()},
            "backlog": {"peak_tuples": self.peak_backlog_tuples, "peak_bytes": self.peak_backlog_bytes},
            "ticks": self.ticks,
            "seconds": round(self.seconds, 3),
            **({"warnings": list(self.warnings)} if self.warnings else {}),
            **({"changes": [change.to_json() for change in self.changes]} if self.changes else {}),
        }


class Recorder:
    """An observer that adds up."""

    def __init__(self, network: Network) -> None:
        self._lock = threading.Lock()
        self._started_s = time.time()
        self._streams_of = {name: network.streams_of(name) for name in network.queries}
        self._changes: list[CourseChanged] = []
        self._rows_out = dict.fromkeys(network.queries, 0)
        self._latencies = {name: LatencyTally() for name in network.queries}
        self._streams = dict.fromkeys(network.streams, StreamCounts())
        self._history: list[TickRecord] = []
        self._warnings: list[str] = []
        self._ticks = 0
        self._peak_tuples = 0
        self._peak_bytes = 0

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of all queries."""
        return tuple(self._rows_out)

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, TickCommitted):
            with self._lock:
                self._add(event)
        elif isinstance(event, CourseChanged):
            with self._lock:
                self._changes = [*self._changes[1 - _MOST_CHANGES :], event]

    def _add(self, tick: TickCommitted) -> None:
        for name, counts in tick.streams.items():
            self._streams[name] += counts
        latency_s = {}
        for name, result in tick.queries.items():
            self._rows_out[name] += result.rows_out
            for seconds, count in result.latencies:
                self._latencies[name].add(seconds, count)
            if result.latencies:
                total = sum(n for _, n in result.latencies)
                latency_s[name] = sum(s * n for s, n in result.latencies) / total
        self._ticks += 1
        self._peak_tuples = max(self._peak_tuples, tick.backlog_tuples)
        self._peak_bytes = max(self._peak_bytes, tick.backlog_bytes)
        if len(self._history) >= _MOST_TICKS:
            # an endless run keeps every second of its older ticks
            self._history = self._history[::2]
        self._history.append(
            TickRecord(
                at_s=tick.now_s - self._started_s,
                seconds=tick.seconds,
                rows_in=sum(c.rows_in for c in tick.streams.values()),
                rows_out=sum(q.rows_out for q in tick.queries.values()),
                backlog_tuples=tick.backlog_tuples,
                backlog_bytes=tick.backlog_bytes,
                window_bytes=tick.window_bytes,
                latency_s=latency_s,
                phases_s=dict(tick.phases_s),
                busy_s=tick.busy_s,
                shed=sum(c.shed for c in tick.streams.values()),
            )
        )

    def warn(self, warning: object) -> None:
        """Note that a query is about to break its bounds."""
        with self._lock:
            self._warnings = [*self._warnings[1 - _MOST_WARNINGS :], str(warning)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The latest warnings, oldest first."""
        with self._lock:
            return tuple(self._warnings)

    def recent(self) -> list[TickRecord]:
        """The ticks so far, as far as they are remembered."""
        with self._lock:
            return list(self._history)

    def status(self) -> RunStatus:
        """Everything so far."""
        with self._lock:
            history = list(self._history)
            queries = {name: self._query_status(name) for name in self._rows_out}
            return RunStatus(
                queries=queries,
                streams=dict(self._streams),
                peak_backlog_tuples=self._peak_tuples,
                peak_backlog_bytes=self._peak_bytes,
                backlog_tuples=history[-1].backlog_tuples if history else 0,
                ticks=self._ticks,
                seconds=history[-1].at_s if history else 0.0,
                history=history,
                warnings=tuple(self._warnings),
                changes=tuple(self._changes),
            )

    def _query_status(self, name: str) -> QueryStatus:
        read = [self._streams[stream] for stream in self._streams_of[name]]
        shed = sum(counts.shed for counts in read)
        rows_in = sum(counts.rows_in - counts.late - counts.bad for counts in read)
        latency = self._latencies[name].latency()
        return QueryStatus(self._rows_out[name], latency, kept_share(read), shed, rows_in)


class LatencyTally:
    """Latencies in bins of 1 %, so that an endless run needs no more room than a short one."""

    def __init__(self) -> None:
        self._bins: dict[int, float] = {}
        self._count = 0.0
        self._total_s = 0.0
        self._max_s = 0.0

    def add(self, seconds: float, count: float) -> None:
        """So many results that took so long."""
        position = round(math.log(max(seconds, 1e-6)) / _BIN)
        self._bins[position] = self._bins.get(position, 0.0) + count
        self._count += count
        self._total_s += seconds * count
        self._max_s = max(self._max_s, seconds)

    def latency(self) -> Latency:
        """Mean and largest are exact, percentiles to 1 %."""
        if not self._count:
            return Latency(None, None, None, None)
        return Latency(
            self._total_s / self._count, self._percentile(0.5), self._percentile(0.99), self._max_s
        )

    def _percentile(self, share: float) -> float:
        passed = 0.0
        for position in sorted(self._bins):
            passed += self._bins[position]
            if passed >= share * self._count:
                return min(self._max_s, math.exp(position * _BIN))
        return self._max_s
