"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.model.status import RunStatus

KIND = "text/plain; version=0.0.4; charset=utf-8"
_STREAM_COUNTS = {
    "rows_in": "Rows that have arrived.",
    "late": "Rows that were late, and set aside.",
    "bad": "Rows that did not parse, and were set aside.",
    "shed": "Tuples that drop boxes have dropped.",
}


class Metrics:
    """Lines of metrics, each kind below its description."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(
        self, name: str, kind: str, help: str, values: Iterable[tuple[Mapping[str, str], float | None]]
    ) -> None:
        self._lines += (f"# HELP headgate_{name} {help}", f"# TYPE headgate_{name} {kind}")
        for labels, value in values:
            if value is not None:
                own = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
                sample = f"{{{own}}} {_number(value)}" if own else f" {_number(value)}"
                self._lines.append(f"headgate_{name}{sample}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def metrics(
    status: RunStatus | None,
    sample: Mapping[str, Any],
    settings: Mapping[str, Any],
    is_running: bool,
    sampling_s: float,
    readers: int,
) -> str:
    """All metrics: ``sample`` is the last tick, as pages see it."""
    found = Metrics()
    found.add("up", "gauge", "Whether the run is on.", [({}, float(is_running))])
    found.add("readers", "gauge", "Pages and streams that follow the run.", [({}, readers)])
    found.add("sampling_seconds_total", "counter", "Processor time of sampling.", [({}, sampling_s)])
    if status is None:
        return found.text()
    found.add("ticks_total", "counter", "Ticks that have been committed.", [({}, status.ticks)])
    for key, help in _STREAM_COUNTS.items():
        values = [({"stream": name}, float(getattr(counts, key))) for name, counts in status.streams.items()]
        found.add(f"stream_{key}_total", "counter", help, values)
    queries = status.queries.items()
    found.add("query_rows_total", "counter", "Results.", [({"query": n}, q.rows_out) for n, q in queries])
    aside = [({"query": n}, float(q.set_aside)) for n, q in queries]
    found.add("query_set_aside_total", "counter", "Tuples for which an expression failed.", aside)
    latencies = [
        ({"query": name, "quantile": quantile}, value)
        for name, query in queries
        for quantile, value in (("0.5", query.latency_s.p50), ("0.99", query.latency_s.p99))
    ]
    found.add("query_latency_seconds", "summary", "Latency of all results so far.", latencies)
    bounds = [({"query": n}, bound) for n, bound in settings.get("latency_s", {}).items()]
    found.add("query_latency_bound_seconds", "gauge", "Latency bound in force.", bounds)
    kept = [({"query": n}, q.keep_ratio) for n, q in queries]
    found.add("query_keep_ratio", "gauge", "Share of its tuples that a query has processed.", kept)
    if sample:
        tuples, size = sample["backlog"]
        found.add("backlog_tuples", "gauge", "Tuples that wait.", [({}, tuples)])
        found.add("backlog_bytes", "gauge", "Bytes that wait.", [({}, size)])
        found.add("window_bytes", "gauge", "Bytes that windows hold.", [({}, sample["window_bytes"])])
        found.add("tick_seconds", "gauge", "Length of the last tick.", [({}, sample["seconds"])])
        found.add("busy_ratio", "gauge", "Processor use of the last tick.", [({}, sample["busy"])])
        waiting = [({"operator": name}, own[1]) for name, own in sample["operators"].items()]
        found.add("queue_tuples", "gauge", "Tuples that wait before an operator.", waiting)
    found.add("memory_budget_bytes", "gauge", "Memory budget.", [({}, settings.get("memory_bytes"))])
    return found.text()


def _number(value: float) -> str:
    """All digits: a counter that is rounded stands still, and then jumps."""
    if math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
