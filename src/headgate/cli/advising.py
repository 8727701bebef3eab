"""The work of ``headgate advise``: a load and a model from the options, and what they come to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.cli.advice_report import Stated, Traced, print_advice, print_document
from headgate.cli.commands import seconds
from headgate.cli.simulating import arrivals_seed, by_stream, given_rates, known_rate, profiled_network
from headgate.control.admission import measured_ticks
from headgate.errors import SetupError
from headgate.queueing.advice import advise as advised
from headgate.queueing.latency_models import ByPriority, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel, dispersion, tick_latencies, work_by_operator
from headgate.queueing.tick_model import InTicks
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, Scenario, simulate
from headgate.simulator.virtual_engine import static_priority
from headgate.statistics.completeness import NotMeasured, idle_operators, operator_profiles
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
    network, measured, path = profiled_network(question.file, question.profile)
    given = given_rates(question.rates, network)
    # arrivals of traced streams, at the rate of --rate if given, and that rate
    recorded = {
        stream: _rescaled(Trace(file).times_s(0), given.get(stream))
        for stream, file in by_stream("--trace", question.traces, network).items()
    }
    command = f"headgate profile {question.file}"
    profiles = operator_profiles(measured, network, str(path), command)
    traces = {stream: times_s for stream, (times_s, _) in recorded.items()}
    stated_rates = {**{stream: per_s for stream, (_, per_s) in recorded.items()}, **given}
    rates = {stream: known_rate(measured, stated_rates, stream) for stream in network.streams}
    profiled = {stream: measured.tuples_per_s.get(stream, per_s) for stream, per_s in rates.items()}
    plan = LoadModel(network, profiles, profiled).at(rates)
    model, described = _model(plan, measured, question, str(path))
    advice = advised(plan, model, question.percentile)
    stated = Stated(
        model,
        described,
        idle_operators(measured, network),
        {stream: measured.machine_bound[stream] for stream in rates if stream in measured.machine_bound},
    )
    traced = _driven_by(plan, model, question.strategy, traces) if traces else None
    if as_json:
        print_document(advice, stated, traced)
    else:
        print_advice(advice, stated, traced)
    return advice.fits


def _rescaled(times_s: Floats, rate: float | None) -> tuple[Floats, float]:
    """Recorded times from 0 on, stretched to a rate if one is given; and the rate."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise SetupError(f"--trace: {len(times_s)} arrivals are too few; record 100 or more")
    shifted = times_s - times_s[0]
    recorded = (len(shifted) - 1) / float(shifted[-1])
    return (shifted, recorded) if rate is None else (shifted * (recorded / rate), rate)


def _model(plan: LoadModel, measured: Measured, question: Question, origin: str) -> tuple[LatencyModel, str]:
    """How processors serve the load, and the same in words."""
    tick, servers = question.tick, question.servers
    if servers not in ("pool", "each"):
        raise SetupError(f"--servers takes pool or each, not {servers}")
    if servers == "each":
        return OwnServers(question.processors or 1), "a server for each operator, which Spark has not"
    chosen = strategy_named(question.strategy)
    priority = static_priority(chosen, plan.network, plan.profiles)
    if priority is None:
        raise SetupError(f"--strategy {question.strategy} has no fixed order; use headgate simulate instead")
    # a tick takes all that has come, in whatever order
    if tick is None:
        ticks = _profiled_ticks(measured, origin)
        if question.processors is not None:
            ticks = ticks.with_processors(question.processors)
        return ticks, f"ticks as profiled, {ticks.overhead_s:.3g} s each before the first tuple"
    processors = question.processors or measured.processors or os.cpu_count() or 1
    overhead_s = 0.0 if tick.strip().rstrip("sm ") == "0" else seconds("--tick", tick)
    if overhead_s:
        described = f"ticks as given, {overhead_s:.3g} s each before the first tuple"
        return InTicks(overhead_s, processors), described
    if chosen.name == "fifo":
        return OnServer(processors), "one queue without ticks, which Spark has"
    levels = dict(zip(plan.network.operators, priority.levels, strict=True))
    return ByPriority(levels, processors), f"priorities of {chosen.name} without ticks, which Spark has"


def _profiled_ticks(measured: Measured, origin: str) -> InTicks:
    try:
        return measured_ticks(measured, origin)
    except NotMeasured as error:
        raise SetupError(f"{error}, or state one: --tick 200ms (0s for an engine without ticks)") from None


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
