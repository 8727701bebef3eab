"""Self-similar traffic: the sum of on/off flows with Pareto periods and exponential gaps while on.

Every flow alternates between on-times (Pareto, shape 1.4) and off-times (shape 1.2). While on it emits a
Poisson process, so the gaps are exponential. Summed over flows, the counts are bursty on every time scale
from ``shortest_us`` up to ``longest_us``, the bounds of the (truncated) Pareto periods. The emission rate
while on is the configured mean rate divided by the exact share of time that a flow is on.

No state is carried from one call to the next. Two grids make any interval of time directly accessible:

* *epochs* of 1000 s: the on-periods of all flows are drawn per ``(seed, epoch)``, each flow starting in the
  stationary state. Rates and burstiness are the same in all epochs. Only the correlation across the boundary
  of two epochs is lost, and an epoch is much longer than the longest period.
* *cells* of up to 8192 tuples on average: the emissions within a cell are drawn per ``(seed, start of the
  cell)``, always for the whole cell, and then cut to the requested interval.

The draws are those of NumPy's default generator: the same on every machine, for one version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.formats.quantity import FLOWS, SEED
from headgate.workload.traffic import Arrivals, RatePhases, TruncatedPareto

OnPeriods = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

EPOCH_US = 1_000_000_000
# an epoch takes some 20 bytes for each
_MOST_PERIODS = 1e7
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
        SEED.check(self.seed, f"a seed of {self.seed}")
        FLOWS.check(self.flows, f"a number of {self.flows} flows")
        if self.rate.highest > HIGHEST_RATE:
            raise SetupError(f"a rate of {self.rate.highest:g} is too high; write at most {HIGHEST_RATE:g}")
        if self.longest_us > EPOCH_US:
            raise SetupError(f"periods are at most {EPOCH_US / 1e6:g} s long")
        periods = self.flows * EPOCH_US / (self.on_time.mean + self.off_time.mean)
        if periods > _MOST_PERIODS:
            many = f"{self.flows} flows have about {periods:.2g} periods in {EPOCH_US / 1e6:g} s"
            raise SetupError(f"{many}, more than {_MOST_PERIODS:.0e}; write fewer flows, or longer periods")

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
        return self.on_time.mean / (self.on_time.mean + self.off_time.mean)

    @property
    def cell_us(self) -> int:
        """The widest cell with at most ``TUPLES_PER_CELL`` tuples on average at the highest rate."""
        wanted = TUPLES_PER_CELL * 1e6 / self.rate.highest
        return next((width for width in _CELL_WIDTHS_US if width <= wanted), _CELL_WIDTHS_US[-1])

    @property
    def block_us(self) -> int:
        """The length of a block of bounded memory: a whole number of cells."""
        wanted = int(TUPLES_PER_BLOCK * 1e6 / self.rate.highest)
        return min(EPOCH_US, max(1, wanted // self.cell_us) * self.cell_us)

    def arrivals(self, start_us: int, end_us: int) -> Arrivals:
        """The tuples of ``[start_us, end_us)``."""
        return Arrivals.concatenate(list(self.blocks(start_us, end_us)))

    def blocks(self, start_us: int, end_us: int) -> Iterator[Arrivals]:
        """The same tuples, in consecutive blocks of bounded memory."""
        for cells in self._cell_runs(start_us, end_us):
            yield cells.draw().between(start_us, end_us)

    def advance(self, start_us: int, end_us: int, max_tuples: int) -> int:
        """The latest time up to ``end_us`` before which at most ``max_tuples`` arrive after ``start_us``.

        Only the cells at the two ends are generated; those between are counted. The result is at least a
        microsecond later, so that a stream always advances.
        """
        left = max_tuples
        for cells in self._cell_runs(start_us, end_us):
            for begin, end, count in cells.counts():
                if count > left or begin < start_us or end > end_us:
                    times = self.arrivals(max(begin, start_us), min(end, end_us)).time_us
                    if len(times) > left:
                        return max(int(times[left]), start_us + 1)
                    count = len(times)
                left -= count
        return end_us

    def cuts(self, start_us: int, end_us: int, parts: int) -> list[int]:
        """Boundaries of up to ``parts`` intervals; on cells if those are many, so none is drawn twice."""
        even = [start_us + (end_us - start_us) * part // parts for part in range(parts + 1)]
        if end_us - start_us >= 4 * parts * self.cell_us:
            even[1:-1] = [time // self.cell_us * self.cell_us for time in even[1:-1]]
        return sorted(set(even))

    def on_periods(self, time_us: int) -> OnPeriods:
        """Flow, begin and end of all on-periods in the epoch of a time, by flow and time."""
        return _epoch(self.seed, self.flows, self.on_time, self.off_time, time_us // EPOCH_US)

    def _cell_runs(self, start_us: int, end_us: int) -> Iterator[_Cells]:
        if start_us < 0:
            raise SetupError(f"traffic begins at 0; {start_us} us is before that")
        begin = start_us // self.cell_us * self.cell_us
        while begin < end_us:
            epoch_end = (begin // EPOCH_US + 1) * EPOCH_US
            last = -(-end_us // self.cell_us) * self.cell_us
            end = min(begin + self.block_us, epoch_end, last)
            yield _Cells(self, begin, end)
            begin = end


@dataclass(frozen=True)
class AlwaysOn(OnOff):
    """A Poisson process: flows are always on, so gaps are exponential and bursts are those of chance."""

    @property
    def on_share(self) -> float:
        return 1.0

    def on_periods(self, time_us: int) -> OnPeriods:
        begin_us = np.full(self.flows, time_us // EPOCH_US * EPOCH_US)
        return np.arange(self.flows), begin_us, begin_us + EPOCH_US


class _Cells:
    """Consecutive cells of one epoch, and the intervals of on-time in them."""

    def __init__(self, process: OnOff, begin_us: int, end_us: int) -> None:
        # a new phase cuts its cell in two, so that one rate holds within a cell
        phases = [start for start in process.rate.starts_us if begin_us < start < end_us]
        grid = np.arange(begin_us, end_us + 1, process.cell_us, dtype=np.int64)
        edges = np.union1d(grid, np.asarray(phases, dtype=np.int64))
        flow, on, off = process.on_periods(begin_us)
        touched = (off > begin_us) & (on < end_us)
        flow, on, off = flow[touched], np.maximum(on[touched], begin_us), np.minimum(off[touched], end_us)
        first = np.searchsorted(edges, on, side="right") - 1
        crossed = np.searchsorted(edges, off, side="left") - first
        period = np.repeat(np.arange(len(on)), crossed)
        cell = first[period] + ramps(crossed)
        order = np.argsort(cell, kind="stable")
        period, cell = period[order], cell[order]
        begin = np.maximum(on[period], edges[cell])
        length = np.minimum(off[period], edges[cell + 1]) - begin
        per_us = process.rate.at(edges[:-1]) / (1e6 * process.flows * process.on_share)
        self._process, self._edges_us = process, edges
        self._flow, self._begin_us, self._length_us = flow[period], begin, length
        self._expected = length * per_us[cell]
        # of the intervals; one more entry for the end
        self._first_of_cell = np.searchsorted(cell, np.arange(len(edges)))

    def counts(self) -> Iterator[tuple[int, int, int]]:
        """Begin, end and number of tuples of every cell, without drawing the tuples."""
        for cell, (_, counts) in enumerate(self._draws()):
            yield int(self._edges_us[cell]), int(self._edges_us[cell + 1]), int(counts.sum())

    def draw(self) -> Arrivals:
        counts, positions = [], []
        for generator, emitted in self._draws():
            counts.append(emitted)
            positions.append(generator.random(int(emitted.sum())))
        # given their number, the emissions of a Poisson process lie uniformly over the interval
        interval = np.repeat(np.arange(len(self._flow)), np.concatenate(counts))
        offset = (np.concatenate(positions) * self._length_us[interval]).astype(np.int64)
        flow_bits = self._process.flows.bit_length()
        origin = int(self._edges_us[0])
        key = (self._begin_us[interval] - origin + offset) << flow_bits | self._flow[interval]
        key.sort()
        sizes = np.asarray([len(position) for position in positions])
        return Arrivals(
            (key >> flow_bits) + origin,
            (key & ((1 << flow_bits) - 1)).astype(np.int32),
            np.repeat(self._edges_us[:-1] << _ID_BITS, sizes) + ramps(sizes),
        )

    def _draws(self) -> Iterator[tuple[np.random.Generator, NDArray[np.int64]]]:
        """The generator of every cell, and the number of tuples of each interval, drawn first."""
        for cell, begin in enumerate(self._edges_us[:-1].tolist()):
            generator = np.random.default_rng([self._process.seed, _EMISSION_DRAWS, begin])
            expected = self._expected[self._first_of_cell[cell] : self._first_of_cell[cell + 1]]
            yield generator, generator.poisson(expected)


def ramps(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
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
        # half of the mean number of cycles: the flow that lags most may yet draw long periods
        cycles = int((EPOCH_US - reached.min()) / cycle / 2) + 16
        ons.append(on_time.at(generator.random((flows, cycles))))
        offs.append(off_time.at(generator.random((flows, cycles))))
        reached = reached + ons[-1].sum(axis=1) + offs[-1].sum(axis=1)
    on, off = np.concatenate(ons, axis=1), np.concatenate(offs, axis=1)
    end = np.cumsum(on + off, axis=1) - off
    begin_us = np.minimum(end - on, EPOCH_US).astype(np.int64)
    end_us = np.minimum(end, EPOCH_US).astype(np.int64)
    flow = np.repeat(np.arange(flows), on.shape[1]).reshape(on.shape)
    inside = end_us > begin_us
    return flow[inside], begin_us[inside] + epoch * EPOCH_US, end_us[inside] + epoch * EPOCH_US
