"""Bursty arrivals for experiments: a recorded trace, or flows of heavy-tailed length."""

from __future__ import annotations

from pathlib import Path

from headgate.experiments.plan import Streams
from headgate.workload.flows import ParetoFlows
from headgate.workload.trace import Trace

# of the recorded hour, where most packets come
_BUSIEST_S = 2160.0
_SPAN_S = 12.0


def recorded(trace: Path, streams: tuple[str, ...]) -> Streams:
    """Consecutive stretches of 12 s of a trace, one a stream, around its busiest minute."""
    return {
        name: Trace(str(trace), begin=_BUSIEST_S + i * _SPAN_S, until=_BUSIEST_S + (i + 1) * _SPAN_S).times_s(
            0
        )
        for i, name in enumerate(streams)
    }


def synthetic(streams: tuple[str, ...], seed: int = 1) -> Streams:
    """800 time units of flows that begin every time unit on average and last a Pareto time."""
    return {name: ParetoFlows(until=800.0).times_s(seed + i) for i, name in enumerate(streams)}
