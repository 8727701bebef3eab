"""The join in real time: what it computes, what it notes, and comparisons that fail when they should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headgate.experiments import join_runs
from headgate.experiments.join_runs import (
    NominalJoin,
    Repeated,
    count_distribution,
    is_quiet,
    poisson_times,
    recorded_times,
    shuffled_waits,
)
from headgate.experiments.measured_join import compare_recorded, compare_with_theory
from headgate.experiments.study import Study
from headgate.experiments.wall_clock_join import (
    CLOSE,
    SMOOTHING,
    JoinArrivals,
    JoinRun,
    RowWindows,
    TimeWindows,
    Windows,
    fill_count,
    measured_run,
)
from headgate.queueing.measured_service import waits_of

SMALL: list[Windows] = [TimeWindows((160, 80)), RowWindows((160, 80))]


def in_window(arrivals: JoinArrivals, windows: Windows, of: int, side: int) -> np.ndarray:
    """Tuples of a side in its window when a tuple is served, by counting all of them."""
    earlier = np.flatnonzero(arrivals.sides[: of + 1] == side)
    if isinstance(windows, RowWindows):
        return earlier[-windows.tuples[side] :]
    return earlier[arrivals.times[earlier] > arrivals.times[of] - 2 * windows.tuples[side]]


@pytest.mark.slow
@pytest.mark.parametrize("windows", SMALL, ids=["time", "rows"])
def test_the_join_finds_the_matches_that_all_pairs_have_and_holds_its_windows(windows: Windows) -> None:
    arrivals = JoinArrivals.at(poisson_times(1200, 1), 2)
    run = measured_run(arrivals, windows, 0.0)
    filling, matches = fill_count(windows), 0
    for number in range(filling, 1200):
        windows_now = [in_window(arrivals, windows, number, side) for side in (0, 1)]
        assert run.held[number - filling] == sum(map(len, windows_now))
        other = windows_now[1 - arrivals.sides[number]]
        other = other[arrivals.keys[other] == arrivals.keys[number]]
        distance = 1.0
        for candidate in other:
            for difference in arrivals.attributes[candidate] - arrivals.attributes[number]:
                distance = float(np.sqrt(SMOOTHING * distance + difference**2))
            matches += distance <= CLOSE
    assert run.matches == matches > 5


@pytest.mark.slow
def test_tuples_are_served_one_after_the_other_and_not_before_they_arrive() -> None:
    arrivals = JoinArrivals.at(poisson_times(3000, 3), 4)
    run = measured_run(arrivals, TimeWindows((100, 100)), 3e-6)
    assert (run.waits_s >= 0).all() and (run.services_s > 0).all()
    free_s, busy = run.ends_s[:-1], run.ends_s[:-1] >= run.arrivals_s[1:]
    assert busy.any() and not busy.all()
    assert (run.starts_s[1:][busy] == free_s[busy]).all()
    # an idle join is late by the time between two readings of the clock, or by a stall that was noted
    late_s = run.waits_s[1:][~busy]
    noted_s = run.stalls[:, 1].max(initial=0.0)
    assert late_s.max() <= max(1e-6, noted_s)


def drawn(times: np.ndarray, services_s: np.ndarray) -> JoinRun:
    """A run as it would be if the join were a queue of independent services, without a clock."""
    waits_s, count = waits_of(times, services_s), len(times)
    starts_s = times + waits_s
    held = np.full(count, 4001)
    sides = np.zeros(count, np.int64)
    return JoinRun(times, starts_s, starts_s + services_s, sides, held, 0, np.empty((0, 2)))


def drawn_runs(utilisation: float, name: str = "equal windows") -> Repeated:
    runs = []
    for seed in (1, 2, 3):
        services_s = np.random.default_rng(seed).normal(20e-6, 1e-6, 20_000)
        runs.append(drawn(20e-6 / utilisation * poisson_times(20_000, seed), services_s))
    return Repeated(NominalJoin(name, TimeWindows((2000, 2000)), utilisation), tuple(runs))


@pytest.mark.slow
def test_runs_are_compared_with_the_queue_of_their_own_services(tmp_path: Path) -> None:
    study = Study("any", tmp_path, lambda what: None)
    good = drawn_runs(0.8)
    compare_with_theory(study, [good])
    assert study.ok, [check for check in study.checks if not check.ok]
    assert len(study.figures) == 2 and all(figure.stat().st_size > 1000 for figure in study.figures)
    assert (tmp_path / "join-measured.csv").read_text().count("\n") == 2
    names = [check.name.split(": ")[1] for check in study.checks]
    # tuples that wait a fifth longer than they should, the same services and half as many tuples in windows
    later = [replace(run, starts_s=run.arrivals_s + 1.2 * run.waits_s) for run in good.runs]
    later = [replace(run, ends_s=run.starts_s + good.runs[0].services_s, held=run.held // 2) for run in later]
    bad = Study("any", tmp_path, lambda what: None)
    compare_with_theory(bad, [replace(good, runs=tuple(later))])
    failed = [name for name, check in zip(names, bad.checks, strict=True) if not check.ok]
    assert {"mean wait (us), measured", "tuples in windows, measured"} <= set(failed)


def test_shares_of_time_add_up_to_the_mean_of_littles_law() -> None:
    run = drawn_runs(0.8).runs[0]
    counts = count_distribution(run)
    expected = run.rate * float((run.waits_s + run.services_s).mean())
    assert counts.sum() == pytest.approx(1.0)
    assert counts @ np.arange(len(counts)) == pytest.approx(expected, rel=0.01)
    assert counts[0] == pytest.approx(1 - run.utilisation, abs=0.01)


@pytest.mark.slow
def test_a_recursion_with_services_in_another_order_knows_bursts_and_stalls(tmp_path: Path) -> None:
    generator = np.random.default_rng(6)
    # ten at a time
    times = np.repeat(np.cumsum(generator.exponential(10.0, 2000)), 10) * 40e-6
    runs = tuple(drawn(times, generator.uniform(15e-6, 25e-6, len(times))) for _ in range(3))
    found = Repeated(NominalJoin("bursts", RowWindows((2000, 2000)), 0.5), runs)
    study = Study("any", tmp_path, lambda what: None)
    compare_recorded(study, [found])
    assert study.ok and len(study.checks) == 6
    assert shuffled_waits(runs[0]).mean() == pytest.approx(runs[0].waits_s.mean(), rel=0.05)
    # a stall of the length of the run is another tuple before all others
    stalled = replace(runs[0], stalls=np.array([[0.0, 1.0]]))
    assert shuffled_waits(stalled).mean() > 0.3


def test_stretches_of_a_trace_are_in_it_and_differ(tmp_path: Path) -> None:
    trace = tmp_path / "times.csv"
    trace.write_text("arrival_us\n" + "\n".join(str(10 * n * n) for n in range(3000)))
    stretch = recorded_times(trace)
    one, other = stretch(500, 1), stretch(500, 2)
    assert len(one) == len(other) == 500 and one[0] != other[0]
    with pytest.raises(Exception, match="at least 4000 are needed"):
        stretch(4000, 1)


@pytest.mark.slow
def test_a_case_is_calibrated_and_run_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    # whatever else the machine does meanwhile
    monkeypatch.setattr(join_runs, "calibrated", lambda windows, times, seed: 20e-6)
    monkeypatch.setattr(join_runs, "_MOST_PAUSES", 1)
    monkeypatch.setattr(join_runs, "STEADY", 1e9)
    monkeypatch.setattr(join_runs, "MOST_LOST_S", 1e9)
    monkeypatch.setattr(join_runs, "MOST_SLOWER", 1e9)
    case = NominalJoin("small", RowWindows((500, 500)), 0.5)
    found = join_runs.repeated(case, poisson_times, run_s=0.05)
    assert len(found.runs) == 5 and found.discarded == 0
    assert all(run.rate == pytest.approx(0.5 / 20e-6, rel=0.1) for run in found.runs)
    assert all((run.held == 1000).all() for run in found.runs)


def test_a_run_is_disturbed_by_interruptions_that_come_together_and_by_a_slow_phase() -> None:
    run = drawn_runs(0.8).runs[0]
    quiet = replace(run, held=np.full(len(run.held), 4000))
    assert is_quiet(quiet)
    # theory knows a single stall
    assert is_quiet(replace(quiet, stalls=np.array([[0.1, 5e-3]])))
    assert not is_quiet(replace(quiet, stalls=np.array([[0.1, 5e-3], [0.107, 2e-3]])))
    tenth = len(quiet.ends_s) // 10
    slow_s = quiet.services_s * np.where(np.arange(len(quiet.ends_s)) // tenth == 4, 1.1, 1.0)
    assert not is_quiet(replace(quiet, ends_s=quiet.starts_s + slow_s))
