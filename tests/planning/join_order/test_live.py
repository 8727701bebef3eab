"""Choosing anew while figures drift."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from tests.planning.join_order.examples import example_1

from headgate.errors import SetupError
from headgate.model.shedding import BITS, DropBox, TickSettings
from headgate.planning.join_order.choose import Decision, Reoptimizer
from headgate.planning.join_order.problem import JoinProblem


def with_selectivities(problem: JoinProblem, *selectivities: float) -> JoinProblem:
    pairs = zip(problem.predicates, selectivities, strict=True)
    return replace(problem, predicates=tuple(replace(p, selectivity=f) for p, f in pairs))


def with_rates(problem: JoinProblem, factor: float) -> JoinProblem:
    inputs = tuple(replace(i, tuples_per_s=i.tuples_per_s * factor) for i in problem.inputs)
    return replace(problem, inputs=inputs)


class Change(NamedTuple):
    look: int
    reason: str
    after: Decision


def changes(watch: Reoptimizer, problems: list[JoinProblem]) -> list[Change]:
    looks = ((n, watch.look([problem])) for n, problem in enumerate(problems))
    return [Change(n, reason, watch.decision) for n, reason in looks if reason]


def test_swapped_selectivities_change_the_plan_within_five_looks() -> None:
    before = example_1(0.0005)
    watch = Reoptimizer([before], 1.0)
    assert str(watch.decision.queries["q"].chosen) == "(B, C), A"
    swapped = with_selectivities(before, 0.05, 0.9)
    [change] = changes(watch, [before] * 3 + [swapped] * 10)
    assert change.look - 3 < 5
    assert str(change.after.queries["q"].chosen) == "(A, B), C"
    assert change.reason == "the selectivity of A.a = B.a went from 0.5 to 0.05"
    assert change.after.is_feasible and set(change.after.keep.values()) == {1.0}


def test_noise_below_the_threshold_changes_nothing() -> None:
    rng = np.random.default_rng(5)
    problem = example_1(0.0005)
    watch = Reoptimizer([problem], 1.0)
    assert changes(watch, [with_rates(problem, f) for f in rng.uniform(0.85, 1.15, 200)]) == []


def test_one_look_is_not_enough() -> None:
    problem = example_1(0.0005)
    watch = Reoptimizer([problem], 1.0)
    assert changes(watch, [problem, with_rates(problem, 9.0), problem, with_rates(problem, 9.0)] * 3) == []


def test_boxes_close_above_the_capacity_and_open_below_nine_tenths_of_it() -> None:
    problem = example_1(0.0035)
    watch = Reoptimizer([with_rates(problem, 0.8)], 1.0)
    assert watch.decision.is_feasible
    rates = [0.8, 1.1, 1.1, 1.1, 0.97, 0.97, 0.97, 0.7, 0.7, 0.7]
    found = changes(watch, [with_rates(problem, f) for f in rates])
    assert [change.look for change in found] == [2, 8]
    closing, opening = found
    assert "is above the capacity" in closing.reason and min(closing.after.keep.values()) < 1
    assert "is below 0.9 of the capacity" in opening.reason and opening.after.is_feasible


def test_boxes_follow_a_capacity_that_turns_out_smaller() -> None:
    problem = example_1(0.007)
    watch = Reoptimizer([problem], 1.0)
    assert not watch.decision.is_feasible
    before = sum(watch.decision.keep.values())
    watch.capacity = 0.6
    [change] = changes(watch, [problem] * 5)
    assert change.look == 1 and change.reason == "the capacity went from 1 to 0.6"
    assert sum(change.after.keep.values()) < before


def test_load_around_the_capacity_does_not_make_it_waver() -> None:
    problem = example_1(1 / 280)
    watch = Reoptimizer([with_rates(problem, 0.95)], 1.0)
    wavering = [with_rates(problem, 1 + 0.04 * (-1) ** (n // 3)) for n in range(120)]
    assert len(changes(watch, wavering)) <= 1


def test_a_change_that_gains_little_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.planning.join_order.choose._DRIFT", 0.01)
    problem = example_1(0.0005)
    watch = Reoptimizer([problem], 1.0)
    # (A, C), B would still be the dearer one
    assert changes(watch, [with_selectivities(problem, 0.5, 0.25)] * 5) == []


def test_boxes_with_one_seed_keep_parts_of_each_other() -> None:
    small, large = DropBox("s", 0.25, 7), DropBox("s", 0.5, 7)
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 20_000).tolist()

    def kept_by(box: DropBox) -> set[int]:
        return {h for h in hashes if h % 2**BITS < box.threshold}

    assert kept_by(small) < kept_by(large)
    assert len(kept_by(small)) / len(hashes) == pytest.approx(0.25, abs=0.01)
    assert not kept_by(DropBox("s", 0.0)) and kept_by(DropBox("s", 1.0)) == set(hashes)


def test_there_are_boxes_where_something_is_dropped() -> None:
    assert TickSettings({"a": 1.0, "b": 0.5}, 3).boxes() == {"b": DropBox("b", 0.5, 3)}
    with pytest.raises(SetupError, match=r"keeps 1\.5; write a share from 0 to 1"):
        DropBox("b", 1.5)
