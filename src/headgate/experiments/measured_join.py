"""The join of the paper, run in real time at several utilisations, beside queues of its measured services.

Nothing of the theory comes from a formula of costs: rates, service times and stalls are those of the runs
themselves. Poisson arrivals are compared with the M/G/1 queue. Recorded ones are a G/G/1 queue, which has no
formula: they are compared with Lindley's recursion over the same arrivals, with the measured services in
random order.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError
from headgate.experiments.study import MeanEstimate, Study, batch_means, rounded
from headgate.experiments.wall_clock_join import (
    Arrivals,
    JoinRun,
    RowWindows,
    TimeWindows,
    Windows,
    fill_count,
    measured_run,
)
from headgate.queueing.distributions import first_true
from headgate.queueing.measured_service import StalledQueue, Stalls, service_of, waits_of
from headgate.queueing.mg1 import MG1
from headgate.workload.processes import Trace

Floats = NDArray[np.float64]

WINDOWS = {
    "equal windows": TimeWindows((1000, 1000)),
    "one window twice the other": TimeWindows((2000, 1000)),
}
RECORDED_WINDOWS: dict[str, Windows] = {
    "recorded arrivals, windows of rows": RowWindows((1000, 1000)),
    "recorded arrivals, windows of time": TimeWindows((1000, 1000)),
}
UTILISATIONS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
RECORDED_UTILISATIONS = (0.2, 0.5, 0.8, 0.95)
_REPETITIONS = 3
_RUN_S = 1.5
# tuples that are served without a pause before a run, to know how long a service takes at present
_CALIBRATION = 8_000
# of the tuples of a run: until then the queue, which is empty at first, may still grow
_TRANSITION = 0.1
# A run without its processor for longer measures other programs, which come in phases. It is repeated,
# without a look at its waits, and counted; so is one that is too short for a steady state, since the machine
# got slower after the calibration. On a busy machine the last run counts all the same, and the check fails.
_PROCESSOR_SHARE = 0.99
_STEADY = 0.985
_MOST_REPEATED = 6

# Bounds, fixed before the runs that are reported. Beside chance, a mean wait may be off by this share: a loop
# that reads a clock every 30 ns notices an arrival that much later, up to 2 % of the shortest mean wait; and
# services of one window are alike, which the queue takes to be independent, 1 % more
_MEAN_SHARE = 0.03
# a wait of up to the resolution, 30 ns and the time to notice it, is none
_NO_WAIT_S = 0.5e-6
# the same 3 % of a wait change the share of waits below a percentile by no more than this: the density of
# waits at a mean wait is below 1 / (3 mean waits)
_SHARE = 0.01
# of the time: tuples in system are whole numbers, and one more counts as late as a clock is read
_COUNT_SHARE = 0.01
# chance of 1e-4 that a mean of normal numbers is further off
_NORMAL = 3.9
# Lindley's recursion has the arrivals in common with the run, so there is little chance; its services are in
# another order, and where a few long ones lie among bursts matters
_RECORDED_SHARE = 0.1
# "numbers of tuples in the input queue are negligible beside those of the windows"
_NEGLIGIBLE = 0.05


@dataclass(frozen=True)
class Case:
    """A join at a nominal utilisation."""

    name: str
    windows: Windows
    utilisation: float

    def __str__(self) -> str:
        return f"{self.name}, utilisation {self.utilisation:g}"


@dataclass(frozen=True, eq=False)
class Repeated:
    """The runs of a case, without their first tenth, and the queue that each should be."""

    case: Case
    runs: tuple[JoinRun, ...]
    discarded: int = 0
    """Runs that were repeated, since something disturbed them."""

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
        most_s = max(queue.wait_percentile(p) for queue in self.queues)
        if self.wait_cdf(0.0) >= p:
            return 0.0
        return first_true(lambda t: self.wait_cdf(t) >= p, 0.0, most_s, 30)

    @property
    def waits_s(self) -> Floats:
        return np.concatenate([run.waits_s for run in self.runs])


def queue_of(run: JoinRun) -> StalledQueue:
    """The M/G/1 queue with the rate, the service times and the stalls of a run."""
    queue = MG1(run.rate, service_of(run.services_s))
    return StalledQueue(queue, Stalls.of(run.stalls[:, 1], run.seconds))


def measure(study: Study, trace: Path | None) -> None:
    """Run all cases in real time, some two minutes, and compare."""
    study.progress("a join in real time")
    # compiled before anything is timed
    calibrated(TimeWindows((100, 100)), poisson_times, 0)
    found = [
        repeated(Case(name, windows, load), poisson_times)
        for name, windows in WINDOWS.items()
        for load in UTILISATIONS
    ]
    compare_with_theory(study, found)
    if trace is not None:
        study.progress("recorded arrivals in real time")
        recorded = recorded_times(trace)
        cases = [Case(n, w, load) for n, w in RECORDED_WINDOWS.items() for load in RECORDED_UTILISATIONS]
        compare_recorded(study, [repeated(case, recorded) for case in cases])


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
    arrivals = Arrivals.at(times(fill_count(windows) + _CALIBRATION, seed), seed)
    return float(measured_run(arrivals, windows, 0.0).services_s.mean())


def repeated(case: Case, times: Times, run_s: float = _RUN_S) -> Repeated:
    """Three runs of a case; a disturbed one is repeated."""
    runs: list[JoinRun] = []
    seed = 0
    while len(runs) < _REPETITIONS:
        seed += 1
        service_s = calibrated(case.windows, times, 100 + seed)
        count = fill_count(case.windows) + int(run_s * case.utilisation / service_s)
        arrivals = Arrivals.at(times(count, seed), seed)
        run = measured_run(arrivals, case.windows, service_s / case.utilisation).after(_TRANSITION)
        is_quiet = run.processor_share >= _PROCESSOR_SHARE and run.utilisation < _STEADY
        if is_quiet or seed - len(runs) > _MOST_REPEATED:
            runs.append(run)
    return Repeated(case, tuple(runs), seed - len(runs))


def compare_with_theory(study: Study, found: Sequence[Repeated]) -> None:
    """Checks, a table and figures of Poisson arrivals."""
    steady = _undisturbed(study, found)
    for one in steady:
        _check_waits(study, one)
        _check_counts(study, one)
        _check_memory(study, one)
    rows = {str(one.case): _row(one) for one in steady}
    study.tables["measured join"] = rows
    _write(study.out / "join-measured.csv", rows)
    for name in dict.fromkeys(one.case.name for one in steady):
        own = [one for one in steady if one.case.name == name]
        _draw_waits(study, name, own)
        _draw_counts(study, name, own)


def _undisturbed(study: Study, found: Sequence[Repeated]) -> list[Repeated]:
    """Check that the machine was quiet; returns those cases that have a steady state at all."""
    share = min(run.processor_share for one in found for run in one.runs)
    name = f"{found[0].case.name} and others: least share of the time that the join had its processor"
    study.at_least(name, _PROCESSOR_SHARE, share)
    highest = max(run.utilisation for one in found for run in one.runs)
    study.at_most(f"{found[0].case.name} and others: highest measured utilisation", _STEADY, highest)
    return [one for one in found if all(run.utilisation < 1 for run in one.runs)]


def _check_waits(study: Study, one: Repeated) -> None:
    mean_s = one.theory(lambda queue: queue.mean_wait)
    measured_s = one.measured(lambda run: float(run.waits_s.mean()))
    allowed = _NORMAL * _chance_s(one) + _MEAN_SHARE * mean_s
    study.within(f"{one.case}: mean wait (us), measured", 1e6 * mean_s, 1e6 * measured_s, 1e6 * allowed)
    for share in (0.5, 0.9, 0.99):
        t = one.wait_percentile(share)
        below = one.estimate(lambda run, t=t: (run.waits_s <= t + _NO_WAIT_S).astype(np.float64))
        name = f"{one.case}: share of measured waits below p{100 * share:g} of theory"
        study.within(name, one.wait_cdf(t), below.mean, below.within + _SHARE)


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


def _chance_s(one: Repeated) -> float:
    """Standard error of the mean wait over all runs of a case."""
    errors_s = [mean_wait_error(r) * q.mean_wait for r, q in zip(one.runs, one.queues, strict=True)]
    return math.hypot(*errors_s) / len(errors_s)


def _check_counts(study: Study, one: Repeated) -> None:
    mean = one.theory(lambda queue: queue.mean_in_system)
    # Little's law, with the chance that is in the waits
    allowed = _NORMAL * one.measured(lambda run: run.rate) * _chance_s(one) + _MEAN_SHARE * mean
    counted = one.measured(lambda run: float(count_distribution(run) @ np.arange(_MOST_COUNTED)))
    study.within(f"{one.case}: mean number in system, measured", mean, counted, allowed)
    most = max(queue.percentile_in_system(0.99) for queue in one.queues)
    expected = one.theory(lambda queue: queue.cdf_in_system(most))
    share = one.measured(lambda run: float(count_distribution(run)[: most + 1].sum()))
    # a tuple that finds more is one that arrives while there are more: arrivals see time averages
    found = one.estimate(lambda run: (counts_found(run) <= most).astype(np.float64))
    name = f"{one.case}: share of time with no more in system than p99 of theory, measured"
    study.within(name, expected, share, found.within + _COUNT_SHARE)


def _check_memory(study: Study, one: Repeated) -> None:
    """Tuples in windows are a Poisson number; those in the queue are few beside them."""
    mean = sum(one.case.windows.tuples)
    held = one.measured(lambda run: float(run.held.mean()))
    # tuples stay for a window, so that a run has as many independent numbers as it is windows long
    windows = sum(len(run.held) for run in one.runs) / (2 * max(one.case.windows.tuples))
    # the tuple in service is in its window
    study.within(
        f"{one.case}: tuples in windows, measured", mean + 1, held, _NORMAL * math.sqrt(mean / windows)
    )
    queued = one.measured(lambda run: float(percentile_of_counts(run, 0.99)))
    study.at_most(f"{one.case}: p99 of tuples in queue / tuples in windows", _NEGLIGIBLE, queued / mean)


# beyond, a queue is not counted: no case of a utilisation below 1 comes near
_MOST_COUNTED = 1 << 14


def count_distribution(run: JoinRun) -> Floats:
    """The share of time that so many tuples were in the system: 0, 1, 2 and so on."""
    times_s = np.concatenate([run.arrivals_s, run.ends_s])
    order = np.argsort(times_s, kind="stable")
    steps = np.concatenate([np.ones(len(run.arrivals_s)), -np.ones(len(run.ends_s))])[order]
    # those who were there before the first one are not counted: they are gone after one busy period
    counts = np.cumsum(steps).astype(np.int64)
    inside = np.minimum(counts[:-1], _MOST_COUNTED - 1)
    until_s = np.minimum(times_s[order], run.arrivals_s[-1])
    shares = np.bincount(inside, np.diff(until_s), _MOST_COUNTED)
    return np.asarray(shares / shares.sum())


def counts_found(run: JoinRun) -> NDArray[np.int64]:
    """How many tuples each one finds in the system."""
    done = np.searchsorted(run.ends_s, run.arrivals_s, side="right")
    return np.asarray(np.arange(len(run.arrivals_s)) - done)


def percentile_of_counts(run: JoinRun, p: float) -> int:
    return int(np.searchsorted(np.cumsum(count_distribution(run)), p))


def compare_recorded(study: Study, found: Sequence[Repeated]) -> None:
    """Checks and a figure of recorded arrivals: a formula for Poisson ones is far off, a recursion is not."""
    rows = {}
    found = _undisturbed(study, found)
    for one in found:
        measured_s = one.measured(lambda run: float(run.waits_s.mean()))
        recursion_s = one.measured(lambda run: float(shuffled_waits(run).mean()))
        name = f"{one.case}: mean wait (us), measured and by recursion"
        study.close(name, 1e6 * recursion_s, 1e6 * measured_s, _RECORDED_SHARE)
        formula_s = one.theory(lambda queue: queue.mean_wait)
        rows[str(one.case)] = {
            "utilisation": rounded(one.measured(lambda run: run.utilisation)),
            "wait_us": rounded(1e6 * measured_s),
            "recursion_us": rounded(1e6 * recursion_s),
            "Poisson_formula_us": rounded(1e6 * formula_s),
            **_percentiles_us("p{:g}_us", one.waits_s),
            **_percentiles_us("p{:g}_recursion_us", np.concatenate([shuffled_waits(r) for r in one.runs])),
            "window_tuples": round(one.measured(lambda run: float(run.held.mean()))),
            "window_tuples_p99": round(one.measured(lambda run: float(np.percentile(run.held, 99)))),
            "repeated": one.discarded,
        }
    study.tables["recorded arrivals"] = rows
    _write(study.out / "join-recorded.csv", rows)
    for name in dict.fromkeys(one.case.name for one in found):
        own = [one for one in found if one.case.name == name]
        last = own[-1]
        ratio = last.measured(lambda run: float(run.waits_s.mean())) / last.theory(lambda q: q.mean_wait)
        study.at_least(f"{last.case}: mean wait, measured / formula for Poisson arrivals", 2.0, ratio)
        _draw_recorded(study, name, own)


_ORDERS = 5


def shuffled_waits(run: JoinRun) -> Floats:
    """Lindley's recursion: arrivals and stalls as they were, measured services in random orders."""
    generator = np.random.default_rng(1)
    times_s = np.concatenate([run.arrivals_s, run.stalls[:, 0]])
    order, tuples = np.argsort(times_s, kind="stable"), len(run.arrivals_s)
    found = []
    for _ in range(_ORDERS):
        # to tuples, a stall is another one that is served before them
        services_s = np.concatenate([generator.permutation(run.services_s), run.stalls[:, 1]])
        found.append(waits_of(times_s[order], services_s[order])[order < tuples])
    return np.concatenate(found)


