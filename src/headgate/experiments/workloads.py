"""Plans of operators for the simulator, scaled to a load, and bursty arrivals for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput
from headgate.scheduling import strategy_named
from headgate.simulator import Behaviour, Result, Scenario, simulate
from headgate.workload.packets import BurstSettings
from headgate.workload.processes import ParetoFlows, Trace

Streams = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Box:
    """An operator: inputs, time per tuple relative to the others, selectivity."""

    inputs: str
    time: float
    selectivity: float
    ordered: bool = False


def path_of(stream: str, *steps: tuple[float, float]) -> dict[str, Box]:
    """Operators in a row over a stream, each with its time and selectivity: ``stream.1``, ``stream.2``..."""
    names = [f"{stream}.{number}" for number in range(1, len(steps) + 1)]
    below = [stream, *names]
    return {name: Box(source, *step) for name, source, step in zip(names, below, steps, strict=False)}


def scenario(
    streams: Streams,
    boxes: Mapping[str, Box],
    outputs: Mapping[str, str],
    load: float | None = None,
    time_unit_s: float | None = None,
) -> Scenario:
    """The plan over these arrivals, scaled so that all work takes ``load`` times their duration.

    Without a load, every arrival is a page, and the times of operators are seconds.
    """

    def source(name: str) -> Input:
        return OperatorInput(name) if name in boxes else StreamInput(name, name, ())

    read = {name for box in boxes.values() for name in box.inputs.split()}
    used = {name: times for name, times in streams.items() if name in read}
    network = Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in used),
        (),
        tuple(Synthetic(n, tuple(map(source, box.inputs.split())), box.ordered) for n, box in boxes.items()),
        tuple(QueryDefinition(name, (output,), SinkDefinition("none")) for name, output in outputs.items()),
    )
    behaviours = {name: Behaviour(box.time, box.selectivity) for name, box in boxes.items()}
    if load is None:
        return Scenario(network, behaviours, used, time_unit_s=time_unit_s)
    plan = Scenario(network, behaviours, used, fate="random", seed=1)
    return slower(plan, load * plan.last_arrival_s / plan.work_s)


def slower(plan: Scenario, factor: float) -> Scenario:
    """The same plan, in which every tuple takes ``factor`` times as long."""
    behaviours = {name: replace(b, seconds=b.seconds * factor) for name, b in plan.behaviours.items()}
    return replace(plan, behaviours=behaviours)


def results_of(plan: Scenario, strategies: Iterable[str]) -> dict[str, Result]:
    """The plan simulated under each strategy."""
    return {name: simulate(plan, strategy_named(name)) for name in strategies}


def with_latency(plan: Scenario, latency_s: float) -> Scenario:
    """The same plan, every query under one latency bound."""
    network = plan.network
    queries = tuple(replace(query, latency_s=latency_s) for query in network.queries.values())
    return replace(plan, network=network.changed(queries=queries))


_SPAN_S = 12.0
# with fewer, no queue builds up that strategies could differ in
_FEWEST = 500


def recorded_arrivals(trace: Path, streams: tuple[str, ...]) -> Streams:
    """The busiest part of a trace, cut into one stretch per stream: 12 s each, less if the trace is short."""
    times_s = Trace(file=str(trace)).times_s(seed=0)
    if len(times_s) < _FEWEST * len(streams):
        raise SetupError(f"{trace} has {len(times_s)} arrivals; at least {_FEWEST * len(streams)} are needed")
    length_s = float(times_s[-1] - times_s[0])
    span_s = min(_SPAN_S, length_s / len(streams))
    window_s = span_s * len(streams)
    starts_s = times_s[0] + window_s * np.arange(max(1, int(length_s / window_s)))
    counts = np.searchsorted(times_s, starts_s + window_s) - np.searchsorted(times_s, starts_s)
    busiest_s = starts_s[int(counts.argmax())]
    edges = np.searchsorted(times_s, busiest_s + span_s * np.arange(len(streams) + 1))
    return {
        name: times_s[edges[i] : edges[i + 1]] - (busiest_s + i * span_s) for i, name in enumerate(streams)
    }


def with_recorded(kind: str, streams: Streams, trace: Path | None) -> dict[str, Streams]:
    """Generated arrivals by their kind, and as many streams of a trace if one is given."""
    recorded = {} if trace is None else {"recorded": recorded_arrivals(trace, tuple(streams))}
    return {kind: streams, **recorded}


def synthetic_arrivals(streams: tuple[str, ...]) -> Streams:
    """800 time units of flows that begin every time unit on average and last a Pareto time."""
    return {name: ParetoFlows(until=800.0).times_s(seed) for seed, name in enumerate(streams, start=1)}


def generated_arrivals(network: Network) -> Streams:
    """Arrival times of a network's ``burst`` streams."""
    found = {}
    for name, stream in network.streams.items():
        settings = BurstSettings.parse(dict(stream.options))
        assert settings.duration_us is not None
        found[name] = settings.process.arrivals(0, settings.duration_us).time_us / 1e6
    return found
