"""The status of a run, accumulated from its events."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from headgate.formats.html import html_paragraph, html_table, plural
from headgate.formats.plain_json import finite
from headgate.model.event import (
    Event,
    QueryPaused,
    QueryResumed,
    SettingsChanged,
    StreamCounts,
    TickCommitted,
    keep_ratio,
)
from headgate.model.joins import WindowJoin
from headgate.model.network import Network
from headgate.model.window import UnboundedWindow

_BIN = math.log(1.01)
_MOST_TICKS = 10_000
_MOST_WARNINGS = 100
_MOST_CHANGES = 1_000
# more late rows than this share of a stream are reported
_LATE_SHARE = 0.01
# of time: a unit, its microseconds, and how many of it are still easy to read
_UNITS = (
    ("us", 1, 1_000),
    ("ms", 1_000, 1_000),
    ("s", 1_000_000, 600),
    ("min", 60_000_000, 600),
    ("h", 3_600_000_000, 240),
    ("d", 86_400_000_000, float("inf")),
)


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
    keep_ratio: float = 1.0
    """Share of its streams' tuples that it has processed."""
    shed: int = 0
    """Tuples of its streams that were shed."""
    rows_in: int = 0
    """Tuples of its streams without late and bad ones: processed and shed."""
    set_aside: int = 0
    """Tuples for which one of its expressions failed."""
    start_us: int | None = None
    """The first timestamp that it sees, if it joined a running network; None: it sees all tuples."""
    is_paused: bool = False


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
    changes: tuple[SettingsChanged, ...] = ()
    lateness_us: dict[str, int] = field(default_factory=dict)
    """The watermark delay with which no row of a stream would have been late, where some were."""

    @property
    def late_warnings(self) -> tuple[str, ...]:
        """A line for each stream of which too many rows were late."""
        found = (late_warning(name, c, self.lateness_us.get(name, 0)) for name, c in self.streams.items())
        return tuple(text for text in found if text is not None)

    @property
    def summary(self) -> str:
        """Ticks and backlog so far, in one line."""
        backlog = f"backlog {plural(self.backlog_tuples, 'tuple')}, {self.peak_backlog_tuples:,} at most"
        return f"{plural(self.ticks, 'tick')} in {self.seconds:,.1f} s; {backlog}"

    def __repr__(self) -> str:
        rows_in = sum(stream.rows_in for stream in self.streams.values())
        rows_out = sum(query.rows_out for query in self.queries.values())
        return f"<RunStatus: {rows_in:,} rows in, {rows_out:,} out; {self.summary}>"

    def _repr_html_(self) -> str:
        latency = ("latency mean (s)", "p50 (s)", "p99 (s)", "max (s)")
        queries = html_table(
            ("query", "rows out", *latency, "keep ratio"),
            ((n, q.rows_out, *vars(q.latency_s).values(), q.keep_ratio) for n, q in self.queries.items()),
        )
        streams = html_table(
            ("stream", "rows in", "late", "bad", "shed", "files set aside"),
            ((name, *asdict(counts).values()) for name, counts in self.streams.items()),
        )
        warnings = (html_paragraph(f"warning: {warning}") for warning in self.warnings)
        return "".join((queries, streams, html_paragraph(self.summary), *warnings))

    def to_json(self) -> dict[str, object]:
        """The document that ``run --json`` prints; a number that is not finite is None."""
        return {
            "queries": {
                name: {
                    "rows_in": q.rows_in,
                    "rows_out": q.rows_out,
                    "latency_s": finite(vars(q.latency_s)),
                    "keep_ratio": finite(q.keep_ratio),
                    "shed": q.shed,
                    "set_aside": q.set_aside,
                    **({} if q.start_us is None else {"start_s": q.start_us / 1e6}),
                    **({"paused": True} if q.is_paused else {}),
                }
                for name, q in self.queries.items()
            },
            "streams": {
                name: {**asdict(counts), "max_lateness_s": self.lateness_us.get(name, 0) / 1e6}
                for name, counts in self.streams.items()
            },
            "backlog": {"peak_tuples": self.peak_backlog_tuples, "peak_bytes": self.peak_backlog_bytes},
            "ticks": self.ticks,
            "seconds": finite(round(self.seconds, 3)),
            **({"warnings": warnings} if (warnings := [*self.warnings, *self.late_warnings]) else {}),
            **({"changes": [change.to_json() for change in self.changes]} if self.changes else {}),
        }


