"""The answer of ``headgate advise``: predicted latency, queues and memory beside the bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.cli.measured import by_stream, profile_path, rate_of, read_measured
from headgate.cli.options import seconds
from headgate.cli.script import Script
from headgate.cli.summary import screen
from headgate.cli.traced import Traced, driven_by, rescaled
from headgate.errors import SetupError
from headgate.model.measured import Measured
from headgate.model.network import Network
from headgate.planning.stages import Stages
from headgate.queueing.advice import Advice
from headgate.queueing.advice import advise as advised
from headgate.queueing.dispersion import burstiness
from headgate.queueing.models import InTicks, LatencyModel, OnServer
from headgate.queueing.plan import Plan
from headgate.queueing.priorities import ByPriority
from headgate.queueing.servers import OwnServers
from headgate.report.advised import (
    advice_json,
    beside_table,
    dispersion_json,
    measured_json,
    operators_table,
    paths_table,
    queries_table,
)
from headgate.scheduling import strategy_named
from headgate.simulator.priority import static_priority
from headgate.workload.trace import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """The options of the command, as they were written."""

    file: Path
    rates: list[str]
    profile: Path | None
    traces: list[str]
    processors: int | None
    tick: str | None
    strategy: str
    servers: str
    percentile: float


def answer(asked: Question, as_json: bool) -> bool:
    """Print the answer; whether every query keeps its bounds."""
    network = Stages.of(Script.read(asked.file).catalog()).lowered
    path = profile_path(asked.file, asked.profile)
    measured = read_measured(path)
    recorded = _recorded(network, asked.rates, asked.traces)
    for operator in network.operators:
        if operator not in measured.profiles:
            known = f"{path} has no profile of operator {operator}"
            raise SetupError(f"{known}; measure it with: headgate profile {asked.file}")
    rates = _rates(network, measured, asked.rates, {stream: per_s for stream, (_, per_s) in recorded.items()})
    profiled = {stream: measured.tuples_per_s.get(stream, per_s) for stream, per_s in rates.items()}
    plan = Plan(network, measured.profiles, profiled).at(rates)
    model = _model(plan, measured, asked)
    advice = advised(plan, model, asked.percentile)
    traced = None
    if recorded:
        traced = driven_by(
            plan, model, asked.strategy, {stream: times for stream, (times, _) in recorded.items()}
        )
    if as_json:
        print(json.dumps(_document(advice, model, traced), indent=2))
    else:
        _print(advice, traced)
    return advice.fits


def _recorded(network: Network, rates: list[str], traces: list[str]) -> dict[str, tuple[Floats, float]]:
    """Arrivals of traced streams, at the rate that was asked for, and that rate."""
    asked = {s: rate_of(value, s) for s, value in by_stream("--rate", rates, network).items()}
    return {
        stream: rescaled(Trace(file).times_s(0), asked.get(stream))
        for stream, file in by_stream("--trace", traces, network).items()
    }


def _rates(
    network: Network, measured: Measured, given: list[str], recorded: Mapping[str, float]
) -> dict[str, float]:
    asked = {s: rate_of(value, s) for s, value in by_stream("--rate", given, network).items()}
    known = {**measured.tuples_per_s, **recorded, **asked}
    for stream in network.streams:
        if stream not in known:
            raise SetupError(f"no rate of stream {stream} is known; add --rate {stream}=1000")
    return {stream: known[stream] for stream in network.streams}


def _model(plan: Plan, measured: Measured, asked: Question) -> LatencyModel:
    processors, tick, strategy, servers = asked.processors, asked.tick, asked.strategy, asked.servers
    if servers not in ("pool", "each"):
        raise SetupError(f"--servers takes pool or each, not {servers}")
    if servers == "each":
        return OwnServers(processors or 1)
    chosen = strategy_named(strategy)
    priority = static_priority(chosen, plan.network, plan.profiles)
    if priority is None:
        raise SetupError(f"--strategy {strategy} has no fixed order; headgate simulate tells what it does")
    # a tick takes all that has come, in whatever order
    if tick is None and measured.tick is not None:
        ticks = InTicks.measured(measured.tick)
        return ticks if processors is None else ticks.with_processors(processors)
    if tick is not None and (overhead_s := _tick_s(tick)) > 0:
        return InTicks(overhead_s, processors or 1)
    if chosen.name == "fifo":
        return OnServer(processors or 1)
    return ByPriority(dict(zip(plan.network.operators, priority.levels, strict=True)), processors or 1)


def _tick_s(text: str) -> float:
    return 0.0 if text.strip().rstrip("sm ") == "0" else seconds("--tick", text) or 0.0


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
    console.print(queries_table(advice))
    if advice.figures is not None:
        console.print(paths_table(advice.figures))
        console.print(operators_table(advice.figures))
    rates = ", ".join(f"{stream} {rate:,.4g}/s" for stream, rate in advice.plan.rates.items())
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
            f"{worst.index:.3g} over {worst.seconds:.3g} s (1 if Poisson); {_trust(burstiness(found))}",
            soft_wrap=True,
        )


def _trust(index: float) -> str:
    if index < 1.5:
        return "the formula can be trusted"
    if index < 5:
        return "the formula holds at low load only"
    return "go by the recorded figures, not by the formula"
