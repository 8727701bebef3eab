"""The work of ``headgate advise``: predicted latency, queues and memory, compared with the bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.cli.options import seconds
from headgate.cli.script import Script
from headgate.cli.simulating import arrivals_seed, by_stream, given_rates, known_rate, profile_path
from headgate.errors import SetupError
from headgate.planning.lower import Stages
from headgate.queueing.advice import Advice
from headgate.queueing.advice import advise as advised
from headgate.queueing.latency_models import ByPriority, InTicks, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel, work_by_operator
from headgate.queueing.recorded_arrivals import Dispersion, dispersion, tick_latencies
from headgate.report.advised import (
    advice_json,
    advice_table,
    beside_table,
    dispersion_json,
    measured_json,
    operators_table,
    paths_table,
)
from headgate.report.tables import screen
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, Scenario, simulate
from headgate.simulator.simulation import static_priority
from headgate.statistics.profile_file import Measured
from headgate.workload.processes import Poisson, Trace

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
    network = Stages.of(Script.read(question.file).catalog()).lowered
    path = profile_path(question.file, question.profile)
    measured = Measured.read(path)
    given = given_rates(question.rates, network)
    # arrivals of traced streams, at the rate of --rate if given, and that rate
    recorded = {
        stream: _rescaled(Trace(file).times_s(0), given.get(stream))
        for stream, file in by_stream("--trace", question.traces, network).items()
    }
    for operator in network.operators:
        if operator not in measured.profiles:
            known = f"{path} has no profile of operator {operator}"
            raise SetupError(f"{known}; measure it with: headgate profile {question.file}")
    recorded_rates = {stream: per_s for stream, (_, per_s) in recorded.items()}
    known_rates = {**measured.tuples_per_s, **recorded_rates, **given}
    rates = {stream: known_rate(known_rates, stream) for stream in network.streams}
    profiled = {stream: measured.tuples_per_s.get(stream, per_s) for stream, per_s in rates.items()}
    plan = LoadModel(network, measured.profiles, profiled).at(rates)
    model = _model(plan, measured, question)
    advice = advised(plan, model, question.percentile)
    traces = {stream: times_s for stream, (times_s, _) in recorded.items()}
    traced = _driven_by(plan, model, question.strategy, traces) if traces else None
    if as_json:
        print(json.dumps(_document(advice, model, traced), indent=2))
    else:
        _print(advice, traced)
    return advice.fits


def _rescaled(times_s: Floats, rate: float | None) -> tuple[Floats, float]:
    """Recorded times from 0 on, stretched to a rate if one is given; and the rate."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise SetupError(f"--trace: {len(times_s)} arrivals are too few; record 100 or more")
    shifted = times_s - times_s[0]
    recorded = (len(shifted) - 1) / float(shifted[-1])
    return (shifted, recorded) if rate is None else (shifted * (recorded / rate), rate)


def _model(plan: LoadModel, measured: Measured, question: Question) -> LatencyModel:
    processors, tick, servers = question.processors, question.tick, question.servers
    if servers not in ("pool", "each"):
        raise SetupError(f"--servers takes pool or each, not {servers}")
    if servers == "each":
        return OwnServers(processors or 1)
    chosen = strategy_named(question.strategy)
    priority = static_priority(chosen, plan.network, plan.profiles)
    if priority is None:
        raise SetupError(f"--strategy {question.strategy} has no fixed order; use headgate simulate instead")
    # a tick takes all that has come, in whatever order
    if tick is None and measured.tick is not None:
        ticks = InTicks.measured(measured.tick)
        return ticks if processors is None else ticks.with_processors(processors)
    overhead_s = 0.0 if tick is None or tick.strip().rstrip("sm ") == "0" else seconds("--tick", tick)
    if overhead_s:
        return InTicks(overhead_s, processors or 1)
    if chosen.name == "fifo":
        return OnServer(processors or 1)
    return ByPriority(dict(zip(plan.network.operators, priority.levels, strict=True)), processors or 1)


def _document(advice: Advice, model: LatencyModel, traced: Traced | None) -> dict[str, Any]:
    settings = {key: value for key, value in vars(model).items() if key != "levels"}
    document = {"model": {"name": type(model).__name__, **settings}, **advice_json(advice)}
    if traced is not None:
        document["recorded"] = {
            "dispersion": {stream: dispersion_json(found) for stream, found in traced.dispersions.items()},
            "latency_s": {query: measured_json(values) for query, values in traced.latencies_s.items()},
            "queue_bytes": {"mean": traced.mean_bytes, "peak": traced.peak_bytes},
        }
    return document


def _print(advice: Advice, traced: Traced | None) -> None:
    console = screen()
    console.print(advice_table(advice))
    if advice.prediction is not None:
        console.print(paths_table(advice.prediction))
        console.print(operators_table(advice.prediction))
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
    console.print(beside_table(advice, traced.latencies_s))
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
            arrivals[stream] = Poisson(rate, end_s).times_s(seed) if rate > 0 else np.empty(0)
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
