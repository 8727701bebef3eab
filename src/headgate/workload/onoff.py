"""Self-similar traffic: the sum of on/off flows with Pareto periods and exponential gaps while on.

Every flow alternates between on-times (Pareto, shape 1.4) and off-times (shape 1.2). While on it emits a
Poisson process, so the gaps are exponential. Summed over flows, the counts are bursty on every time scale
from ``shortest_us`` up to ``longest_us``, the bounds of the (truncated) Pareto periods. The emission rate
while on is the wanted mean rate divided by the exact share of time that a flow is on.

Nothing is carried from one call to the next; two grids make any stretch of time reachable at once:

* *epochs* of 1000 s: the on-periods of all flows are drawn per ``(seed, epoch)``, each flow starting in the
  stationary state. Rates and burstiness are the same in all epochs; what is lost is the correlation across
  the seam of two epochs, and an epoch is much longer than the longest period.
* *cells* of up to 8192 tuples on average: the emissions within a cell are drawn per ``(seed, start of the
  cell)``, always for the whole cell, and then cut to the stretch asked for.

The draws are those of NumPy's default generator: the same on every machine, for one version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.workload.arrivals import Arrivals
from headgate.workload.pareto import TruncatedPareto
from headgate.workload.rates import RatePhases

OnPeriods = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

EPOCH_US = 1_000_000_000
# an epoch of this many flows takes about 60 MB
MOST_FLOWS = 1024
HIGHEST_RATE = 50e6
TUPLES_PER_CELL = 8192
TUPLES_PER_BLOCK = 65536
# all divide EPOCH_US, so that no cell crosses from an epoch into the next
_CELL_WIDTHS_US = (1_000_000, 500_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000)
# tuples are numbered from the start of their cell in microseconds, shifted by this: room for a year
_ID_BITS = 18
_PERIOD_DRAWS, _EMISSION_DRAWS = 1, 2


@dataclass(frozen=True)
class OnOff:
    """Settings of the traffic; equal settings give equal tuples."""

    seed: int
    rate: RatePhases
    flows: int = 64
    on_shape: float = 1.4
    off_shape: float = 1.2
    shortest_us: int = 50_000
    longest_us: int = 100_000_000

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise SetupError(f"a seed of {self.seed} is negative; write 0 or more")
        if not 1 <= self.flows <= MOST_FLOWS:
            raise SetupError(f"{self.flows} flows are out of range; write 1 to {MOST_FLOWS}")
        if self.rate.highest > HIGHEST_RATE:
            raise SetupError(f"a rate of {self.rate.highest:g} is too high; write at most {HIGHEST_RATE:g}")
        if self.longest_us > EPOCH_US:
            raise SetupError(f"periods are at most {EPOCH_US / 1e6:g} s long")
        # the periods check their own bounds
        _ = self.on_time, self.off_time

    @property
    def on_time(self) -> TruncatedPareto:
        """How long a flow emits, in microseconds."""
        return TruncatedPareto(self.on_shape, self.shortest_us, self.longest_us)

    @property
    def off_time(self) -> TruncatedPareto:
        """How long a flow is silent, in microseconds."""
        return TruncatedPareto(self.off_shape, self.shortest_us, self.longest_us)

    @property
    def on_share(self) -> float:
        """The share of time that a flow is on."""
        return self.on_time.mean / (self.on_time.mean + self.off_time.mean)

    @property
    def cell_us(self) -> int:
        """The widest cell with no more than the wanted number of tuples, at the highest rate."""
        wanted = TUPLES_PER_CELL * 1e6 / self.rate.highest
        return next((width for width in _CELL_WIDTHS_US if width <= wanted), _CELL_WIDTHS_US[-1])

    @property
    def block_us(self) -> int:
        """The length of a block of bounded memory: a whole number of cells."""
        wanted = int(TUPLES_PER_BLOCK * 1e6 / self.rate.highest)
        return min(EPOCH_US, max(1, wanted // self.cell_us) * self.cell_us)

    def arrivals(self, start_us: int, end_us: int) -> Arrivals:
        """The tuples of ``[start_us, end_us)``."""
        return Arrivals.joined(list(self.blocks(start_us, end_us)))

    def blocks(self, start_us: int, end_us: int) -> Iterator[Arrivals]:
        """The same tuples, in consecutive blocks of bounded memory."""
        for cells in self._cell_runs(start_us, end_us):
            yield cells.draw().between(start_us, end_us)

    def advance(self, start_us: int, end_us: int, max_tuples: int) -> int:
        """The latest time up to ``end_us`` before which at most ``max_tuples`` arrive after ``start_us``.

        Only the cells at the two ends are generated, those between are counted. At least a microsecond is
        granted, so that a stream always gets on.
        """
        left = max_tuples
        for cells in self._cell_runs(start_us, end_us):
            for begin, end, count in cells.counted():
                if count > left or begin < start_us or end > end_us:
                    times = self.arrivals(max(begin, start_us), min(end, end_us)).time_us
                    if len(times) > left:
                        return max(int(times[left]), start_us + 1)
                    count = len(times)
                left -= count
        return end_us

    def cuts(self, start_us: int, end_us: int, parts: int) -> list[int]:
        """Boundaries of up to ``parts`` stretches; on cells if they are many, so that none is drawn twice."""
        even = [start_us + (end_us - start_us) * part // parts for part in range(parts + 1)]
        if end_us - start_us >= 4 * parts * self.cell_us:
            even[1:-1] = [time // self.cell_us * self.cell_us for time in even[1:-1]]
        return sorted(set(even))

    def on_periods(self, time_us: int) -> OnPeriods:
        """Flow, begin and end of all on-periods in the epoch of a time, by flow and time."""
        return _epoch(self.seed, self.flows, self.on_time, self.off_time, time_us // EPOCH_US)

    def _cell_runs(self, start_us: int, end_us: int) -> Iterator[_Cells]:
        if start_us < 0:
            raise SetupError(f"the traffic begins at 0; {start_us} us lies before it")
        begin = start_us // self.cell_us * self.cell_us
        while begin < end_us:
            epoch_end = (begin // EPOCH_US + 1) * EPOCH_US
            last = -(-end_us // self.cell_us) * self.cell_us
            end = min(begin + self.block_us, epoch_end, last)
            yield _Cells.plan(self, begin, end)
            begin = end


@dataclass(frozen=True)
class Poisson(OnOff):
    """Flows that are always on: exponential gaps, and no bursts beyond those of chance."""

    @property
    def on_share(self) -> float:
        """All of the time."""
        return 1.0

    def on_periods(self, time_us: int) -> OnPeriods:
        """The whole epoch."""
        begin_us = np.full(self.flows, time_us // EPOCH_US * EPOCH_US)
        return np.arange(self.flows), begin_us, begin_us + EPOCH_US


@dataclass(frozen=True)
class _Cells:
    """Consecutive cells of one epoch with the stretches of on-time in them."""

    process: OnOff
    edges_us: NDArray[np.int64]
    flow: NDArray[np.int64]
    begin_us: NDArray[np.int64]
    length_us: NDArray[np.int64]
    first_of_cell: NDArray[np.int64] = field(repr=False)
    """Where each cell's stretches begin in the three arrays above; one more entry for the end."""
    expected: NDArray[np.float64] = field(repr=False)

    @staticmethod
    def plan(process: OnOff, begin_us: int, end_us: int) -> _Cells:
        edges = _edges(process, begin_us, end_us)
        flow, on, off = process.on_periods(begin_us)
        touched = (off > begin_us) & (on < end_us)
        flow, on, off = flow[touched], np.maximum(on[touched], begin_us), np.minimum(off[touched], end_us)
        first = np.searchsorted(edges, on, side="right") - 1
        crossed = np.searchsorted(edges, off, side="left") - first
        period = np.repeat(np.arange(len(on)), crossed)
        cell = first[period] + _ramps(crossed)
        order = np.argsort(cell, kind="stable")
        period, cell = period[order], cell[order]
        begin = np.maximum(on[period], edges[cell])
        length = np.minimum(off[period], edges[cell + 1]) - begin
        per_us = process.rate.at(edges[:-1]) / (1e6 * process.flows * process.on_share)
        return _Cells(
            process,
            edges,
            flow[period],
            begin,
            length,
            np.searchsorted(cell, np.arange(len(edges))),
            length * per_us[cell],
        )

    def counted(self) -> Iterator[tuple[int, int, int]]:
        """Begin, end and number of tuples of every cell, without drawing the tuples."""
        for cell, generator in self._generators():
            count = int(generator.poisson(self._expected_in(cell)).sum())
            yield int(self.edges_us[cell]), int(self.edges_us[cell + 1]), count

    def draw(self) -> Arrivals:
        """All tuples of the cells."""
        counts, positions = [], []
        for cell, generator in self._generators():
            counts.append(generator.poisson(self._expected_in(cell)))
            positions.append(generator.random(int(counts[-1].sum())))
        # given their number, the emissions of a Poisson process lie uniformly over the stretch
        stretch = np.repeat(np.arange(len(self.flow)), np.concatenate(counts))
        offset = (np.concatenate(positions) * self.length_us[stretch]).astype(np.int64)
        flow_bits = self.process.flows.bit_length()
        origin = int(self.edges_us[0])
        key = (self.begin_us[stretch] - origin + offset) << flow_bits | self.flow[stretch]
        key.sort()
        sizes = np.asarray([len(position) for position in positions])
        return Arrivals(
            (key >> flow_bits) + origin,
            (key & ((1 << flow_bits) - 1)).astype(np.int32),
            np.repeat(self.edges_us[:-1] << _ID_BITS, sizes) + _ramps(sizes),
        )

    def _expected_in(self, cell: int) -> NDArray[np.float64]:
        return self.expected[self.first_of_cell[cell] : self.first_of_cell[cell + 1]]

    def _generators(self) -> Iterator[tuple[int, np.random.Generator]]:
        for cell, begin in enumerate(self.edges_us[:-1].tolist()):
            yield cell, np.random.default_rng([self.process.seed, _EMISSION_DRAWS, begin])


