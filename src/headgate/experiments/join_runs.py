"""Repeated runs of a join in real time, what they count, and the queues that they should be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.experiments.study import MeanEstimate, batch_means
from headgate.experiments.wall_clock_join import (
    JoinArrivals,
    JoinRun,
    Windows,
    fill_count,
    longest_gap_s,
    measured_run,
)
from headgate.queueing.distributions import first_true
from headgate.queueing.measured_service import StalledQueue, Stalls, service_of, waits_of
from headgate.queueing.mg1 import MG1
from headgate.workload.processes import Trace

Floats = NDArray[np.float64]

_REPETITIONS = 5
_RUN_S = 0.8
# tuples that are served without a pause before a run, to know how long a service takes at present
_CALIBRATION = 6_000
# of the tuples of a run: until then the queue, which is empty at first, may still grow
_TRANSITION = 0.1
# Timers, other programs, and other machines on the same processor interrupt the join. An interruption is a
# long service or a stall, which theory knows; but some come several at once, and theory takes them to be
# independent of each other. If the join loses a time L at once, a share L rate of all tuples waits longer by
# L / (2 (1 - r)): in a run of 0.8 s with r = 0.9 and services of 18 us, 1 ms adds 8 % to the mean wait. So a
# run that loses more within 20 ms, beside the longest interruption there and without those of timers, is
# repeated, without a look at its waits, and counted. So is one in a tenth of which the machine was slower
# than usual by a share of more than 0.3 (1 - r), so that waits there are longer by 40 %, and one that has no
# steady state, since it got slower after the calibration. On a busy machine the last run counts all the same,
# and a check fails.
MOST_LOST_S = 1e-3
_AT_ONCE_S = 20e-3
_INTERRUPTION_S = 100e-6
MOST_SLOWER = 0.3
_TENTHS = 10
STEADY = 0.985
_MOST_REPEATED = 10
# a run waits for a moment without interruptions, but not for ever
_PROBE_S = 20e-3
_PAUSE_S = 0.2
_MOST_PAUSES = 25


@dataclass(frozen=True)
class NominalJoin:
    """A join at a nominal utilisation."""

    name: str
    windows: Windows
    utilisation: float

    def __str__(self) -> str:
        return f"{self.name}, utilisation {self.utilisation:g}"


@dataclass(frozen=True, eq=False)
class Repeated:
    """The runs of a case, without their first tenth, and the queue that each should be."""

    case: NominalJoin
    runs: tuple[JoinRun, ...]
    discarded: int = 0
    """Runs that were repeated, since something disturbed them."""
    _percentiles_s: dict[float, float] = field(default_factory=dict, init=False)

    @cached_property
    def queues(self) -> tuple[StalledQueue, ...]:
        return tuple(queue_of(run) for run in self.runs)

    def theory(self, value: Callable[[StalledQueue], float]) -> float:
        return float(np.mean([value(queue) for queue in self.queues]))

    def measured(self, value: Callable[[JoinRun], float]) -> float:
        return float(np.mean([value(run) for run in self.runs]))

    def estimate(self, values: Callable[[JoinRun], Floats]) -> MeanEstimate:
        """Mean over all runs, which are independent of each other."""
        found = [batch_means(values(run), leave_out=0.0) for run in self.runs]
        within = math.hypot(*(one.within for one in found)) / len(found)
        return MeanEstimate(float(np.mean([one.mean for one in found])), within)

    def wait_cdf(self, t: float) -> float:
        return self.theory(lambda queue: queue.wait_cdf(t))

    def wait_percentile(self, p: float) -> float:
        """The least wait that a share of all tuples of all runs should not exceed."""
        if p not in self._percentiles_s:
            most_s = max(queue.wait_percentile(p) for queue in self.queues)
            found_s = first_true(lambda t: self.wait_cdf(t) >= p, 0.0, most_s, 30)
            self._percentiles_s[p] = 0.0 if self.wait_cdf(0.0) >= p else found_s
        return self._percentiles_s[p]

    @property
    def waits_s(self) -> Floats:
        return np.concatenate([run.waits_s for run in self.runs])


def queue_of(run: JoinRun) -> StalledQueue:
    """The M/G/1 queue with the rate, the service times and the stalls of a run."""
    queue = MG1(run.rate, service_of(run.services_s))
    return StalledQueue(queue, Stalls.of(run.stalls[:, 1], run.seconds))


def typical_services_s(run: JoinRun) -> Floats:
    """The median service of the side of each tuple."""
    medians_s = [np.median(run.services_s[run.sides == side]) for side in np.unique(run.sides)]
    return np.asarray(np.array(medians_s)[np.unique(run.sides, return_inverse=True)[1]])


def interruptions(run: JoinRun) -> Floats:
    """(begin, length) of stalls, and of what long services took beyond the typical one."""
    typical_s = typical_services_s(run)
    is_long = run.services_s > 2 * typical_s
    during = np.stack([run.starts_s[is_long], (run.services_s - typical_s)[is_long]], axis=1)
    return np.concatenate([run.stalls, during])


def lost_together_s(run: JoinRun) -> float:
    """The most time of interruptions that come within 20 ms of a longer one."""
    begin_s, lost_s = interruptions(run).T
    is_long = lost_s > _INTERRUPTION_S
    # of overlapping intervals, one holds what lies within half of one
    places, lost_s = (begin_s[is_long] / (_AT_ONCE_S / 2)).astype(np.int64), lost_s[is_long]
    halves = np.bincount(places, lost_s, minlength=2)
    longest = np.zeros(len(halves))
    np.maximum.at(longest, places, lost_s)
    return float((halves[1:] + halves[:-1] - np.maximum(longest[1:], longest[:-1])).max())


def slower(run: JoinRun) -> float:
    """How much slower than usual the machine was in a tenth of a run, as a share of its idle share."""
    # services take longer the more the windows hold, which is not the machine's fault
    per_tuple_s = run.services_s / typical_services_s(run) / run.held
    tenths_s = np.array([np.median(part) for part in np.array_split(per_tuple_s, _TENTHS)])
    return float((tenths_s.max() / np.median(tenths_s) - 1) / max(1e-9, 1 - run.utilisation))


def is_quiet(run: JoinRun) -> bool:
    """Whether nothing disturbed a run, by its services alone."""
    is_steady = run.utilisation < STEADY and slower(run) <= MOST_SLOWER
    return is_steady and lost_together_s(run) <= MOST_LOST_S


# so many arrival times in any unit, by seed
Times = Callable[[int, int], Floats]


def poisson_times(count: int, seed: int) -> Floats:
    return np.cumsum(np.random.default_rng(seed).exponential(size=count))


def recorded_times(trace: Path) -> Times:
    """Stretches of a trace, another one for each seed."""
    times_s = Trace(file=str(trace)).times_s(seed=0)

    def stretch(count: int, seed: int) -> Floats:
        if count > len(times_s):
            raise SetupError(f"{trace} has {len(times_s)} arrivals; at least {count} are needed")
        # from one to the next by more than half of the trace, so that those of three seeds hardly overlap
        begin = int((0.618 * seed % 1.0) * (len(times_s) - count))
        return np.asarray(times_s[begin : begin + count])

    return stretch


def calibrated(windows: Windows, times: Times, seed: int) -> float:
    """Mean seconds of a service, by tuples that are served without a pause."""
    arrivals = JoinArrivals.at(times(fill_count(windows) + _CALIBRATION, seed), seed)
    return float(measured_run(arrivals, windows, 0.0).services_s.mean())


def _await_quiet() -> None:
    """Wait until the processor is there for 20 ms at a stretch, for some seconds at most."""
    for _ in range(_MOST_PAUSES):
        time.sleep(_PAUSE_S)
        if longest_gap_s(_PROBE_S) < _INTERRUPTION_S:
            return


def repeated(case: NominalJoin, times: Times, run_s: float = _RUN_S) -> Repeated:
    """Several runs of a case; a disturbed one is repeated."""
    runs: list[JoinRun] = []
    seed = 0
    while len(runs) < _REPETITIONS:
        seed += 1
        _await_quiet()
        service_s = calibrated(case.windows, times, 100 + seed)
        count = fill_count(case.windows) + int(run_s * case.utilisation / service_s)
        arrivals = JoinArrivals.at(times(count, seed), seed)
        run = measured_run(arrivals, case.windows, service_s / case.utilisation).after(_TRANSITION)
        if is_quiet(run) or seed - len(runs) > _MOST_REPEATED:
            runs.append(run)
    return Repeated(case, tuple(runs), seed - len(runs))


_DRAWN = 100


def mean_wait_error(run: JoinRun) -> float:
    """Standard deviation of the mean wait of a run from the formula, by chance alone, as a share of it.

    As in the comparison, the formula has the rate and the services of the run: here of drawn ones, in which
    services are independent of each other and of arrivals.
    """
    generator, services_s, count = np.random.default_rng(2), run.services_s, len(run.services_s)
    mean_s, second = float(services_s.mean()), float((services_s**2).mean())
    ratios = []
    for _ in range(_DRAWN):
        arrivals_s = np.cumsum(generator.exponential(1 / run.rate, count))
        rate = (count - 1) / float(arrivals_s[-1] - arrivals_s[0])
        waited_s = float(waits_of(arrivals_s, generator.permutation(services_s)).mean())
        ratios.append(waited_s / (rate * second) * 2 * (1 - rate * mean_s))
    return float(np.std(ratios))


# beyond, a queue is not counted: no case of a utilisation below 1 comes near
MOST_COUNTED = 1 << 14


def count_distribution(run: JoinRun) -> Floats:
    """The share of time that so many tuples were in the system: 0, 1, 2 and so on."""
    times_s = np.concatenate([run.arrivals_s, run.ends_s])
    order = np.argsort(times_s, kind="stable")
    steps = np.concatenate([np.ones(len(run.arrivals_s)), -np.ones(len(run.ends_s))])[order]
    # those who were there before the first one are not counted: they are gone after one busy period
    counts = np.cumsum(steps).astype(np.int64)
    inside = np.minimum(counts[:-1], MOST_COUNTED - 1)
    until_s = np.minimum(times_s[order], run.arrivals_s[-1])
    shares = np.bincount(inside, np.diff(until_s), MOST_COUNTED)
    return np.asarray(shares / shares.sum())


def counts_found(run: JoinRun) -> NDArray[np.int64]:
    """How many tuples each one finds in the system."""
    done = np.searchsorted(run.ends_s, run.arrivals_s, side="right")
    return np.asarray(np.arange(len(run.arrivals_s)) - done)


def percentile_of_counts(run: JoinRun, p: float) -> int:
    return int(np.searchsorted(np.cumsum(count_distribution(run)), p))


_ORDERS = 5


def shuffled_waits(run: JoinRun, by_windows: bool = False) -> Floats:
    """Lindley's recursion: arrivals and interruptions as they were, the other services in random orders.

    ``by_windows`` keeps services in proportion to what windows hold, and shuffles the rest.
    """
    generator, tuples = np.random.default_rng(1), len(run.arrivals_s)
    times_s = np.concatenate([run.arrivals_s, run.stalls[:, 0]])
    order, typical_s = np.argsort(times_s, kind="stable"), typical_services_s(run)
    is_long = run.services_s > 2 * typical_s
    others_s = np.where(is_long, typical_s, run.services_s)
    scale = run.held / run.held.mean() if by_windows else np.ones(tuples)
    found = []
    for _ in range(_ORDERS):
        shuffled_s = scale * generator.permutation(others_s / scale) + (run.services_s - others_s)
        # to tuples, a stall is another one that is served before them
        services_s = np.concatenate([shuffled_s, run.stalls[:, 1]])
        # the run begins earlier: its first tuple may have found a queue
        waits_s = waits_of(times_s[order], services_s[order], float(run.waits_s[0]))
        found.append(waits_s[order < tuples])
    return np.concatenate(found)
