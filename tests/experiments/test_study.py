"""What a study says of its claims."""

from math import comb
from pathlib import Path

import numpy as np
import pytest

from headgate.experiments.study import Study, mean_of_runs, share_interval


def study(**disagreements: str) -> Study:
    return Study("claims", Path(), lambda text: None, disagreements=disagreements)


def test_a_claim_that_fails_is_a_surprise() -> None:
    found = study()
    found.at_least("larger", 2, 1)
    assert [check.verdict for check in found.checks] == ["FAILED"]
    assert not found.ok


def test_a_known_disagreement_stays_in_the_report_and_is_no_surprise() -> None:
    found = study(larger="the paper counts otherwise")
    found.at_least("larger", 2, 1)
    assert [(check.verdict, check.disagreement) for check in found.checks] == [
        ("disagrees", "the paper counts otherwise")
    ]
    assert found.ok


def test_a_known_disagreement_that_holds_is_a_surprise() -> None:
    found = study(larger="the paper counts otherwise")
    found.at_least("larger", 2, 3)
    assert [check.verdict for check in found.checks] == ["HOLDS NOW"]
    assert not found.ok


def test_a_majority_must_be_clear() -> None:
    found = study()
    # two of three are no proof; two of three of sixty nearly are
    for holding, cases in ((2, 3), (8, 8), (40, 60), (41, 60)):
        found.majority(f"{holding} of {cases}", holding, cases)
    assert [check.ok for check in found.checks] == [False, True, False, True]


def test_intervals_of_shares_are_exact() -> None:
    assert share_interval(0, 5) == (0.0, pytest.approx(1 - 0.005 ** (1 / 5)))
    assert share_interval(5, 5) == (pytest.approx(0.005 ** (1 / 5)), 1.0)
    # at the lower limit, as many or more would hold with a chance of half of a percent
    low, high = share_interval(45, 60)
    assert sum(comb(60, k) * low**k * (1 - low) ** (60 - k) for k in range(45, 61)) == pytest.approx(0.005)
    assert sum(comb(60, k) * high**k * (1 - high) ** (60 - k) for k in range(46)) == pytest.approx(0.005)


def test_the_mean_of_runs_has_the_interval_of_student() -> None:
    found = mean_of_runs(np.array([1.0, 2.0, 3.0]))
    # 9.925 is the quantile of two degrees of freedom
    assert (found.mean, found.within) == (2.0, pytest.approx(9.925 / 3**0.5, rel=1e-3))
