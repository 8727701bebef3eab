"""Latencies of tuples from the ticks of a run, and percentiles beside predicted ones."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.experiments import percentiles
from headgate.experiments.percentiles import (
    CommittedTick,
    Percentiles,
    compare,
    profiled_near,
    tuple_latencies,
)
from headgate.experiments.study import Study
from headgate.model.profile import TickCosts
from headgate.queueing.service_times import ParameterError

_START_S = 1_800_000_000.0


def _ticks(offsets_s: np.ndarray, ends_s: list[float]) -> list[CommittedTick]:
    """Ticks that begin when the one before ends, and take in what has arrived by then."""
    found, taken = [], 0
    for begin_s, end_s in zip([0.0, *ends_s[:-1]], ends_s, strict=True):
        upto = int(np.searchsorted(offsets_s, begin_s, side="right"))
        if upto > taken:
            found.append(CommittedTick(upto - taken, _START_S + offsets_s[upto - 1], _START_S + end_s))
        taken = upto
    return found


def test_a_tuple_waits_for_the_end_of_the_tick_after_the_one_in_which_it_arrives() -> None:
    offsets_s = np.array([0.5, 1.25, 1.5, 2.5, 3.5])
    ticks = _ticks(offsets_s, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(tuple_latencies(offsets_s, ticks, 0.0), [1.5, 1.75, 1.5, 1.5], atol=1e-6)


def test_tuples_before_the_run_has_settled_do_not_count() -> None:
    offsets_s = np.array([0.5, 1.25, 1.5, 2.5, 3.5])
    ticks = _ticks(offsets_s, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(tuple_latencies(offsets_s, ticks, 1.3), [1.5, 1.5], atol=1e-6)


@given(
    st.lists(st.floats(0.01, 30.0), min_size=2, max_size=60, unique=True),
    st.lists(st.floats(0.2, 3.0), min_size=15, max_size=30),
)
def test_latencies_are_those_of_each_tuple_by_itself(arrivals_s: list[float], lengths_s: list[float]) -> None:
    offsets_s = np.sort(np.array(arrivals_s))
    ends_s = np.cumsum(lengths_s).tolist()
    ticks = _ticks(offsets_s, ends_s)
    if not ticks:
        return
    begins_s = [0.0, *ends_s]
    expected = []
    for at_s in offsets_s[: sum(tick.tuples for tick in ticks[:-1])]:
        following = next(k for k, begin_s in enumerate(begins_s) if begin_s >= at_s)
        expected.append(ends_s[following] - at_s)
    np.testing.assert_allclose(tuple_latencies(offsets_s, ticks, 0.0), expected, atol=1e-5)


@pytest.mark.parametrize(("fits", "rates"), [(1e9, [40, 90]), (80, [40, 90, 60])])
def test_a_profile_is_made_near_the_load_and_not_where_ticks_fall_behind(
    monkeypatch: pytest.MonkeyPatch, fits: float, rates: list[float]
) -> None:
    asked = []

    def at(rate: float) -> Any:
        return SimpleNamespace(rates={"packets": rate}), TickCosts(0.1, 0.0, 0.5)

    def profile_at(rate: float) -> Any:
        asked.append(rate)
        if rate > fits:
            raise ParameterError("operator q.select_a has no profile")
        return at(rate)

    # each profile finds the load at 90, but the first ones are too far away to be trusted; one at 60 is right
    def factor_at(utilisation: float, plan: Any, model: Any) -> float:
        rate = plan.rates["packets"]
        return 1.0 if rate == pytest.approx(60) else 90 / rate

    monkeypatch.setattr(percentiles, "factor_at", factor_at)
    plan, _ = profiled_near(profile_at, at(10), 0.9)
    assert np.allclose(asked, rates) and plan.rates["packets"] == pytest.approx(rates[-1])


def test_the_error_is_a_share_of_what_was_measured() -> None:
    found = Percentiles({0.5: 0.8, 0.99: 3.0}, {0.5: 1.0, 0.99: 2.0})
    assert found.error(0.5) == pytest.approx(0.2)
    assert found.error(0.99) == pytest.approx(0.5)
    assert found.row["p99 predicted (s)"] == 3.0


def checked(tmp_path: Path, *errors: float) -> list[bool]:
    """Whether the checks hold of queries whose p99 are off by so much in light load, and by nothing else."""
    exact = Percentiles(dict.fromkeys((0.5, 0.9, 0.99), 1.0), dict.fromkeys((0.5, 0.9, 0.99), 1.0))
    queries = {
        f"q{number}": {
            "light load": [Percentiles({0.5: 1.0, 0.9: 1.0, 0.99: 1.0 + error}, exact.measured_s)] * 3,
            "utilisation 0.9": [exact] * 3,
        }
        for number, error in enumerate(errors)
    }
    study = compare(Study("percentiles", tmp_path, lambda text: None), queries)
    assert len(study.tables["percentiles of all runs"]) == 6 * len(errors)
    return [check.ok for check in study.checks]


@pytest.mark.slow
def test_the_median_of_all_queries_counts_for_each_load(tmp_path: Path) -> None:
    assert checked(tmp_path, 0.1, 0.15, 0.5) == [True, True]
    assert checked(tmp_path, 0.1, 0.25, -0.5) == [False, True]
    assert checked(tmp_path, math.inf, 0.1, math.inf) == [False, True], "more arrives than fits"
