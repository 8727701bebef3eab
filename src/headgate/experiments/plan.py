"""Plans of operators for the simulator, their times scaled to a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Input, OperatorInput, StreamInput, Synthetic
from headgate.simulator import Figures, Scenario
from headgate.simulator.scenario import Fate

Streams = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Box:
    """An operator: its inputs, its time for a tuple relative to the others', its selectivity."""

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
    load: float,
    fate: Fate = "random",
    time_unit_s: float | None = None,
) -> Scenario:
    """The plan over these arrivals; all work takes ``load`` times as long as they last."""

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
    figures = {name: Figures(box.time, box.selectivity) for name, box in boxes.items()}
    plan = Scenario(network, figures, used, fate=fate, time_unit_s=time_unit_s, seed=1)
    second = load * plan.last_arrival_s / plan.work_s
    return replace(plan, figures={n: replace(f, seconds=f.seconds * second) for n, f in figures.items()})


def with_latency(plan: Scenario, latency_s: float) -> Scenario:
    """The same plan, every query under one latency bound."""
    network = plan.network
    queries = tuple(replace(query, latency_s=latency_s) for query in network.queries.values())
    return replace(plan, network=network.changed(queries=queries))
