"""The work of ``headgate advise``: predicted latency, queues and memory, compared with the bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from headgate.cli.commands import seconds
from headgate.cli.simulating import arrivals_seed, by_stream, given_rates, known_rate, profiled_network
from headgate.cli.working import Working
from headgate.errors import SetupError
from headgate.plain_json import json_text
from headgate.predicting import Conditions, Predicted, predict
from headgate.queueing.advice import Advice, QueryAdvice
from headgate.queueing.latency_models import ByPriority, InTicks, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import Dispersion, LoadModel, dispersion, tick_latencies, work_by_operator
from headgate.queueing.prediction import LatencyDistribution, LoadPrediction
from headgate.report import clean, screen, shown, table_of
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, Scenario, simulate
from headgate.workload.processes import Trace, process_named

Floats = NDArray[np.float64]

_clean = partial(clean, digits=9)
_shown = partial(shown, digits=3)
_SHARES = (0.5, 0.9, 0.99)
_PERCENTILES = ("p50 (s)", "p90 (s)", "p99 (s)")


@dataclass(frozen=True)
class Question:
    """The options of the command, unparsed."""

    file: Path
    rates: list[str]
    profile: Path | None
    traces: list[str]
    processors: int | None
    tick: str | None
    strategy: str
    servers: str
    percentile: float


def answer(question: Question, as_json: bool) -> bool:
    """Print the advice; returns whether every query keeps its bounds."""
    with Working(f"predicting {question.file}"):
        found, traced = _predicted(question)
    if as_json:
        print(json_text(_document(found.advice, found.model, traced)))
    else:
        _print(found.advice, traced)
    return found.advice.fits


def _predicted(question: Question) -> tuple[Predicted, Traced | None]:
    network, measured, path = profiled_network(question.file, question.profile)
    given = given_rates(question.rates, network)
    # arrivals of traced streams, at the rate of --rate if given, and that rate
    recorded = {
        stream: _rescaled(Trace(file=file).times_s(0), given.get(stream))
        for stream, file in by_stream("--trace", question.traces, network).items()
    }
    for operator in network.operators:
        if operator not in measured.profiles:
            known = f"{path} has no profile of operator {operator}"
            raise SetupError(f"{known}; measure it with: headgate profile {question.file}")
    traces = {stream: times_s for stream, (times_s, _) in recorded.items()}
    recorded_rates = {stream: per_s for stream, (_, per_s) in recorded.items()}
    known_rates = {**measured.tuples_per_s, **recorded_rates, **given}
    rates = {stream: known_rate(known_rates, stream) for stream in network.streams}
    conditions = Conditions(
        strategy_named(question.strategy),
        question.processors,
        _tick_s(question.tick),
        question.servers,
        question.percentile,
    )
    found = predict(network, measured, rates, conditions)
    return found, _driven_by(found.load, found.model, question.strategy, traces) if traces else None


def _rescaled(times_s: Floats, rate: float | None) -> tuple[Floats, float]:
    """Recorded times from 0 on, stretched to a rate if one is given; and the rate."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise SetupError(f"--trace: {len(times_s)} arrivals are too few; record 100 or more")
    shifted = times_s - times_s[0]
    recorded = (len(shifted) - 1) / float(shifted[-1])
    return (shifted, recorded) if rate is None else (shifted * (recorded / rate), rate)


def _tick_s(given: str | None) -> float | None:
    return 0.0 if given is not None and given.strip().rstrip("sm ") == "0" else seconds("--tick", given)


def _document(advice: Advice, model: LatencyModel, traced: Traced | None) -> dict[str, Any]:
    settings = {key: value for key, value in vars(model).items() if key != "levels"}
    document = {"model": {"name": type(model).__name__, **settings}, **_advice_json(advice)}
    if traced is not None:
        document["recorded"] = {
            "dispersion": {
                stream: [vars(d) | {"seconds": _clean(d.seconds), "index": _clean(d.index)} for d in found]
                for stream, found in traced.dispersions.items()
            },
            "latency_s": {query: _measured(values) for query, values in traced.latencies_s.items()},
            "queue_bytes": {"mean": traced.mean_bytes, "peak": traced.peak_bytes},
        }
    return document


