"""Small plans with predicted, and what the simulator makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headgate.experiments.workloads import Box, path_of
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.queueing.load_model import LoadModel
from headgate.scheduling import strategy_named
from headgate.simulator import Behaviour, OnePerOperator, Pool, Result, Scenario, simulate

BOXES: dict[str, tuple[dict[str, Box], dict[str, str]]] = {
    "path": (path_of("r", (1.0, 0.5), (2.0, 0.5), (4.0, 1.0)), {"q": "r.3"}),
    "two paths": (
        {**path_of("r", (1.0, 0.2), (5.0, 1.0)), **path_of("s", (2.0, 0.9), (1.0, 0.1), (3.0, 1.0))},
        {"q1": "r.2", "q2": "s.3"},
    ),
    "two queries of a stream": (
        {**path_of("r", (1.0, 0.6), (2.0, 1.0)), "b.1": Box("r", 3.0, 0.3), "b.2": Box("b.1", 2.0, 1.0)},
        {"q1": "r.2", "q2": "b.2"},
    ),
    "join": (
        {
            "a": Box("r", 1.0, 0.5),
            "b": Box("s", 1.0, 0.8),
            "j": Box("a b", 2.0, 1.4),
            "p": Box("j", 1.0, 1.0),
        },
        {"q": "p"},
    ),
}


def plan_named(name: str, load: float = 0.6, **bounds: float) -> LoadModel:
    """A plan that keeps one processor busy for a share of the time; ``bounds`` are those of its queries."""
    boxes, outputs = BOXES[name]

    def source(text: str) -> Input:
        return OperatorInput(text) if text in boxes else StreamInput(text, text, ())

    streams = sorted({text for box in boxes.values() for text in box.inputs.split()} - set(boxes))
    network = Network(
        tuple(StreamDefinition(stream, "synthetic", None) for stream in streams),
        (),
        tuple(Synthetic(n, tuple(map(source, box.inputs.split())), box.ordered) for n, box in boxes.items()),
        tuple(
            QueryDefinition(query, (output,), SinkDefinition("none"), **bounds)  # type: ignore[arg-type]
            for query, output in outputs.items()
        ),
    )
    profiles = {operator: Profile(box.time, box.selectivity, 100.0) for operator, box in boxes.items()}
    plan = LoadModel(network, profiles, {stream: 1.0 + 0.5 * number for number, stream in enumerate(streams)})
    return slower(plan, load / plan.busy_processors)


def slower(plan: LoadModel, factor: float) -> LoadModel:
    """All operators take a factor longer."""
    profiles = {
        name: replace(profile, seconds_per_tuple=profile.seconds_per_tuple * factor)
        for name, profile in plan.profiles.items()
    }
    return LoadModel(plan.network, profiles, plan.rates)


@dataclass(frozen=True)
class Run:
    """A simulated run of a plan."""

    plan: LoadModel
    result: Result

    def latencies_s(self, query: str) -> np.ndarray:
        """Of all results of a query."""
        number = list(self.plan.network.queries).index(query)
        outputs = self.result.outputs
        return outputs.latencies_s[outputs.queries == number]


def simulated_plan(
    plan: LoadModel,
    strategy: str,
    processors: Pool | OnePerOperator,
    seconds: float = 60_000.0,
    seed: int = 1,
) -> Run:
    """Poisson arrivals at the plan's rates."""
    generator = np.random.default_rng(seed)
    arrivals: Mapping[str, np.ndarray] = {
        stream: np.sort(generator.uniform(0, seconds, generator.poisson(rate * seconds)))
        for stream, rate in plan.rates.items()
    }
    behaviours = {n: Behaviour(p.seconds_per_tuple, p.selectivity) for n, p in plan.profiles.items()}
    scenario = Scenario(plan.network, behaviours, arrivals, processors=processors, fate="random", seed=seed)
    return Run(plan, simulate(scenario, strategy_named(strategy)))
