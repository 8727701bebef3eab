"""Whole plans: predicted against simulated latency, for every model of how processors work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headgate.experiments.check import Study
from headgate.experiments.plan import Box, path_of, scenario
from headgate.model.profile import Profile
from headgate.queueing.figures import PlanFigures
from headgate.queueing.models import LatencyModel, OnServer
from headgate.queueing.plan import Plan
from headgate.queueing.priorities import ByPriority
from headgate.queueing.servers import OwnServers
from headgate.report.lines import plot_lines
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, Result, Scenario, simulate
from headgate.simulator.priority import static_priority
from headgate.workload.poisson import Poisson

_UNTIL_S = 200_000.0
_RATES = {"r": 1.0, "s": 1.5}
_LOADS = (0.3, 0.6, 0.8)

_PLANS: Mapping[str, tuple[dict[str, Box], dict[str, str]]] = {
    "a path": (path_of("r", (1.0, 0.5), (2.0, 0.5), (4.0, 1.0)), {"q": "r.3"}),
    "two paths": (
        path_of("r", (1.0, 0.2), (5.0, 1.0)) | path_of("s", (2.0, 0.9), (1.0, 0.1), (3.0, 1.0)),
        {"q1": "r.2", "q2": "s.3"},
    ),
    "two queries of a stream": (
        path_of("r", (1.0, 0.6), (2.0, 1.0)) | {"b.1": Box("r", 3.0, 0.3), "b.2": Box("b.1", 2.0, 1.0)},
        {"q1": "r.2", "q2": "b.2"},
    ),
    "a join": (
        {
            "a": Box("r", 1.0, 0.5),
            "b": Box("s", 1.0, 0.8),
            "j": Box("a b", 2.0, 1.4),
            "p": Box("j", 1.0, 1.0),
        },
        {"q": "p"},
    ),
}
# the most that a predicted mean, and a predicted p99, may be off; at any of the loads, in any of the plans
_ALLOWED = {
    "fifo, 1 processor": (0.03, 0.06),
    "fifo, 3 processors": (0.2, 0.3),
    "own servers": (0.1, 0.3),
    "chain": (0.2, 0.25),
    "greedy": (0.25, 0.35),
    "path-capacity": (0.1, 0.1),
}


def plans(study: Study) -> None:
    """The worst error of every model, and a picture of all."""
    lines = {}
    for name, (most_mean, most_p99) in _ALLOWED.items():
        means, tails = [], []
        by_load = []
        for load in _LOADS:
            here = [error for plan in _PLANS for error in _errors(name, plan, load)]
            means += [mean for mean, _ in here]
            tails += [tail for _, tail in here]
            by_load.append(max(mean for mean, _ in here))
        study.at_most(f"plans, {name}: worst error of a mean latency", most_mean, max(means))
        study.at_most(f"plans, {name}: worst error of a p99 latency", most_p99, max(tails))
        lines[name] = (list(_LOADS), by_load)
    title = "Predicted mean latency against the simulator: worst error"
    path = study.out / "plans.png"
    study.figure(plot_lines(path, title, "utilisation", "relative error", lines, steps=False))


def _errors(name: str, plan_name: str, load: float) -> list[tuple[float, float]]:
    """Of the mean and of p99, for each query."""
    boxes, outputs = _PLANS[plan_name]
    arrivals = {s: Poisson(rate, _UNTIL_S).times_s(i) for i, (s, rate) in enumerate(_RATES.items())}
    simulated = scenario(arrivals, boxes, outputs, load=load)
    pool = Pool(3 if "3" in name else 1)
    processors: Pool | OnePerOperator = pool
    if name == "own servers":
        processors = OnePerOperator()
        busiest = max(simulated.loads[n].tuples * f.seconds for n, f in simulated.figures.items())
        simulated = _slower(simulated, load * _UNTIL_S / busiest)
    else:
        simulated = _slower(simulated, pool.processors)
    simulated = replace(simulated, processors=processors)
    rates = {stream: _RATES[stream] for stream in simulated.network.streams}
    profiles = {n: Profile(f.seconds, f.selectivity) for n, f in simulated.figures.items()}
    plan = Plan(simulated.network, profiles, rates)
    strategy = strategy_named(name if name in ("chain", "greedy", "path-capacity") else "fifo")
    result = simulate(simulated, strategy)
    figures = _model(name, plan).figures(plan)
    return [_error(plan, figures, result, number, query) for number, query in enumerate(outputs)]


def _slower(plan: Scenario, factor: float) -> Scenario:
    return replace(plan, figures={n: replace(f, seconds=f.seconds * factor) for n, f in plan.figures.items()})


def _model(name: str, plan: Plan) -> LatencyModel:
    if name == "own servers":
        return OwnServers()
    if name.startswith("fifo"):
        return OnServer(3 if "3" in name else 1)
    found = static_priority(strategy_named(name), plan.network, plan.profiles)
    assert found is not None
    return ByPriority(dict(zip(plan.network.operators, found.levels, strict=True)))


def _error(plan: Plan, figures: PlanFigures, result: Result, number: int, query: str) -> tuple[float, float]:
    latencies_s = result.outputs.latencies_s[result.outputs.queries == number]
    total = weighted = 0.0
    for path in figures.paths_of(query):
        rate = plan.leaf_rate(path.operators[0])
        rate *= float(np.prod([plan.profile[name].selectivity for name in path.operators]))
        total, weighted = total + rate, weighted + rate * path.latency.mean_s
    mean_s, p99_s = float(latencies_s.mean()), float(np.percentile(latencies_s, 99))
    return abs(weighted / total / mean_s - 1), abs(figures.latency_s(query, 0.99) / p99_s - 1)
