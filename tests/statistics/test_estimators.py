"""Every estimator passes the same checks; the subclasses of ``DecayedRatio`` are found by themselves."""

from __future__ import annotations

import importlib
import math
import pkgutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate.statistics
from headgate.statistics.estimators import DecayedRatio, MatchRatio, ResultRatio


def all_below(kind: Any) -> list[type[DecayedRatio]]:
    return [found for below in kind.__subclasses__() for found in (below, *all_below(below))]


for module in pkgutil.iter_modules(headgate.statistics.__path__, "headgate.statistics."):
    importlib.import_module(module.name)
ESTIMATORS = [DecayedRatio, *all_below(DecayedRatio)]
# large enough to be believed by those that wait for evidence
PER = st.floats(1e3, 1e6)
RATIO = st.floats(0.01, 1.0)
every_estimator = pytest.mark.parametrize("kind", ESTIMATORS)


def test_estimators_are_found() -> None:
    assert {DecayedRatio, MatchRatio, ResultRatio} == set(ESTIMATORS)


@every_estimator
def test_before_any_observation_the_value_is_a_number(kind: type[DecayedRatio]) -> None:
    assert math.isfinite(kind().value) and kind().value >= 0


@every_estimator
@given(ratio=RATIO, per=PER, number=st.integers(1, 20))
def test_equal_observations_are_the_value(
    kind: type[DecayedRatio], ratio: float, per: float, number: int
) -> None:
    estimator = kind()
    for _ in range(number):
        estimator.add(ratio * per, per)
    assert estimator.value == pytest.approx(ratio)


@every_estimator
@given(old=RATIO, new=RATIO, per=PER)
def test_newer_observations_replace_older_ones(
    kind: type[DecayedRatio], old: float, new: float, per: float
) -> None:
    estimator = kind()
    for ratio in (*[old] * 10, *[new] * 60):
        estimator.add(ratio * per, per)
    assert estimator.value == pytest.approx(new, rel=1e-3)


@every_estimator
@given(observations=st.lists(st.tuples(RATIO, PER), min_size=1, max_size=20))
def test_the_value_lies_among_the_observations(
    kind: type[DecayedRatio], observations: list[tuple[float, float]]
) -> None:
    estimator = kind()
    for ratio, per in observations:
        estimator.add(ratio * per, per)
    ratios = [ratio for ratio, _ in observations]
    assert min(ratios) * (1 - 1e-9) <= estimator.value <= max(ratios) * (1 + 1e-9)


@every_estimator
@given(ratio=RATIO, per=PER)
def test_an_observation_of_nothing_changes_nothing(
    kind: type[DecayedRatio], ratio: float, per: float
) -> None:
    estimator = kind()
    estimator.add(ratio * per, per)
    before = estimator.value
    estimator.add(0.0, 0.0)
    assert estimator.value == before


def test_a_known_ratio_counts_as_much_as_its_weight() -> None:
    ratio = DecayedRatio(memory=1.0, known=0.25, known_per=300)
    ratio.add(75, 100)
    assert ratio.value == pytest.approx(150 / 400)


def test_the_error_of_a_share_is_at_least_that_of_independent_tuples() -> None:
    even, uneven = DecayedRatio(memory=1.0), DecayedRatio(memory=1.0)
    for number in range(100):
        even.add(50, 100)
        uneven.add(100 * (number % 2), 100)
    assert even.error == pytest.approx(math.sqrt(0.25 / 10_000), rel=1e-3)
    assert uneven.error == pytest.approx(0.5 / 10, rel=0.01)


def test_that_no_tuple_has_passed_does_not_show_that_none_will() -> None:
    none, every = DecayedRatio(memory=1.0), DecayedRatio(memory=1.0)
    none.add(0, 1000)
    every.add(1000, 1000)
    assert none.value == 0 and every.value == 1
    # with three in a thousand, a sample without any is as rare as one in twenty
    assert 0.0005 < none.error < 0.003
    assert every.error == pytest.approx(none.error)


def test_before_any_observation_the_error_is_not_known() -> None:
    assert DecayedRatio().error == math.inf
