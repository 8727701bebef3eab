"""Advice as JSON and as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from headgate.queueing.advice import Advice, QueryAdvice
from headgate.queueing.load_model import Dispersion
from headgate.queueing.prediction import LatencyDistribution, LoadPrediction
from headgate.report.tables import clean, shown, table_of

_clean = partial(clean, digits=9)
_shown = partial(shown, digits=3)
_SHARES = (0.5, 0.9, 0.99)
_PERCENTILES = ("p50 (s)", "p90 (s)", "p99 (s)")


def advice_json(advice: Advice) -> dict[str, Any]:
    """The document of ``headgate advise --json``; estimates of an overloaded plan are null."""
    operators = None if advice.prediction is None else advice.prediction.operators
    return {
        "fits": advice.fits,
        "percentile": advice.percentile,
        "utilisation": _clean(advice.utilisation),
        "rates": dict(advice.load.rates),
        "largest_factor": _clean(advice.largest_factor),
        "largest_rates": _rates(advice, None),
        "queries": {name: _query(advice, own) for name, own in advice.queries.items()},
        "operators": operators
        and {
            name: {
                "tuples_per_s": _clean(predicted.tuples_per_s),
                "utilisation": _clean(predicted.utilisation),
                "queue_tuples": _clean(predicted.tuples),
                "queue_bytes": _clean(predicted.bytes),
                "state_bytes": _clean(predicted.state_bytes),
                "latency_s": _distribution(predicted.delay),
            }
            for name, predicted in operators.items()
        },
    }


def _query(advice: Advice, own: QueryAdvice) -> dict[str, Any]:
    settings, remedies = advice.load.network.queries[own.query], own.remedies
    return {
        "fits": own.fits,
        "bounds": {"latency_s": settings.latency_s, "memory_bytes": settings.memory_bytes},
        "broken": [
            {"bound": b.bound, "limit": b.limit, "predicted": _clean(b.predicted), "times": _clean(b.times)}
            for b in own.broken
        ],
        "largest_factor": _clean(own.largest_factor),
        "largest_rates": _rates(advice, own.query),
        "would_fit": remedies
        and {
            "processors": remedies.processors,
            "window_factor": _clean(remedies.window_factor),
            "shed_share": _clean(remedies.shed_share),
        },
        **_query_estimates(advice, own.query),
    }


def _query_estimates(advice: Advice, query: str) -> dict[str, Any]:
    predicted, slowest = advice.prediction, _slowest(advice, query)
    if predicted is None:
        return dict.fromkeys(("queue_tuples", "queue_bytes", "state_bytes", "latency_s", "paths"))
    return {
        "queue_tuples": _clean(predicted.queue_tuples(advice.load, query)),
        "queue_bytes": _distribution(predicted.memory[query]),
        "state_bytes": _clean(predicted.state_bytes(advice.load, query)),
        "latency_s": None if slowest is None else _distribution(slowest),
        "paths": [
            {"operators": list(path.operators), "latency_s": _distribution(path.latency)}
            for path in predicted.paths_of(query)
        ],
    }


def _distribution(latency: LatencyDistribution) -> dict[str, Any]:
    return _spread(latency.mean_s, latency.percentile)


def measured_json(values: NDArray[np.float64]) -> dict[str, Any] | None:
    """Mean and percentiles of what came out."""
    if not len(values):
        return None
    return _spread(float(values.mean()), lambda share: float(np.percentile(values, 100 * share)))


def _spread(mean: float, percentile: Callable[[float], float]) -> dict[str, Any]:
    return {"mean": _clean(mean), **{f"p{100 * share:g}": _clean(percentile(share)) for share in _SHARES}}


def dispersion_json(found: tuple[Dispersion, ...]) -> list[dict[str, Any]]:
    """One object per time scale."""
    return [{"seconds": _clean(d.seconds), "index": _clean(d.index), "intervals": d.intervals} for d in found]


def advice_table(advice: Advice) -> Table:
    """One row per query."""
    headings = ("bound (s)", "queued", "queue p99", "bound", "windows", "rates up to")
    table = table_of("query", "fits", *_PERCENTILES, *headings)
    for name, own in advice.queries.items():
        settings, predicted = advice.load.network.queries[name], advice.prediction
        queued = queue_bytes = state_bytes = None
        if predicted is not None:
            queued = predicted.queue_tuples(advice.load, name)
            queue_bytes = predicted.queue_bytes(name, 0.99)
            state_bytes = predicted.state_bytes(advice.load, name)
        table.add_row(
            name,
            "yes" if own.fits else "NO",
            *_percentiles(_slowest(advice, name)),
            _shown(settings.latency_s),
            _shown(queued),
            *map(_size, (queue_bytes, settings.memory_bytes, state_bytes)),
            "any" if math.isinf(own.largest_factor) else f"x {own.largest_factor:.3g}",
        )
    return table


def operators_table(predicted: LoadPrediction) -> Table:
    """One row per operator."""
    table = table_of("operator", "tuples/s", "utilisation", "queued", "bytes", *_PERCENTILES)
    for name, own in predicted.operators.items():
        counts = (own.tuples_per_s, own.utilisation, own.tuples)
        table.add_row(name, *map(_shown, counts), _size(own.bytes), *_percentiles(own.delay))
    return table


def paths_table(predicted: LoadPrediction) -> Table:
    """One row per path."""
    table = table_of("path", "mean (s)", *_PERCENTILES)
    for path in predicted.paths:
        latency = path.latency
        table.add_row(" > ".join(path.operators), _shown(latency.mean_s), *_percentiles(latency))
    return table


def beside_table(advice: Advice, latencies_s: Mapping[str, NDArray[np.float64]]) -> Table:
    """Latency by the formula for Poisson arrivals, and under recorded ones."""
    table = table_of("query", "p50: formula", "recorded", "p99: formula", "recorded", "times")
    for query, values in latencies_s.items():
        slowest, row, times = _slowest(advice, query), [], None
        for share in (0.5, 0.99):
            formula = None if slowest is None else slowest.percentile(share)
            recorded = float(np.percentile(values, 100 * share)) if len(values) else None
            times = recorded / formula if formula and recorded is not None else None
            row += [_shown(formula), _shown(recorded)]
        # of the last share
        table.add_row(query, *row, _shown(times))
    return table


def _slowest(advice: Advice, query: str) -> LatencyDistribution | None:
    paths = () if advice.prediction is None else advice.prediction.paths_of(query)
    latencies = [path.latency for path in paths]
    return max(latencies, key=lambda latency: latency.percentile(advice.percentile), default=None)


def _rates(advice: Advice, query: str | None) -> dict[str, Any]:
    return {stream: _clean(rate) for stream, rate in advice.largest_rates(query).items()}


def _percentiles(latency: LatencyDistribution | None) -> list[str]:
    return [_shown(None if latency is None else latency.percentile(share)) for share in _SHARES]


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "unbounded"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"
