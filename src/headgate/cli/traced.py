"""The figure beside the formula: the same plan, driven by recorded arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.queueing.dispersion import Dispersion, dispersion
from headgate.queueing.driven import tick_latencies
from headgate.queueing.models import InTicks, LatencyModel, OnServer
from headgate.queueing.plan import Plan
from headgate.queueing.priorities import ByPriority
from headgate.queueing.servers import OwnServers
from headgate.queueing.work import work_of
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, Scenario, simulate
from headgate.simulator.fate import key_of
from headgate.workload.poisson import Poisson

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Traced:
    """What recorded arrivals make of a plan: how bursty they are, and the latencies of results by query."""

    dispersions: Mapping[str, tuple[Dispersion, ...]]
    latencies_s: Mapping[str, Floats]
    mean_bytes: float | None
    peak_bytes: float | None
    """In all queues together; None for ticks."""


def rescaled(times_s: Floats, rate: float | None) -> tuple[Floats, float]:
    """Recorded times from 0 on, stretched so that they come at a rate if one is asked for; and the rate."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise SetupError(f"--trace: {len(times_s)} arrivals are too few; record 100 or more")
    shifted = times_s - times_s[0]
    recorded = (len(shifted) - 1) / float(shifted[-1])
    if rate is None:
        return shifted, recorded
    return shifted * (recorded / rate), rate


def driven_by(
    plan: Plan, model: LatencyModel, strategy: str, traces: Mapping[str, Floats], seed: int = 0
) -> Traced:
    """Let recorded arrivals through the plan; other streams are Poisson, and last as long."""
    end_s = max(float(times[-1]) for times in traces.values())
    arrivals = dict(traces)
    for stream, rate in plan.rates.items():
        if stream not in arrivals:
            own_seed = key_of(seed, "arrivals", stream) >> 1
            arrivals[stream] = Poisson(rate, end_s).times_s(own_seed) if rate > 0 else np.empty(0)
    dispersions = {stream: dispersion(times) for stream, times in traces.items()}
    if isinstance(model, InTicks):
        return Traced(dispersions, _in_ticks(plan, model, arrivals), None, None)
    scenario = Scenario.from_profiles(
        plan.network, plan.profile, arrivals, processors=_processors(model), fate="random", seed=seed
    )
    result = simulate(scenario, strategy_named(strategy))
    numbers = {query: number for number, query in enumerate(plan.network.queries)}
    backlog, spans_s = result.backlog, np.diff(result.backlog.times_s)
    return Traced(
        dispersions,
        {q: result.outputs.latencies_s[result.outputs.queries == n] for q, n in numbers.items()},
        float(backlog.bytes[:-1] @ spans_s / spans_s.sum()) if spans_s.sum() > 0 else 0.0,
        backlog.peak_bytes,
    )


def _processors(model: LatencyModel) -> Pool | OnePerOperator:
    if isinstance(model, OwnServers):
        return OnePerOperator()
    assert isinstance(model, (OnServer, ByPriority))
    return Pool(model.processors)


def _in_ticks(plan: Plan, model: InTicks, arrivals: Mapping[str, Floats]) -> dict[str, Floats]:
    work = work_of(plan)
    seconds = {
        stream: model.intake_s
        + model.work_s * sum(p * s for leaf in plan.network.leaves(stream) for p, s in work[leaf])
        for stream in arrivals
    }
    latencies = tick_latencies(arrivals, seconds, model.overhead_s)
    found = {}
    for query in plan.network.queries:
        own = plan.network.streams_of(query) & set(arrivals)
        found[query] = np.concatenate([latencies[stream] for stream in sorted(own)])
    return found
