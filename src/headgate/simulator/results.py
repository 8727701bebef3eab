"""Records of a run on the grid, and its result in seconds, tuples and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.simulator.scenario import Floats, Integers, Scenario

Rows = NDArray[Any]
Report = Callable[[float], None]
"""Called now and then during a long run, with the share of it that is done."""


def silent(share: float) -> None:
    """Report nothing."""


def row(**names: str) -> np.dtype[Any]:
    """The type of a row; fields of one kind, such as ``i8``, are separated by blanks."""
    return np.dtype([(name, kind) for kind, words in names.items() for name in words.split()], align=True)


# units of size by which the backlog grew or shrank, and the stream whose tuples they are
CHANGE = row(i8="tick units stream")
OUTPUT = row(i8="tick query arrival", f8="amount")


def columns(rows: Rows) -> tuple[Any, ...]:
    return tuple(rows[name] for name in rows.dtype.names or ())


@dataclass(frozen=True)
class Records:
    """Columns of ``CHANGE`` and ``OUTPUT``, and of every operator the busy time and entries finished.

    ``shed`` are the tuples of every stream that were dropped on arrival; empty if that cannot be.
    """

    changes: tuple[Integers, Integers, Integers]
    outputs: tuple[Integers, Integers, Integers, Floats]
    busy_ticks: Integers
    turns: Integers
    shed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Backlog:
    """A step function: from each time on, the tuples in queues and in service.

    ``sizes`` count an arriving tuple as 1; ``bytes`` weigh it by the width of its stream's tuples.
    """

    times_s: Floats
    sizes: Floats
    bytes: Floats

    @property
    def peak(self) -> float:
        return float(self.sizes.max(initial=0.0))

    @property
    def peak_bytes(self) -> float:
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
    """The result of a strategy on a scenario; latencies are None where there is no output."""

    strategy: str
    backlog: Backlog
    outputs: Outputs
    busy_s: Mapping[str, float]
    turns: Mapping[str, int]
    shed: Mapping[str, int] = field(default_factory=dict)
    """Tuples dropped on arrival, by stream; empty if the strategy has no memory limit."""

    @cached_property
    def latency_mean_s(self) -> float | None:
        return float(self.outputs.latencies_s.mean()) if len(self.outputs.times_s) else None

    @cached_property
    def latency_p99_s(self) -> float | None:
        latencies = self.outputs.latencies_s
        return float(np.percentile(latencies, 99)) if len(latencies) else None

    @cached_property
    def latency_max_s(self) -> float | None:
        return float(self.outputs.latencies_s.max()) if len(self.outputs.times_s) else None

    @property
    def end_s(self) -> float:
        """When the last service ended."""
        return float(self.backlog.times_s[-1]) if len(self.backlog.times_s) else 0.0

    @property
    def throughput_per_s(self) -> float:
        """Tuples output per second, from time 0 to the end."""
        return float(self.outputs.amounts.sum()) / self.end_s if self.end_s > 0 else 0.0

    @staticmethod
    def of(strategy: str, scenario: Scenario, records: Records) -> Result:
        names, per_s = scenario.numbered.names, scenario.numbered.grid.ticks_per_s
        ticks, queries, arrivals, amounts = records.outputs
        # in order of time; what completes at one instant stays in order of service
        order = np.argsort(ticks, kind="stable")
        latencies_s = (ticks - arrivals)[order] / per_s
        outputs = Outputs(ticks[order] / per_s, queries[order], amounts[order], latencies_s)
        busy = dict(zip(names, (records.busy_ticks / per_s).tolist(), strict=True))
        turns = dict(zip(names, records.turns.tolist(), strict=True))
        shed = dict(zip(scenario.network.streams, records.shed, strict=False))
        return Result(strategy, _backlog(scenario, *records.changes), outputs, busy, turns, shed)


def _backlog(scenario: Scenario, at: Integers, units: Integers, streams: Integers) -> Backlog:
    grid = scenario.numbered.grid
    if np.any(np.diff(at) < 0):
        # servers of their own are simulated one after the other
        order = np.argsort(at, kind="stable")
        at, units, streams = at[order], units[order], streams[order]
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    ticks = at[starts]
    sizes = _summed(units, starts) / grid.units_per_tuple
    widths = np.array([scenario.width(stream) for stream in scenario.network.streams])
    total_bytes = sizes * widths[0]
    for width in np.unique(widths[widths != widths[0]]):
        wide = np.isin(streams, np.flatnonzero(widths == width))
        own = _summed(np.where(wide, units, 0), starts)
        total_bytes += own * ((width - widths[0]) / grid.units_per_tuple)
    if scenario.time_unit_s is not None and len(ticks):
        # a point at every multiple of the time unit as well
        unit = grid.ticks(scenario.time_unit_s)
        first = -(-int(ticks[0]) // unit)
        boundaries = np.arange(first, int(ticks[-1]) // unit + 1, dtype=np.int64) * unit
        both = np.union1d(ticks, boundaries)
        last = np.searchsorted(ticks, both, side="right") - 1
        ticks, sizes, total_bytes = both, sizes[last], total_bytes[last]
    return Backlog(ticks / grid.ticks_per_s, sizes, total_bytes)


def _summed(changes: Integers, starts: Integers) -> Integers:
    """The running sum, after all changes of an instant."""
    return np.cumsum(np.add.reduceat(changes, starts)) if len(starts) else changes
