"""Example 1 and figure 6, number by number."""

from __future__ import annotations

import pytest
from tests.planning.join_order.examples import example_1

from headgate.planning.join_order.search import (
    Candidate,
    exhaustive_search,
    heuristic_search,
    left_deep_plans,
)

AB, BC, AC = "(A, B), C", "(B, C), A", "(A, C), B"


def candidates(milliseconds: float) -> dict[str, Candidate]:
    problem = example_1(milliseconds / 1000)
    return {str(c): c for c in exhaustive_search(problem, left_deep_plans(problem), 1.0)}


@pytest.mark.parametrize(
    ("milliseconds", "utilisation"),
    [
        (1000, {AB: 500, BC: 280, AC: 400}),
        (0.5, {AB: 0.25, BC: 0.14, AC: 0.2}),
        (3, {AB: 1.5, BC: 0.84, AC: 1.2}),
    ],
)
def test_the_three_plans_take_what_the_example_says(
    milliseconds: float, utilisation: dict[str, float]
) -> None:
    found = candidates(milliseconds)
    assert {name: c.cost_per_s for name, c in found.items()} == pytest.approx(utilisation, rel=1e-12)


def test_every_feasible_plan_gives_a_thousand_a_second() -> None:
    assert [c.output_per_s for c in candidates(0.5).values()] == [1000.0] * 3
    assert [c.is_feasible for c in candidates(3).values()] == [True, False, False]


@pytest.mark.parametrize(
    ("milliseconds", "best"), [(0.5, BC), (3, BC), (4, BC), (4.5, AC), (5, AC), (14, AC), (17, AC), (40, AC)]
)
def test_the_chosen_plan_changes_between_4_and_4_5_ms(milliseconds: float, best: str) -> None:
    assert next(iter(candidates(milliseconds))) == best
    assert str(heuristic_search(example_1(milliseconds / 1000), 1.0)) == best


def test_throughput_at_14_ms_is_701_against_305() -> None:
    found = candidates(14)
    assert round(found[AC].output_per_s) == 701 and round(found[BC].output_per_s) == 305


def test_the_cheapest_plan_is_the_worst_to_shed_from_beyond_17_ms() -> None:
    at_16, at_17 = candidates(16), candidates(17)
    assert at_16[BC].output_per_s > at_16[AB].output_per_s
    assert at_17[BC].output_per_s < at_17[AB].output_per_s


def test_all_plans_give_a_hundred_a_second_at_100_ms() -> None:
    found = candidates(100)
    assert [c.output_per_s for c in found.values()] == pytest.approx([100.0] * 3)
    assert str(next(iter(found.values()))) == BC, "of equals, one without cross products, and the cheapest"


def test_what_is_kept_uses_the_capacity_and_no_more() -> None:
    for milliseconds in (4, 14, 100):
        for candidate in candidates(milliseconds).values():
            assert candidate.shed_cost_per_s == pytest.approx(1.0, rel=1e-12)
            assert all(0 <= share <= 1 for share in candidate.keep.values())