def _print(advice: Advice, traced: Traced | None) -> None:
    console = screen()
    console.print(_advice_table(advice))
    if advice.prediction is not None:
        console.print(_paths_table(advice.prediction))
        console.print(_operators_table(advice.prediction))
    rates = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.load.rates.items())
    console.print(f"rates: {rates}; utilisation {advice.utilisation:.3g}", soft_wrap=True)
    for own in advice.queries.values():
        for broken in own.broken:
            console.print(f"{own.query} does not fit: {broken}; {own.remedies}", soft_wrap=True)
    largest = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.largest_rates().items())
    if advice.largest_factor > 0:
        console.print(f"all queries fit up to {largest}", soft_wrap=True)
    if traced is None:
        console.print("arrivals are taken to be Poisson; bursts wait longer, see --trace")
        return
    console.print(_beside_table(advice, traced.latencies_s))
    for stream, found in traced.dispersions.items():
        worst = max(found, key=lambda scale: scale.index)
        console.print(
            f"{stream}: index of dispersion {found[0].index:.3g} over {found[0].seconds:.3g} s, "
            f"{worst.index:.3g} over {worst.seconds:.3g} s (1 if Poisson); {_trust(worst.index)}",
            soft_wrap=True,
        )


def _trust(index: float) -> str:
    if index < 1.5:
        return "the formula can be trusted"
    if index < 5:
        return "the formula holds at low load only"
    return "use the recorded latencies, not the formula"


@dataclass(frozen=True)
class Traced:
    """A plan under recorded arrivals: how bursty they are, and the latencies of results by query."""

    dispersions: Mapping[str, tuple[Dispersion, ...]]
    latencies_s: Mapping[str, Floats]
    mean_bytes: float | None
    peak_bytes: float | None
    """Peak of all queues together; None for ticks."""


def _driven_by(plan: LoadModel, model: LatencyModel, strategy: str, traces: Mapping[str, Floats]) -> Traced:
    """Simulate the plan under recorded arrivals; other streams are Poisson, of the same duration."""
    network, arrivals = plan.network, dict(traces)
    end_s = max(float(times_s[-1]) for times_s in traces.values())
    for stream, rate in plan.rates.items():
        if stream not in arrivals:
            seed = arrivals_seed(0, stream)
            arrivals[stream] = (
                process_named("poisson", {"rate": rate, "until": end_s}).times_s(seed)
                if rate > 0
                else np.empty(0)
            )
    dispersions = {stream: dispersion(times_s) for stream, times_s in traces.items()}
    if isinstance(model, InTicks):
        work = work_by_operator(plan)
        seconds_of = {
            stream: model.intake_s
            + model.work_s * sum(p * s for leaf in network.leaves(stream) for p, s in work[leaf])
            for stream in arrivals
        }
        by_stream_s = tick_latencies(arrivals, seconds_of, model.overhead_s)
        streams = {query: sorted(network.streams_of(query) & set(arrivals)) for query in network.queries}
        latencies_s = {q: np.concatenate([by_stream_s[s] for s in own]) for q, own in streams.items()}
        return Traced(dispersions, latencies_s, None, None)
    if isinstance(model, OwnServers):
        processors: Pool | OnePerOperator = OnePerOperator()
    else:
        assert isinstance(model, (OnServer, ByPriority))
        processors = Pool(model.processors)
    scenario = Scenario.from_profiles(
        network, plan.profile, arrivals, processors=processors, fate="random", seed=0
    )
    result = simulate(scenario, strategy_named(strategy))
    outputs, backlog = result.outputs, result.backlog
    latencies_s = {q: outputs.latencies_s[outputs.queries == n] for n, q in enumerate(network.queries)}
    spans_s = np.diff(backlog.times_s)
    mean_bytes = float(backlog.bytes[:-1] @ spans_s / spans_s.sum()) if spans_s.sum() > 0 else 0.0
    return Traced(dispersions, latencies_s, mean_bytes, backlog.peak_bytes)


def _advice_json(advice: Advice) -> dict[str, Any]:
    """Estimates of an overloaded plan are null."""
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


def _measured(values: Floats) -> dict[str, Any] | None:
    if not len(values):
        return None
    return _spread(float(values.mean()), lambda share: float(np.percentile(values, 100 * share)))


def _spread(mean: float, percentile: Callable[[float], float]) -> dict[str, Any]:
    return {"mean": _clean(mean), **{f"p{100 * share:g}": _clean(percentile(share)) for share in _SHARES}}


def _advice_table(advice: Advice) -> Table:
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


def _operators_table(predicted: LoadPrediction) -> Table:
    table = table_of("operator", "tuples/s", "utilisation", "queued", "bytes", *_PERCENTILES)
    for name, own in predicted.operators.items():
        counts = (own.tuples_per_s, own.utilisation, own.tuples)
        table.add_row(name, *map(_shown, counts), _size(own.bytes), *_percentiles(own.delay))
    return table


def _paths_table(predicted: LoadPrediction) -> Table:
    table = table_of("path", "mean (s)", *_PERCENTILES)
    for path in predicted.paths:
        latency = path.latency
        table.add_row(" > ".join(path.operators), _shown(latency.mean_s), *_percentiles(latency))
    return table


def _beside_table(advice: Advice, latencies_s: Mapping[str, Floats]) -> Table:
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