def _percentiles_us(name: str, waits_s: Floats) -> dict[str, float]:
    return {name.format(p): rounded(1e6 * float(np.percentile(waits_s, p)), 3) for p in (50, 90, 99)}


def _row(one: Repeated) -> dict[str, object]:
    ratios = [float(r.waits_s.mean()) / q.mean_wait for r, q in zip(one.runs, one.queues, strict=True)]
    shares = (0.5, 0.9, 0.99)
    theory = {f"p{100 * p:g}_theory_us": rounded(1e6 * one.wait_percentile(p), 3) for p in shares}
    return {
        "utilisation": rounded(one.measured(lambda run: run.utilisation)),
        "tuples": sum(len(run.waits_s) for run in one.runs),
        "service_us": rounded(1e6 * one.measured(lambda run: float(run.services_s.mean()))),
        "stalled": rounded(one.measured(lambda run: float(run.stalls[:, 1].sum()) / run.seconds), 2),
        "wait_theory_us": rounded(1e6 * one.theory(lambda queue: queue.mean_wait)),
        "wait_us": rounded(1e6 * one.measured(lambda run: float(run.waits_s.mean()))),
        "runs": " ".join(f"{ratio:.2f}" for ratio in ratios),
        **theory,
        **_percentiles_us("p{:g}_us", one.waits_s),
        "in_system_theory": rounded(one.theory(lambda queue: queue.mean_in_system), 3),
        "in_system": rounded(
            one.measured(lambda run: float(count_distribution(run) @ np.arange(_MOST_COUNTED))), 3
        ),
        "p99_in_system_theory": rounded(one.theory(lambda queue: queue.percentile_in_system(0.99)), 3),
        "p99_in_system": rounded(one.measured(lambda run: percentile_of_counts(run, 0.99)), 3),
        "window_tuples": round(one.measured(lambda run: float(run.held.mean()))),
        "window_tuples_p99": round(one.measured(lambda run: float(np.percentile(run.held, 99)))),
        "repeated": one.discarded,
    }