def late_warning(stream: str, counts: StreamCounts, lateness_us: int) -> str | None:
    """How many rows were late, why that happens, and what would have kept them; None if few were."""
    if counts.late <= _LATE_SHARE * counts.rows_in:
        return None
    share = 100 * counts.late / counts.rows_in
    found = (
        f"stream {stream}: {counts.late:,} of {counts.rows_in:,} rows ({share:.2g} %) were late and set aside"
    )
    if not lateness_us:
        return f"{found}, because they came after a silence; a longer idle_after would have kept them"
    enough = rounded_up(lateness_us)
    reason = f"they came up to {enough} behind, as rows of several writers or files out of order do"
    return f"{found}: {reason}; watermark '{enough}' would have kept them"


def rounded_up(duration_us: int) -> str:
    """A duration of at least this length with two significant digits, as CQL reads it: ``3.2 s``."""
    unit, factor = next((u, f) for u, f, most in _UNITS if duration_us < most * f)
    # in tenths of the unit below ten of it, in whole units below a hundred, and so on
    tenths, step = -(-10 * duration_us // factor), 1
    while tenths >= 100 * step:
        step *= 10
    tenths = -(-tenths // step) * step
    whole, rest = divmod(tenths, 10)
    return f"{whole}.{rest} {unit}" if rest else f"{whole} {unit}"


class Registered(Protocol):
    """Since when a query runs: the change that brought it, and the first timestamp that it sees."""

    @property
    def epoch(self) -> int: ...

    @property
    def start_us(self) -> int | None: ...


class Recorder:
    """An observer that accumulates the status of a run."""

    def __init__(self, network: Network) -> None:
        self._lock = threading.Lock()
        self._started_s = time.time()
        self._streams_of = {name: network.streams_of(name) for name in network.queries}
        self._changes: deque[SettingsChanged] = deque(maxlen=_MOST_CHANGES)
        self._rows_out = dict.fromkeys(network.queries, 0)
        self._set_aside = dict.fromkeys(network.queries, 0)
        self._latencies = {name: LatencyTally() for name in network.queries}
        self._streams = dict.fromkeys(network.streams, StreamCounts())
        self._history: list[TickRecord] = []
        self._warnings: deque[str] = deque(_growing_state(network), maxlen=_MOST_WARNINGS)
        self._lateness_us: dict[str, int] = {}
        self._late_streams: dict[str, str] = {}
        self._ticks = 0
        self._peak_tuples = self._peak_bytes = 0
        self._epochs: dict[str, int] = {}
        self._starts_us: dict[str, int | None] = {}
        self._paused: frozenset[str] = frozenset()

    def follow(self, network: Network, registered: Mapping[str, Registered], paused: Iterable[str]) -> None:
        """Count for the queries of another network; those of both go on."""
        with self._lock:
            same = {n for n in network.queries if self._epochs.get(n, 0) == registered[n].epoch}
            self._epochs = {name: registered[name].epoch for name in network.queries}
            self._starts_us = {name: registered[name].start_us for name in network.queries}
            self._paused = frozenset(paused)
            self._streams_of = {name: network.streams_of(name) for name in network.queries}
            counts = (self._rows_out, self._set_aside)
            self._rows_out, self._set_aside = (
                {name: own.get(name, 0) if name in same else 0 for name in network.queries} for own in counts
            )
            tallies = self._latencies
            self._latencies = {n: tallies.get(n, LatencyTally()) for n in same} | {
                name: LatencyTally() for name in network.queries if name not in same
            }
            self._streams = {name: self._streams.get(name, StreamCounts()) for name in network.streams}

    def __call__(self, event: Event) -> None:
        if isinstance(event, TickCommitted):
            with self._lock:
                self._add(event)
        elif isinstance(event, SettingsChanged):
            with self._lock:
                self._changes.append(event)
        elif isinstance(event, (QueryPaused, QueryResumed)):
            with self._lock:
                others = self._paused - {event.query}
                self._paused = others | {event.query} if isinstance(event, QueryPaused) else others

    def _add(self, tick: TickCommitted) -> None:
        for name, counts in tick.streams.items():
            self._streams[name] += counts
        for name, lateness_us in tick.lateness_us.items():
            self._lateness_us[name] = max(lateness_us, self._lateness_us.get(name, 0))
        self._note_late_streams()
        latency_s = {}
        for name, result in tick.queries.items():
            self._rows_out[name] += result.rows_out
            self._set_aside[name] += result.set_aside
            for seconds, count in result.latencies:
                self._latencies[name].add(seconds, count)
            if result.latencies:
                total = sum(n for _, n in result.latencies)
                latency_s[name] = sum(s * n for s, n in result.latencies) / total
        self._ticks += 1
        self._peak_tuples = max(self._peak_tuples, tick.backlog_tuples)
        self._peak_bytes = max(self._peak_bytes, tick.backlog_bytes)
        if len(self._history) >= _MOST_TICKS:
            # an endless run retains every other one of its older ticks
            self._history = self._history[::2]
        self._history.append(
            TickRecord(
                at_s=tick.now_s - self._started_s,
                seconds=tick.seconds,
                rows_in=tick.totals.rows_in,
                rows_out=sum(q.rows_out for q in tick.queries.values()),
                backlog_tuples=tick.backlog_tuples,
                backlog_bytes=tick.backlog_bytes,
                window_bytes=tick.window_bytes,
                latency_s=latency_s,
                phases_s=dict(tick.phases_s),
                busy_s=tick.busy_s,
                shed=tick.totals.shed,
            )
        )

    def _note_late_streams(self) -> None:
        """Warn once of each stream; the status at the end of the run has the final numbers."""
        for name, counts in self._streams.items():
            if counts.late and name not in self._late_streams:
                text = late_warning(name, counts, self._lateness_us.get(name, 0))
                if text is not None:
                    self._late_streams[name] = text

    def warn(self, warning: object) -> None:
        with self._lock:
            self._warnings.append(str(warning))

    @property
    def warnings(self) -> tuple[str, ...]:
        with self._lock:
            return (*self._warnings, *self._late_streams.values())

    def recent(self) -> list[TickRecord]:
        with self._lock:
            return list(self._history)

    def status(self) -> RunStatus:
        with self._lock:
            history = list(self._history)
            return RunStatus(
                queries={name: self._query_status(name) for name in self._rows_out},
                streams=dict(self._streams),
                peak_backlog_tuples=self._peak_tuples,
                peak_backlog_bytes=self._peak_bytes,
                backlog_tuples=history[-1].backlog_tuples if history else 0,
                ticks=self._ticks,
                seconds=history[-1].at_s if history else 0.0,
                history=history,
                warnings=tuple(self._warnings),
                changes=tuple(self._changes),
                lateness_us=dict(self._lateness_us),
            )

    def _query_status(self, name: str) -> QueryStatus:
        read = sum((self._streams[stream] for stream in self._streams_of[name]), StreamCounts())
        latency_s = self._latencies[name].latency()
        return QueryStatus(
            self._rows_out[name],
            latency_s,
            keep_ratio([read]),
            read.shed,
            read.usable,
            self._set_aside[name],
            self._starts_us.get(name),
            name in self._paused,
        )


class LatencyTally:
    """Latencies in bins of 1 %, in bounded memory."""

    def __init__(self) -> None:
        self._bins: dict[int, float] = {}
        self._count = 0.0
        self._total_s = 0.0
        self._max_s = 0.0

    def add(self, seconds: float, count: float) -> None:
        position = round(math.log(max(seconds, 1e-6)) / _BIN)
        self._bins[position] = self._bins.get(position, 0.0) + count
        self._count += count
        self._total_s += seconds * count
        self._max_s = max(self._max_s, seconds)

    def latency(self) -> Latency:
        """Mean and maximum are exact, percentiles to 1 %."""
        if not self._count:
            return Latency(None, None, None, None)
        mean_s = self._total_s / self._count
        return Latency(mean_s, self._percentile(0.5), self._percentile(0.99), self._max_s)

    def _percentile(self, share: float) -> float:
        passed = 0.0
        for position in sorted(self._bins):
            passed += self._bins[position]
            if passed >= share * self._count:
                return min(self._max_s, math.exp(position * _BIN))
        return self._max_s


def _growing_state(network: Network) -> Iterator[str]:
    """A line for each query whose joins keep all tuples of some streams."""
    for query in network.queries:
        joins = [network.operators[name] for name in network.operators_of(query)]
        sides = [side for join in joins if isinstance(join, WindowJoin) for side in join.sides]
        kept = dict.fromkeys(side.stream for side in sides if isinstance(side.window, UnboundedWindow))
        if kept:
            what = f"query {query} keeps all tuples of {' and '.join(kept)} for its join"
            yield f"{what}, and its state grows with them; WITH (retention = '1 h') would bound it"
