"""What a run has done so far, added up from its events."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from headgate.model.event import Event, StreamCounts, TickCommitted
from headgate.model.network import Network


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

    def to_json(self) -> dict[str, object]:
        """The document that ``run --json`` prints."""
        return {
            "queries": {
                name: {"rows_out": q.rows_out, "latency_s": vars(q.latency_s)}
                for name, q in self.queries.items()
            },
            "streams": {
                name: {"rows_in": s.rows_in, "late": s.late, "bad": s.bad, "shed": s.shed}
                for name, s in self.streams.items()
            },
            "backlog": {"peak_tuples": self.peak_backlog_tuples, "peak_bytes": self.peak_backlog_bytes},
            "ticks": self.ticks,
            "seconds": round(self.seconds, 3),
        }


class Recorder:
    """An observer that adds up."""

    def __init__(self, network: Network) -> None:
        self._lock = threading.Lock()
        self._started_s = time.time()
        self._rows_out = dict.fromkeys(network.queries, 0)
        self._latencies: dict[str, list[tuple[float, float]]] = {name: [] for name in network.queries}
        self._streams = dict.fromkeys(network.streams, StreamCounts())
        self._history: list[TickRecord] = []

    @property
    def queries(self) -> tuple[str, ...]:
        """Names of all queries."""
        return tuple(self._rows_out)

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        if isinstance(event, TickCommitted):
            with self._lock:
                self._add(event)

    def _add(self, tick: TickCommitted) -> None:
        for name, counts in tick.streams.items():
            had = self._streams[name]
            self._streams[name] = StreamCounts(
                had.rows_in + counts.rows_in,
                had.late + counts.late,
                had.bad + counts.bad,
                had.shed + counts.shed,
            )
        latency_s = {}
        for name, result in tick.queries.items():
            self._rows_out[name] += result.rows_out
            self._latencies[name].extend(result.latencies)
            if result.latencies:
                total = sum(n for _, n in result.latencies)
                latency_s[name] = sum(s * n for s, n in result.latencies) / total
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
            )
        )

    def status(self) -> RunStatus:
        """Everything so far."""
        with self._lock:
            history = list(self._history)
            return RunStatus(
                queries={
                    n: QueryStatus(rows, _latency(self._latencies[n])) for n, rows in self._rows_out.items()
                },
                streams=dict(self._streams),
                peak_backlog_tuples=max((t.backlog_tuples for t in history), default=0),
                peak_backlog_bytes=max((t.backlog_bytes for t in history), default=0),
                backlog_tuples=history[-1].backlog_tuples if history else 0,
                ticks=len(history),
                seconds=history[-1].at_s if history else 0.0,
                history=history,
            )


def _latency(pairs: list[tuple[float, float]]) -> Latency:
    total = sum(n for _, n in pairs)
    if not total:
        return Latency(None, None, None, None)
    ordered = sorted(pairs)
    mean = sum(s * n for s, n in pairs) / total
    return Latency(mean, _percentile(ordered, total, 0.5), _percentile(ordered, total, 0.99), ordered[-1][0])


def _percentile(ordered: list[tuple[float, float]], total: float, share: float) -> float:
    passed = 0.0
    for seconds, count in ordered:
        passed += count
        if passed >= share * total:
            return seconds
    return ordered[-1][0]
