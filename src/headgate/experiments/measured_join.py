"""The join of the paper, run in real time at several utilisations, beside queues of its measured services.

Nothing of the theory comes from a formula of costs: rates, service times and stalls are those of the runs
themselves. Poisson arrivals are compared with the M/G/1 queue. Recorded ones are a G/G/1 queue, which has no
formula: they are compared with Lindley's recursion over the same arrivals, with the measured services in
random order.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.join_runs import (
    MOST_COUNTED,
    MOST_LOST_S,
    MOST_SLOWER,
    STEADY,
    NominalJoin,
    Repeated,
    calibrated,
    count_distribution,
    counts_found,
    lost_together_s,
    mean_wait_error,
    percentile_of_counts,
    poisson_times,
    recorded_times,
    repeated,
    shuffled_waits,
    slower,
)
from headgate.experiments.study import Study, rounded
from headgate.experiments.wall_clock_join import JoinRun, RowWindows, TimeWindows, Windows

Floats = NDArray[np.float64]

WINDOWS = {
    "equal windows": TimeWindows((4000, 4000)),
    "one window twice the other": TimeWindows((8000, 4000)),
}
RECORDED_WINDOWS: dict[str, Windows] = {
    "recorded arrivals, windows of rows": RowWindows((4000, 4000)),
    "recorded arrivals, windows of time": TimeWindows((4000, 4000)),
}
UTILISATIONS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
RECORDED_UTILISATIONS = (0.2, 0.5, 0.8, 0.95)


# Bounds, fixed before the runs that are reported. Beside chance, a mean wait may be off by this share, since
# a loop that reads a clock every 30 ns notices an arrival that much later: up to 2 % of the shortest mean
# wait, and the arithmetic of distributions takes 1 %. See ``_filling_share`` for what windows add to that.
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
# Lindley's recursion has arrivals and interruptions in common with the run, so there is little chance; its
# other services are in another order
_RECURSION_SHARE = 0.05
# where bursts are as long as a run, the order of services matters more
_RECORDED_SHARE = 0.1
# "numbers of tuples in the input queue are negligible beside those of the windows"
_NEGLIGIBLE = 0.05


_BY_RECURSION = "mean wait (us), measured and by recursion with independent services"
DISAGREEMENTS = {
    f"recorded arrivals, windows of time, utilisation {load}: {_BY_RECURSION}": (
        "a burst fills the windows, so that services are longest when most tuples wait; a queue whose "
        "services are independent of arrivals waits less"
    )
    for load in ("0.8", "0.95")
}


def measure(study: Study, trace: Path | None) -> None:
    """Run all cases in real time, some minutes, and compare."""
    study.disagreements = {**study.disagreements, **DISAGREEMENTS}
    study.progress("a join in real time")
    # compiled before anything is timed
    calibrated(TimeWindows((100, 100)), poisson_times, 0)
    found = [
        repeated(NominalJoin(name, windows, load), poisson_times)
        for name, windows in WINDOWS.items()
        for load in UTILISATIONS
    ]
    compare_with_theory(study, found)
    if trace is not None:
        study.progress("recorded arrivals in real time")
        recorded = recorded_times(trace)
        cases = [
            NominalJoin(n, w, load) for n, w in RECORDED_WINDOWS.items() for load in RECORDED_UTILISATIONS
        ]
        compare_recorded(study, [repeated(case, recorded) for case in cases])


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
    lost_s = max(lost_together_s(run) for one in found for run in one.runs)
    name = (
        f"{found[0].case.name} and others: most time lost to interruptions within 20 ms of a longer one (us)"
    )
    study.at_most(name, 1e6 * MOST_LOST_S, 1e6 * lost_s)
    slowest = max(slower(run) for one in found for run in one.runs)
    name = f"{found[0].case.name} and others: slowest tenth of a run, as a share of its idle time"
    study.at_most(name, MOST_SLOWER, slowest)
    highest = max(run.utilisation for one in found for run in one.runs)
    study.at_most(f"{found[0].case.name} and others: highest measured utilisation", STEADY, highest)
    return [one for one in found if all(run.utilisation < 1 for run in one.runs)]


def _is_within(seconds: float, run: JoinRun) -> Floats:
    return (run.waits_s <= seconds).astype(np.float64)


def _check_waits(study: Study, one: Repeated) -> None:
    mean_s = one.theory(lambda queue: queue.mean_wait)
    measured_s = one.measured(lambda run: float(run.waits_s.mean()))
    allowed = _NORMAL * _chance_s(one) + (_MEAN_SHARE + _filling_share(one)) * mean_s
    study.within(f"{one.case}: mean wait (us), measured", 1e6 * mean_s, 1e6 * measured_s, 1e6 * allowed)
    recursion_s = one.measured(lambda run: float(shuffled_waits(run).mean()))
    name = f"{one.case}: mean wait (us), measured and by recursion"
    study.close(name, 1e6 * recursion_s, 1e6 * measured_s, _RECURSION_SHARE + _filling_share(one))
    for share in (0.5, 0.9, 0.99):
        t = one.wait_percentile(share)
        below = one.estimate(partial(_is_within, t + _NO_WAIT_S))
        name = f"{one.case}: share of measured waits below p{100 * share:g} of theory"
        study.within(name, one.wait_cdf(t), below.mean, below.within + _SHARE)


def _filling_share(one: Repeated) -> float:
    """How much longer waits are as a share, since windows by time vary.

    Service times are proportional to the tuples in windows, N on average, which stay for longer than a queue
    takes to settle: the utilisation r varies with a standard deviation of r / sqrt(N), and the mean of
    1 / (1 - r) is larger than that of its mean by the square of that over (1 - r)^2.
    """
    r = one.measured(lambda run: run.utilisation)
    return (r / (1 - r)) ** 2 / sum(one.case.windows.tuples)


def _chance_s(one: Repeated) -> float:
    """Standard error of the mean wait over all runs of a case."""
    errors_s = [mean_wait_error(r) * q.mean_wait for r, q in zip(one.runs, one.queues, strict=True)]
    return math.hypot(*errors_s) / len(errors_s)


def _check_counts(study: Study, one: Repeated) -> None:
    mean = one.theory(lambda queue: queue.mean_in_system)
    # Little's law, with the chance that is in the waits
    allowed = (
        _NORMAL * one.measured(lambda run: run.rate) * _chance_s(one)
        + (_MEAN_SHARE + _filling_share(one)) * mean
    )
    counted = one.measured(lambda run: float(count_distribution(run) @ np.arange(MOST_COUNTED)))
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


def compare_recorded(study: Study, found: Sequence[Repeated]) -> None:
    """Checks and a figure of recorded arrivals: a formula for Poisson ones is far off, a recursion is not."""
    rows: dict[str, dict[str, object]] = {}
    found = _undisturbed(study, found)
    for one in found:
        measured_s = one.measured(lambda run: float(run.waits_s.mean()))
        recursion_s = one.measured(lambda run: float(shuffled_waits(run).mean()))
        by_windows_s = one.measured(lambda run: float(shuffled_waits(run, by_windows=True).mean()))
        name = f"{one.case}: {_BY_RECURSION}"
        study.close(name, 1e6 * recursion_s, 1e6 * measured_s, _RECORDED_SHARE)
        name = f"{one.case}: mean wait (us), measured and by recursion with services in proportion to windows"
        study.close(name, 1e6 * by_windows_s, 1e6 * measured_s, _RECORDED_SHARE)
        formula_s = one.theory(lambda queue: queue.mean_wait)
        rows[str(one.case)] = {
            "utilisation": rounded(one.measured(lambda run: run.utilisation)),
            "wait_us": rounded(1e6 * measured_s),
            "recursion_us": rounded(1e6 * recursion_s),
            "by_windows_us": rounded(1e6 * by_windows_s),
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
        "recursion_us": rounded(1e6 * one.measured(lambda run: float(shuffled_waits(run).mean()))),
        "runs": " ".join(f"{ratio:.2f}" for ratio in ratios),
        **theory,
        **_percentiles_us("p{:g}_us", one.waits_s),
        "in_system_theory": rounded(one.theory(lambda queue: queue.mean_in_system), 3),
        "in_system": rounded(
            one.measured(lambda run: float(count_distribution(run) @ np.arange(MOST_COUNTED))), 3
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
            # from the shortest wait that differs from none
            t = np.geomspace(2 * _NO_WAIT_S, max(1e-5, one.wait_percentile(0.995)), 60)
            label, colour = f"utilisation {one.case.utilisation:g}", f"C{number}"
            axes.plot(t * 1e6, [one.wait_cdf(x) for x in t.tolist()], color=colour, label=label)
            waits_s, some = np.sort(one.waits_s), t[::4]
            below = np.searchsorted(waits_s, some, side="right") / len(waits_s)
            axes.plot(some * 1e6, below, ".", color=colour)
        axes.set_xscale("log")


def _draw_counts(study: Study, name: str, found: Sequence[Repeated]) -> None:
    title = f"Tuples in the system of a join in real time, {name}: theory (lines) and measured (dots)"
    file = f"queue-measured-{name.replace(' ', '-')}"
    with study.drawing(file, title, "tuples in system", "share of time with more") as axes:
        for number, one in enumerate(found):
            colour, most = f"C{number}", max(queue.percentile_in_system(0.99) for queue in one.queues)
            n = np.unique(np.linspace(0, most + 1, 25).astype(np.int64))
            within = [[queue.cdf_in_system(k) for k in n.tolist()] for queue in one.queues]
            above = 1 - np.mean(within, axis=0)
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
