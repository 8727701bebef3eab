"""The work of ``headgate advise``: a load and a model from the options, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.cli.advice_report import Traced, print_advice, print_document
from headgate.cli.parameters import seconds
from headgate.cli.simulating import arrivals_seed, by_stream, given_rates, profiled_network
from headgate.cli.working import Working
from headgate.errors import SetupError
from headgate.queueing.advice import Advice
from headgate.queueing.latency_models import ByPriority, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel, work_by_stream
from headgate.queueing.recorded_arrivals import Dispersion, dispersion, tick_latencies
from headgate.queueing.tick_model import InTicks
from headgate.scheduling import strategy_named
from headgate.session.predicting import Conditions, predict
from headgate.simulator import OnePerOperator, Pool, Scenario, simulate
from headgate.statistics.completeness import Origin
from headgate.workload.processes import Trace, process_named

Floats = NDArray[np.float64]


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
        advice, traced = _predicted(question)
    if as_json:
        print_document(advice, traced)
    else:
        print_advice(advice, traced)
    return advice.fits


def _predicted(question: Question) -> tuple[Advice, Traced | None]:
    network, measured, path = profiled_network(question.file, question.profile)
    given = given_rates(question.rates, network)
    # arrivals of traced streams, at the rate of --rate if given, and that rate
    recorded = {
        stream: _rescaled(Trace(file=file).times_s(0), given.get(stream))
        for stream, file in by_stream("--trace", question.traces, network).items()
    }
    traces = {stream: times_s for stream, (times_s, _) in recorded.items()}
    stated_rates = {**{stream: per_s for stream, (_, per_s) in recorded.items()}, **given}
    conditions = Conditions(
        strategy_named(question.strategy),
        question.processors,
        _tick_s(question.tick),
        question.servers,
        question.percentile,
    )
    origin = Origin(str(path), f"headgate profile {question.file}")
    dispersions: dict[str, tuple[Dispersion, ...]] = {s: dispersion(t) for s, t in traces.items()}
    advice = predict(network, measured, stated_rates, conditions, origin, dispersions)
    return advice, _driven_by(advice.load, advice.model, question.strategy, traces) if traces else None


def _rescaled(times_s: Floats, rate: float | None) -> tuple[Floats, float]:
    """Recorded times from 0 on, stretched to a rate if one is given; and the rate."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise SetupError(f"--trace: {len(times_s)} arrivals are too few; record 100 or more")
    shifted = times_s - times_s[0]
    recorded = (len(shifted) - 1) / float(shifted[-1])
    return (shifted, recorded) if rate is None else (shifted * (recorded / rate), rate)


def _tick_s(given: str | None) -> float | None:
    return 0.0 if given is not None and given.strip().rstrip("sm ") == "0" else seconds("--tick", given)


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
    dispersions = plan.dispersions
    if isinstance(model, InTicks):
        work = work_by_stream(plan)
        seconds_of = {stream: model.intake_s + model.work_s * work[stream].mean_s for stream in arrivals}
        by_stream_s = tick_latencies(arrivals, seconds_of, model.overhead_s, model.least_s)
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
