"""``headgate reproduce queueing``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import invoke

from headgate.experiments import queueing
from headgate.experiments.queueing import JoinCase, JoinRow, compare_with_theory
from headgate.experiments.study import MeanEstimate, Study, batch_means


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tuples: intervals are wider, and whole plans are compared for form's sake."""
    monkeypatch.setattr(queueing, "_TUPLES", 60_000)
    monkeypatch.setattr(queueing, "_UNTIL_S", 40_000.0)
    monkeypatch.setattr(queueing, "_LOADS", (0.3,))


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_theory_lies_within_the_intervals_of_the_simulation_and_all_is_drawn(tmp_path: Path) -> None:
    done = invoke("reproduce", "queueing", "--out", tmp_path, "--json")
    document = json.loads(done.stdout)
    failed = [check for check in document["checks"] if not check["ok"]]
    assert [check for check in failed if not check["name"].startswith("plans")] == []
    assert done.exit_code == (1 if failed else 0)
    names = [check["name"] for check in document["checks"]]
    for windows in ("equal windows", "one window twice the other"):
        for load in ("0.2", "0.95"):
            assert f"{windows}, utilisation {load}: mean delay (s), simulation" in names
            assert f"{windows}, utilisation {load}: mean queue size, simulation" in names
    assert {Path(figure).name for figure in document["figures"]} >= {
        "delay-simulation-equal-windows.png",
        "delay-simulation-one-window-twice-the-other.png",
        "dispersion.png",
    }
    assert all(Path(figure).stat().st_size > 1000 for figure in document["figures"])
    with (tmp_path / "queueing" / "join-simulation.csv").open() as file:
        assert len(list(csv.reader(file))) == 13


def test_services_of_the_cases_are_as_in_the_paper() -> None:
    left, right = JoinCase("equal windows", 0.5).seconds
    assert left == right
    case = JoinCase("one window twice the other", 0.9)
    left, right = case.seconds
    # all but the hashing doubles
    assert 1.9 < right / left < 2
    assert case.theory.utilisation == pytest.approx(0.9)


@pytest.mark.slow
def test_rows_are_compared_with_the_theory_of_their_case(tmp_path: Path) -> None:
    case = JoinCase("equal windows", 0.5)
    theory = case.theory
    waits_s = np.array([theory.wait_percentile(p) for p in np.linspace(0.001, 0.999, 500)])
    good = JoinRow(
        case, MeanEstimate(theory.mean_wait, 0.0), MeanEstimate(theory.mean_in_queue, 0.0), waits_s
    )
    bad = JoinRow(case, MeanEstimate(2 * theory.mean_wait, 0.0), MeanEstimate(0.0, 0.0), waits_s)
    study = Study("any", tmp_path, lambda what: None)
    compare_with_theory(study, [good])
    assert study.ok and len(study.checks) == 2 and len(study.figures) == 1
    compare_with_theory(study, [bad])
    assert [check.ok for check in study.checks[2:]] == [False, False]


def test_intervals_hold_the_mean_of_independent_values() -> None:
    values = np.random.default_rng(1).exponential(3.0, 50_000)
    estimate = batch_means(values)
    assert abs(estimate.mean - 3) < estimate.within < 0.1
