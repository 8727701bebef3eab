"""Bursty arrivals for experiments: a trace, flows of heavy-tailed length, or what a source makes up."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headgate.errors import SetupError
from headgate.experiments.plan import Streams
from headgate.model.network import Network
from headgate.workload.flows import ParetoFlows
from headgate.workload.settings import BurstSettings
from headgate.workload.trace import Trace

_SPAN_S = 12.0
# with fewer, no queue builds up that strategies could differ in
_FEWEST = 500


def recorded(trace: Path, streams: tuple[str, ...]) -> Streams:
    """Consecutive stretches of a trace where most arrive, one a stream: 12 s each, less of a short one."""
    times_s = Trace(str(trace)).times_s(seed=0)
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


def synthetic(streams: tuple[str, ...], seed: int = 1) -> Streams:
    """800 time units of flows that begin every time unit on average and last a Pareto time."""
    return {name: ParetoFlows(until=800.0).times_s(seed + i) for i, name in enumerate(streams)}


def generated(network: Network) -> Streams:
    """When the tuples of a network's ``burst`` streams come, from beginning to end."""
    found = {}
    for name, stream in network.streams.items():
        settings = BurstSettings.parse(dict(stream.options))
        assert settings.duration_us is not None
        found[name] = settings.process.arrivals(0, settings.duration_us).time_us / 1e6
    return found
