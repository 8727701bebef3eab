"""Advice as JSON and as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from headgate.queueing.advice import Advice, QueryAdvice
from headgate.queueing.delay import Latency
from headgate.queueing.dispersion import Dispersion
from headgate.queueing.figures import PlanFigures

SHARES = (0.5, 0.9, 0.99)


def advice_json(advice: Advice) -> dict[str, Any]:
    """The document of ``headgate advise --json``; figures of an overloaded plan are null."""
    return {
        "fits": advice.fits,
        "percentile": advice.percentile,
        "utilisation": _clean(advice.utilisation),
        "rates": dict(advice.plan.rates),
        "largest_factor": _clean(advice.largest_factor),
        "largest_rates": _rates(advice, None),
        "queries": {name: _query(advice, own) for name, own in advice.queries.items()},
        "operators": _operators(advice),
    }


def _query(advice: Advice, own: QueryAdvice) -> dict[str, Any]:
    settings = advice.plan.network.queries[own.query]
    remedies = own.remedies
    return {
        "fits": own.fits,
        "bounds": {"latency_s": settings.latency_s, "memory_bytes": settings.memory_bytes},
        "broken": [
            {"bound": b.bound, "limit": b.limit, "predicted": _clean(b.predicted), "times": _clean(b.times)}
            for b in own.broken
        ],
        "largest_factor": _clean(own.largest_factor),
        "largest_rates": _rates(advice, own.query),
        "would_fit": None
        if remedies is None
        else {
            "processors": remedies.processors,
            "window_factor": _clean(remedies.window_factor),
            "shed_share": _clean(remedies.shed_share),
        },
        **_query_figures(advice, own.query),
    }


def _query_figures(advice: Advice, query: str) -> dict[str, Any]:
    figures = advice.figures
    if figures is None:
        empty = ("queue_tuples", "queue_bytes", "state_bytes", "latency_s", "paths")
        return dict.fromkeys(empty)
    slowest = _slowest(figures, query, advice.percentile)
    return {
        "queue_tuples": _clean(figures.queue_tuples(advice.plan, query)),
        "queue_bytes": latency_json(figures.memory[query]),
        "state_bytes": _clean(figures.state_bytes(advice.plan, query)),
        "latency_s": None if slowest is None else latency_json(slowest),
        "paths": [
            {"operators": list(path.operators), "latency_s": latency_json(path.latency)}
            for path in figures.paths_of(query)
        ],
    }


def _operators(advice: Advice) -> dict[str, Any] | None:
    if advice.figures is None:
        return None
    return {
        name: {
            "tuples_per_s": _clean(figures.tuples_per_s),
            "utilisation": _clean(figures.utilisation),
            "queue_tuples": _clean(figures.tuples),
            "queue_bytes": _clean(figures.bytes),
            "state_bytes": _clean(figures.state_bytes),
            "latency_s": latency_json(figures.delay),
        }
        for name, figures in advice.figures.operators.items()
    }


def latency_json(latency: Latency) -> dict[str, Any]:
    """Mean and percentiles."""
    shares = {f"p{100 * share:g}": _clean(latency.percentile(share)) for share in SHARES}
    return {"mean": _clean(latency.mean_s), **shares}


def measured_json(values: NDArray[np.float64]) -> dict[str, Any] | None:
    """Mean and percentiles of what came out."""
    if not len(values):
        return None
    shares = {f"p{100 * share:g}": _clean(float(np.percentile(values, 100 * share))) for share in SHARES}
    return {"mean": _clean(float(values.mean())), **shares}


def dispersion_json(found: tuple[Dispersion, ...]) -> list[dict[str, Any]]:
    """One object a time scale."""
    return [{"seconds": _clean(d.seconds), "index": _clean(d.index), "intervals": d.intervals} for d in found]


def queries_table(advice: Advice) -> Table:
    """One row a query."""
    table = _table(
        "query",
        "fits",
        "p50 (s)",
        "p90 (s)",
        "p99 (s)",
        "bound (s)",
        "queued",
        "queue p99",
        "bound",
        "windows",
        "rates up to",
    )
    for name, own in advice.queries.items():
        settings, figures = advice.plan.network.queries[name], advice.figures
        slowest = None if figures is None else _slowest(figures, name, advice.percentile)
        latencies = ["-"] * 3 if slowest is None else [_shown(slowest.percentile(s)) for s in SHARES]
        sizes = ["-"] * 3
        if figures is not None:
            sizes = [
                _shown(figures.queue_tuples(advice.plan, name)),
                _size(figures.queue_bytes(name, 0.99)),
                _size(figures.state_bytes(advice.plan, name)),
            ]
        table.add_row(
            name,
            "yes" if own.fits else "NO",
            *latencies,
            _shown(settings.latency_s),
            *sizes[:2],
            _size(settings.memory_bytes),
            sizes[2],
            _factor(own.largest_factor),
        )
    return table


def operators_table(figures: PlanFigures) -> Table:
    """One row an operator."""
    table = _table("operator", "tuples/s", "utilisation", "queued", "bytes", "p50 (s)", "p90 (s)", "p99 (s)")
    for name, own in figures.operators.items():
        shares = (_shown(own.delay.percentile(share)) for share in SHARES)
        counts = (own.tuples_per_s, own.utilisation, own.tuples)
        table.add_row(name, *map(_shown, counts), _size(own.bytes), *shares)
    return table


def paths_table(figures: PlanFigures) -> Table:
    """One row a path."""
    table = _table("path", "mean (s)", "p50 (s)", "p90 (s)", "p99 (s)")
    for path in figures.paths:
        shares = (_shown(path.latency.percentile(share)) for share in SHARES)
        table.add_row(" > ".join(path.operators), _shown(path.latency.mean_s), *shares)
    return table


def beside_table(advice: Advice, latencies_s: Mapping[str, NDArray[np.float64]]) -> Table:
    """What the formula says for Poisson arrivals, and what recorded ones make of it."""
    table = _table("query", "p50: formula", "recorded", "p99: formula", "recorded", "times")
    for query, values in latencies_s.items():
        slowest = None if advice.figures is None else _slowest(advice.figures, query, advice.percentile)
        row = []
        for share in (0.5, 0.99):
            row += [
                _shown(None if slowest is None else slowest.percentile(share)),
                _shown(float(np.percentile(values, 100 * share)) if len(values) else None),
            ]
        times = None
        if slowest is not None and len(values) and slowest.percentile(0.99) > 0:
            times = float(np.percentile(values, 99)) / slowest.percentile(0.99)
        table.add_row(query, *row, _shown(times))
    return table


def _slowest(figures: PlanFigures, query: str, percentile: float) -> Latency | None:
    latencies = [path.latency for path in figures.paths_of(query)]
    return max(latencies, key=lambda latency: latency.percentile(percentile), default=None)


def _rates(advice: Advice, query: str | None) -> dict[str, Any]:
    return {stream: _clean(rate) for stream, rate in advice.largest_rates(query).items()}


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _clean(value: float | None) -> float | None:
    """A figure without mere rounding; JSON has no infinity."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "unbounded"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"


def _factor(factor: float) -> str:
    return "any" if math.isinf(factor) else f"x {factor:.3g}"