def _edges(process: OnOff, begin_us: int, end_us: int) -> NDArray[np.int64]:
    """Cell boundaries; a new phase cuts its cell in two, so that one rate holds within a cell."""
    grid = np.arange(begin_us, end_us + 1, process.cell_us, dtype=np.int64)
    phases = [start for start in process.rate.starts_us if begin_us < start < end_us]
    return np.union1d(grid, np.asarray(phases, dtype=np.int64)) if phases else grid


def _ramps(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2... up to each length in turn."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


# a few megabytes each; several streams run side by side in one worker process, each with its own
@lru_cache(maxsize=16)
def _epoch(
    seed: int, flows: int, on_time: TruncatedPareto, off_time: TruncatedPareto, epoch: int
) -> OnPeriods:
    generator = np.random.default_rng([seed, _PERIOD_DRAWS, epoch])
    starts_on = generator.random(flows) < on_time.mean / (on_time.mean + off_time.mean)
    uniform, position = generator.random(flows), generator.random(flows)
    rest_on = np.where(starts_on, on_time.residual_at(uniform, position), 0.0)
    rest_off = np.where(starts_on, 0.0, off_time.residual_at(uniform, position))
    ons, offs = [rest_on[:, None]], [off_time.at(generator.random((flows, 1)))]
    # a flow that begins silent has an empty on-period first, and its rest of silence for an off-period
    offs[0] = np.where(starts_on[:, None], offs[0], rest_off[:, None])
    reached = ons[0][:, 0] + offs[0][:, 0]
    cycle = on_time.mean + off_time.mean
    while reached.min() < EPOCH_US:
        # half of what the mean asks for: the flow that lags most may yet get long periods
        cycles = int((EPOCH_US - reached.min()) / cycle / 2) + 16
        ons.append(on_time.at(generator.random((flows, cycles))))
        offs.append(off_time.at(generator.random((flows, cycles))))
        reached = reached + ons[-1].sum(axis=1) + offs[-1].sum(axis=1)
    on, off = np.concatenate(ons, axis=1), np.concatenate(offs, axis=1)
    end = np.cumsum(on + off, axis=1) - off
    begin_us = np.minimum(end - on, EPOCH_US).astype(np.int64)
    end_us = np.minimum(end, EPOCH_US).astype(np.int64)
    flow = np.repeat(np.arange(flows), on.shape[1]).reshape(on.shape)
    kept = end_us > begin_us
    return flow[kept], begin_us[kept] + epoch * EPOCH_US, end_us[kept] + epoch * EPOCH_US
