"""What ``headgate advise`` prints: the verdict first, then the model it rests on, then tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from headgate.formats.plain_json import json_text
from headgate.queueing.advice import Advice, QueryAdvice
from headgate.queueing.prediction import LatencyDistribution
from headgate.queueing.recorded_arrivals import Dispersion
from headgate.report.screen import clean, screen, shown, size_column, table_of

Floats = NDArray[np.float64]

_clean = partial(clean, digits=9)
_shown = partial(shown, digits=3)
_SHARES = (0.5, 0.9, 0.99)
_MOST_SHARE = 1 - 1e-9


@dataclass(frozen=True)
class Traced:
    """A plan under recorded arrivals: how bursty they are, and the latencies of results by query."""

    dispersions: Mapping[str, tuple[Dispersion, ...]]
    latencies_s: Mapping[str, Floats]
    mean_bytes: float | None
    peak_bytes: float | None
    """Peak of all queues together; None for ticks."""


def print_document(advice: Advice, traced: Traced | None) -> None:
    """Print one JSON document."""
    settings = {key: value for key, value in vars(advice.model).items() if key != "levels"}
    document = {"model": {"name": type(advice.model).__name__, **settings}, **_advice_json(advice)}
    if advice.idle:
        document["idle"] = list(advice.idle)
    if advice.machine_bound:
        document["machine_bound"] = dict(advice.machine_bound)
    if traced is not None:
        document["recorded"] = {
            "dispersion": {
                stream: [vars(d) | {"seconds": _clean(d.seconds), "index": _clean(d.index)} for d in found]
                for stream, found in traced.dispersions.items()
            },
            "latency_s": {query: _measured(values) for query, values in traced.latencies_s.items()},
            "queue_bytes": {"mean": traced.mean_bytes, "peak": traced.peak_bytes},
        }
    print(json_text(document))


def print_advice(advice: Advice, traced: Traced | None) -> None:
    """Print the verdict, what it rests on, and tables of latency, queues and memory."""
    console = screen()
    for line in (*_verdict(advice), advice.basis, *advice.marks):
        console.print(line, soft_wrap=True)
    console.print(_advice_table(advice))
    if advice.prediction is not None:
        console.print(_paths_table(advice))
        console.print(_operators_table(advice))
    rates = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.load.rates.items())
    console.print(f"rates: {rates}; utilisation {advice.utilisation:.3g}", soft_wrap=True)
    largest = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.largest_rates().items())
    if 0 < advice.largest_factor < math.inf:
        surely = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.sure_rates().items())
        console.print(f"all queries fit up to {largest}; surely up to {surely}", soft_wrap=True)
    if traced is None:
        console.print("arrivals are assumed to be Poisson; bursts wait longer, see --trace")
        return
    console.print(_beside_table(advice, traced.latencies_s))
    for stream, found in traced.dispersions.items():
        worst = max(found, key=lambda scale: scale.index)
        console.print(
            f"{stream}: index of dispersion {found[0].index:.3g} over {found[0].seconds:.3g} s, "
            f"{worst.index:.3g} over {worst.seconds:.3g} s (1 if Poisson); {_trust(worst.index)}",
            soft_wrap=True,
        )


def _verdict(advice: Advice) -> list[str]:
    """Whether all queries fit, in the first line; then what is wrong with those that do not."""
    unfit = [own for own in advice.queries.values() if not own.fits]
    share = f"p{100 * advice.percentile:g}"
    queries = advice.load.network.queries.values()
    if unfit:
        lines = [f"does not fit: {len(unfit)} of {len(queries)} queries, at {share}"]
    elif any(query.latency_s is not None or query.memory_bytes is not None for query in queries):
        lines = [f"fits: every query keeps its bounds, at {share}"]
    else:
        lines = ["fits: processors keep up with all queries, which have no bounds"]
    lines += [f"{own.query} does not fit: {b}; {own.remedies}" for own in unfit for b in own.broken]
    lines += [
        f"{own.query} fits by shedding {own.shed_share:.1%} of its input"
        for own in advice.queries.values()
        if own.shed_share is not None
    ]
    return lines + _confidence(advice)


def _confidence(advice: Advice) -> list[str]:
    size = "" if advice.error is None else f" ({advice.error:.1%})"
    doubtful = [own.query for own in advice.queries.values() if not own.is_sure]
    if doubtful:
        end = f"within twice the standard error of the profile{size} the answer may be the opposite"
        return [f"not sure for {', '.join(doubtful)}: {end}"]
    is_measured = any(own.samples for own in advice.load.profiles.values())
    return [f"sure within twice the standard error of the profile{size}"] if is_measured else []


def _trust(index: float) -> str:
    if index < 1.5:
        return "the formula can be trusted"
    if index < 5:
        return "the formula holds at low load only"
    return "use the recorded latencies, not the formula"


def _advice_json(advice: Advice) -> dict[str, Any]:
    """Estimates of an overloaded plan are null."""
    operators = None if advice.prediction is None else advice.prediction.operators
    shares = _shares(advice)
    return {
        "fits": advice.fits,
        "sure": advice.is_sure,
        "percentile": advice.percentile,
        "utilisation": _clean(advice.utilisation),
        "rates": dict(advice.load.rates),
        "largest_factor": _clean(advice.largest_factor),
        "largest_rates": _rates(advice, None),
        "sure_factor": _clean(advice.sure_factor),
        "queries": {name: _query(advice, own) for name, own in advice.queries.items()},
        "operators": operators
        and {
            name: {
                "tuples_per_s": _clean(predicted.tuples_per_s),
                "utilisation": _clean(predicted.utilisation),
                "queue_tuples": _clean(predicted.tuples),
                "queue_bytes": _clean(predicted.bytes),
                "state_bytes": _clean(predicted.state_bytes),
                "latency_s": _distribution(predicted.delay, shares),
            }
            for name, predicted in operators.items()
        },
    }


def _query(advice: Advice, own: QueryAdvice) -> dict[str, Any]:
    settings, remedies = advice.load.network.queries[own.query], own.remedies
    return {
        "fits": own.fits,
        "sure": own.is_sure,
        "sheds": _clean(own.shed_share),
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
    predicted, slowest, shares = advice.prediction, _slowest(advice, query), _shares(advice)
    if predicted is None:
        return dict.fromkeys(("queue_tuples", "queue_bytes", "state_bytes", "latency_s", "paths"))
    return {
        "queue_tuples": _clean(predicted.queue_tuples(advice.load, query)),
        "queue_bytes": _distribution(predicted.memory[query], shares),
        "state_bytes": _clean(predicted.state_bytes(advice.load, query)),
        "latency_s": None if slowest is None else _distribution(slowest, shares),
        "paths": [
            {"operators": list(path.operators), "latency_s": _distribution(path.latency, shares)}
            for path in predicted.paths_of(query)
        ],
    }


def _distribution(latency: LatencyDistribution, shares: Sequence[float]) -> dict[str, Any]:
    return _spread(latency.mean_s, latency.percentile, shares)


def _measured(values: Floats) -> dict[str, Any] | None:
    if not len(values):
        return None
    return _spread(float(values.mean()), lambda share: float(np.percentile(values, 100 * share)), _SHARES)


def _spread(mean: float, percentile: Callable[[float], float], shares: Sequence[float]) -> dict[str, Any]:
    return {"mean": _clean(mean), **{f"p{100 * s:.12g}": _clean(percentile(s)) for s in shares}}


def _advice_table(advice: Advice) -> Table:
    shares, predicted, load = _shares(advice), advice.prediction, advice.load
    names = list(advice.queries)
    queued: list[float | None] = [None] * len(names)
    queue_bytes, state_bytes = list(queued), list(queued)
    if predicted is not None:
        queued = [predicted.queue_tuples(load, name) for name in names]
        queue_bytes = [predicted.queue_bytes(name, advice.percentile) for name in names]
        state_bytes = [predicted.state_bytes(load, name) for name in names]
    bounds = [load.network.queries[name].memory_bytes for name in names]
    sizes = (
        size_column(f"queue p{100 * advice.percentile:g}", queue_bytes),
        size_column("queue bound", bounds),
        size_column("windows", state_bytes),
    )
    headings = ("latency bound (s)", "queued (tuples)", *(heading for heading, _ in sizes))
    table = table_of("query", "fits", *_headings(shares), *headings, "rates up to (times these)")
    for row, (name, own) in enumerate(advice.queries.items()):
        factor = own.largest_factor
        table.add_row(
            name,
            "yes" if own.fits else "NO",
            *_percentiles(_slowest(advice, name), shares),
            _shown(load.network.queries[name].latency_s),
            _shown(queued[row]),
            *(column[row] for _, column in sizes),
            "any" if math.isinf(factor) else f"{factor:.3g}",
        )
    return table


def _operators_table(advice: Advice) -> Table:
    assert advice.prediction is not None
    shares, operators = _shares(advice), advice.prediction.operators
    heading, sizes = size_column("queue", [own.bytes for own in operators.values()])
    counted = ("arriving (tuples/s)", "busy (processors)", "queued (tuples)", heading)
    table = table_of("operator", *counted, *_headings(shares))
    for (name, own), size in zip(operators.items(), sizes, strict=True):
        counts = (own.tuples_per_s, own.utilisation, own.tuples)
        table.add_row(name, *map(_shown, counts), size, *_percentiles(own.delay, shares))
    return table


def _paths_table(advice: Advice) -> Table:
    assert advice.prediction is not None
    shares = _shares(advice)
    table = table_of("path", "mean (s)", *_headings(shares))
    for path in advice.prediction.paths:
        latency = path.latency
        table.add_row(" > ".join(path.operators), _shown(latency.mean_s), *_percentiles(latency, shares))
    return table


def _shares(advice: Advice) -> tuple[float, ...]:
    """Percentiles to show: the usual ones, that of the bounds, and one that no mean is above.

    Where tuples rarely wait, but then for long, even the 99th percentile is below the mean.
    """
    shares = sorted({*_SHARES, advice.percentile})
    paths = () if advice.prediction is None else advice.prediction.paths
    for latency in (path.latency for path in paths):
        while (
            _rounded(latency.mean_s) > _rounded(latency.percentile(shares[-1])) and shares[-1] < _MOST_SHARE
        ):
            shares.append(1 - (1 - shares[-1]) / 10)
    return tuple(float(f"{share:.12g}") for share in shares)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _headings(shares: Sequence[float]) -> list[str]:
    return [f"p{100 * share:.12g} (s)" for share in shares]


def _beside_table(advice: Advice, latencies_s: Mapping[str, Floats]) -> Table:
    """Latency by the formula for Poisson arrivals, and under recorded ones."""
    kinds = ("p50 by formula (s)", "p50 recorded (s)", "p99 by formula (s)", "p99 recorded (s)")
    table = table_of("query", *kinds, "p99 recorded (times the formula)")
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


def _percentiles(latency: LatencyDistribution | None, shares: Sequence[float]) -> list[str]:
    return [_shown(None if latency is None else latency.percentile(share)) for share in shares]