def _write(path: Path, rows: dict[str, dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        for number, (name, row) in enumerate(rows.items()):
            if number == 0:
                table.writerow(["case", *row])
            table.writerow([name, *row.values()])


def _draw_waits(study: Study, name: str, found: Sequence[Repeated]) -> None:
    title = f"Waiting time of a join in real time, {name}: theory (lines) and measured (dots)"
    file = f"delay-measured-{name.replace(' ', '-')}"
    with study.drawing(file, title, "waiting time (us)", "share of tuples") as axes:
        for number, one in enumerate(found):
            end_s, colour = one.wait_percentile(0.995), f"C{number}"
            t, some = np.linspace(0, end_s, 100), np.linspace(0, end_s, 15)
            label = f"utilisation {one.case.utilisation:g}"
            axes.plot(t * 1e6, [one.wait_cdf(x) for x in t.tolist()], color=colour, label=label)
            waits_s = np.sort(one.waits_s)
            below = np.searchsorted(waits_s, some + _NO_WAIT_S, side="right") / len(waits_s)
            axes.plot(some * 1e6, below, ".", color=colour)


def _draw_counts(study: Study, name: str, found: Sequence[Repeated]) -> None:
    title = f"Tuples in the system of a join in real time, {name}: theory (lines) and measured (dots)"
    file = f"queue-measured-{name.replace(' ', '-')}"
    with study.drawing(file, title, "tuples in system", "share of time with more") as axes:
        for number, one in enumerate(found):
            colour, most = f"C{number}", max(queue.percentile_in_system(0.99) for queue in one.queues)
            n = np.unique(np.linspace(0, most + 1, 25).astype(np.int64))
            above = [1 - one.theory(lambda queue, k=k: queue.cdf_in_system(k)) for k in n.tolist()]
            axes.plot(n, above, color=colour, label=f"utilisation {one.case.utilisation:g}")
            shares = np.mean([np.cumsum(count_distribution(run)) for run in one.runs], axis=0)
            axes.plot(n, 1 - shares[n], ".", color=colour)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.005)


def _draw_recorded(study: Study, name: str, found: Sequence[Repeated]) -> None:
    title = f"Waiting time, {name}: recursion (lines), measured (dots), Poisson formula (dashed)"
    file = f"delay-measured-{name.replace(', ', '-').replace(' ', '-')}"
    with study.drawing(file, title, "waiting time (us)", "share of tuples that wait longer") as axes:
        for number, one in enumerate(found):
            recursion_s = np.sort(np.concatenate([shuffled_waits(run) for run in one.runs]))
            waits_s, colour = np.sort(one.waits_s), f"C{number}"
            t = np.geomspace(1e-6, max(2e-6, float(recursion_s[-1])), 60)
            label = f"utilisation {one.case.utilisation:g}"
            axes.plot(t * 1e6, _longer(recursion_s, t), color=colour, label=label)
            axes.plot(t[::4] * 1e6, _longer(waits_s, t[::4]), ".", color=colour)
            axes.plot(t * 1e6, [1 - one.wait_cdf(x) for x in t.tolist()], "--", color=colour, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=1e-4)


def _longer(ordered_s: Floats, t: Floats) -> Floats:
    return np.asarray(1 - np.searchsorted(ordered_s, t, side="right") / len(ordered_s))
