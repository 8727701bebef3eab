"""A finished run, in seconds, tuples and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.simulator.layout import Layout
from headgate.simulator.records import Floats, Integers, Records
from headgate.simulator.scenario import Scenario


@dataclass(frozen=True)
class Backlog:
    """A step function: from each time on, what is in queues and in service.

    ``sizes`` count an arriving tuple as 1; ``bytes`` weigh it by the width of its stream's tuples.
    """

    times_s: Floats
    sizes: Floats
    bytes: Floats

    @property
    def peak(self) -> float:
        """The most there ever was."""
        return float(self.sizes.max(initial=0.0))

    @property
    def peak_bytes(self) -> float:
        """The most bytes there ever were."""
        return float(self.bytes.max(initial=0.0))

    @property
    def mean(self) -> float:
        """The average over time, from the first arrival to the last completion."""
        spans_s = np.diff(self.times_s)
        return float(self.sizes[:-1] @ spans_s / spans_s.sum()) if spans_s.sum() > 0 else self.peak

    def at(self, time_s: float) -> float:
        """The size at an instant, after its arrivals and completions."""
        index = int(np.searchsorted(self.times_s, time_s, side="right")) - 1
        return float(self.sizes[index]) if index >= 0 else 0.0


@dataclass(frozen=True)
class Outputs:
    """Results in order of time: when, which query's, how many tuples, and how long after arrival."""

    times_s: Floats
    queries: Integers
    amounts: Floats
    latencies_s: Floats


@dataclass(frozen=True)
class Result:
    """What a strategy made of a scenario."""

    strategy: str
    backlog: Backlog
    outputs: Outputs
    busy_s: Mapping[str, float]
    turns: Mapping[str, int]

    @cached_property
    def latency_mean_s(self) -> float | None:
        """Over all outputs; None if there is none."""
        return float(self.outputs.latencies_s.mean()) if len(self.outputs.times_s) else None

    @cached_property
    def latency_p99_s(self) -> float | None:
        """What 99 of 100 outputs stay within."""
        latencies = self.outputs.latencies_s
        return float(np.percentile(latencies, 99)) if len(latencies) else None

    @cached_property
    def latency_max_s(self) -> float | None:
        """The worst of all outputs."""
        return float(self.outputs.latencies_s.max()) if len(self.outputs.times_s) else None

    @property
    def end_s(self) -> float:
        """When the last work was done."""
        return float(self.backlog.times_s[-1]) if len(self.backlog.times_s) else 0.0

    @property
    def throughput_per_s(self) -> float:
        """Tuples put out a second, from time 0 to the end."""
        return float(self.outputs.amounts.sum()) / self.end_s if self.end_s > 0 else 0.0

    @staticmethod
    def of(strategy: str, scenario: Scenario, layout: Layout, records: Records) -> Result:
        """Leave the grid."""
        per_s = layout.grid.ticks_per_s
        # in order of time; what completes at one instant stays in order of service
        order = np.argsort(records.output_ticks, kind="stable")
        ticks = records.output_ticks[order]
        outputs = Outputs(
            ticks / per_s,
            records.output_queries[order],
            records.output_amounts[order],
            (ticks - records.output_arrival_ticks[order]) / per_s,
        )
        busy = {n: int(b) / per_s for n, b in zip(layout.names, records.busy_ticks, strict=True)}
        turns = {n: int(t) for n, t in zip(layout.names, records.turns, strict=True)}
        return Result(strategy, _backlog(scenario, layout, records), outputs, busy, turns)


def _backlog(scenario: Scenario, layout: Layout, records: Records) -> Backlog:
    grid = layout.grid
    if np.any(np.diff(records.change_ticks) < 0):
        # servers of their own are simulated one after the other
        records = records.in_order_of_time()
    starts = np.flatnonzero(np.diff(records.change_ticks, prepend=-1))
    ticks = records.change_ticks[starts]
    units = _summed(records.change_units, starts)
    sizes = units / grid.units_per_tuple
    widths = np.array([scenario.width(stream) for stream in scenario.network.streams])
    total_bytes = sizes * widths[0]
    for width in np.unique(widths[widths != widths[0]]):
        wide = np.isin(records.change_streams, np.flatnonzero(widths == width))
        own = _summed(np.where(wide, records.change_units, 0), starts)
        total_bytes += own * ((width - widths[0]) / grid.units_per_tuple)
    if scenario.time_unit_s is not None and len(ticks):
        ticks, sizes, total_bytes = _with_boundaries(
            grid.ticks(scenario.time_unit_s), ticks, sizes, total_bytes
        )
    return Backlog(ticks / grid.ticks_per_s, sizes, total_bytes)


def _summed(changes: Integers, starts: Integers) -> Integers:
    """The running sum, after all changes of an instant."""
    return np.cumsum(np.add.reduceat(changes, starts)) if len(starts) else changes


def _with_boundaries(
    unit: int, ticks: Integers, sizes: Floats, total_bytes: Floats
) -> tuple[Integers, Floats, Floats]:
    """The same steps, looked at at every multiple of the time unit as well."""
    first = -(-int(ticks[0]) // unit)
    boundaries = np.arange(first, int(ticks[-1]) // unit + 1, dtype=np.int64) * unit
    both = np.union1d(ticks, boundaries)
    last = np.searchsorted(ticks, both, side="right") - 1
    return both, sizes[last], total_bytes[last]
