"""``headgate reproduce eddies``: the figures of the paper, and random plans as plain values."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headgate.experiments import eddies
from headgate.experiments.eddies import Case, CaseResult, geometric_mean, means, measure, random_network
from headgate.experiments.study import Study


def study(folder: Path) -> Study:
    return Study("eddies", folder, lambda what: None)


def test_the_analysis_holds(tmp_path: Path) -> None:
    made = study(tmp_path)
    eddies._analysis(made)
    assert [check.name for check in made.checks if not check.ok] == []
    assert len(made.checks) == 15


@pytest.mark.slow
def test_policies_on_three_selections_stand_and_collapse_as_in_the_paper(tmp_path: Path) -> None:
    made = study(tmp_path)
    eddies._s3(made)
    assert [(check.name, check.got) for check in made.checks if not check.ok] == []
    assert all(figure.stat().st_size > 1000 for figure in made.figures)


def test_a_random_network_has_the_size_it_is_asked_for() -> None:
    network = random_network(3, 2, (10, 12), 4)
    assert 20 <= len(network.operators) <= 24 and len(network.nodes) == 4
    assert random_network(3, 2, (10, 12), 4) == network != random_network(4, 2, (10, 12), 4)


def test_a_case_is_a_plain_value_and_measured_the_same_anywhere() -> None:
    case = Case(0, 1, (10, 12), 4, "wscq", True, (0.5,))
    found = measure(pickle.loads(pickle.dumps(case)))
    assert pickle.loads(pickle.dumps(found)) == measure(case)
    assert found.mdr > 0 and 0 < found.response_s[0] < 100


def test_means_are_geometric_over_runs_and_networks() -> None:
    case = Case(0, 1, (10, 12), 4, "q", False)
    found = means([CaseResult(case, (1.0, 4.0), 10.0), CaseResult(case, (2.0, 2.0), 40.0)])
    assert found == {"art": {"q": pytest.approx(2.0)}, "mdr": {"q": pytest.approx(20.0)}}
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)
