"""Several queries, one capacity: against every combination of plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.join_order import naive
from tests.planning.join_order.examples import chain_of, example_1

from headgate.errors import SetupError
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order.choose import choose
from headgate.planning.join_order.problem import NO_TIME, JoinProblem
from headgate.planning.join_order.search import exhaustive_search, left_deep_plans


def renamed(problem: JoinProblem, query: str, weight: float) -> JoinProblem:
    return JoinProblem(
        query, problem.inputs, problem.predicates, problem.between, problem.result_seconds, weight=weight
    )


def best_of_all(problems: list[JoinProblem], capacity: float) -> float:
    """The most weighted output over all combinations of plans, each with the best boxes at its streams."""
    streams = sorted({s for p in problems for s in p.streams})
    best = 0.0
    for plans in product(*(list(naive.left_deep(p.aliases)) for p in problems)):
        gains, costs = np.zeros(len(streams)), np.zeros(len(streams))
        for problem, plan in zip(problems, plans, strict=True):
            for at, unit in enumerate(streams):
                output, cost = naive.evaluate(problem, plan, {s: float(s == unit) for s in streams})
                gains[at] += problem.weight * output
                costs[at] += cost
        best = max(best, gains @ naive.best_corner(gains, costs, capacity))
    return best


@given(naive.problems(3), naive.problems(3), st.floats(0.1, 10), st.floats(0.02, 1.5))
@settings(max_examples=15, deadline=None)
def test_two_queries_share_a_capacity_as_well_as_any_two_plans_can(
    first: JoinProblem, second: JoinProblem, weight: float, share: float
) -> None:
    problems = [renamed(first, "q", 1.0), renamed(second, "r", weight)]
    cheapest = [exhaustive_search(p, left_deep_plans(p), 1e12)[0].cost_per_s for p in problems]
    capacity = share * sum(cheapest)
    decision = choose(problems, capacity)
    chosen = [d.chosen for d in decision.queries.values()]
    assert sum(c.shed_cost_per_s for c in chosen) <= capacity * (1 + 1e-9)
    output = sum(c.output_per_s * p.weight for c, p in zip(chosen, problems, strict=True))
    if share < 1:
        assert output == pytest.approx(best_of_all(problems, capacity), rel=1e-7)
    for stream, kept in decision.keep.items():
        assert all(c.keep[stream] == kept for c in chosen if stream in c.keep)
    assert decision.is_feasible == (sum(cheapest) < capacity)


def test_many_plans_are_improved_one_query_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [renamed(example_1(0.014), "q", 1.0), renamed(example_1(0.004), "r", 2.0)]
    exact = choose(problems, 1.0)
    monkeypatch.setattr("headgate.planning.join_order.choose._MOST_COMBINATIONS", 1)
    climbed = choose(problems, 1.0)
    outputs = [
        sum(d.chosen.output_per_s * d.chosen.problem.weight for d in decision.queries.values())
        for decision in (exact, climbed)
    ]
    assert 0.99 * outputs[0] <= outputs[1] <= outputs[0] * (1 + 1e-9)


def test_queries_under_time_windows_share_a_capacity_too() -> None:
    problems = [renamed(chain_of(n, TimeWindow(500_000)), f"q{n}", 1.0) for n in (2, 3)]
    whole = sum(d.chosen.cost_per_s for d in choose(problems, 1e9).queries.values())
    decision = choose(problems, whole / 3)
    kept = sum(d.chosen.shed_cost_per_s for d in decision.queries.values())
    assert kept == pytest.approx(whole / 3, rel=1e-4)


def test_one_query_decides_alone() -> None:
    decision = choose([example_1(0.014)], 1.0)
    assert str(decision.queries["q"].chosen) == "(A, C), B"
    assert decision.keep["B"] == 1.0 and not decision.is_feasible


def test_many_streams_are_left_to_the_heuristic_and_the_reason_says_so() -> None:
    decision = choose([chain_of(10, RowWindow(50))], 1.0)
    assert "10 streams are too many to try all plans, so a heuristic found it" in decision.queries["q"].why


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("nan"), float("inf")])
def test_a_capacity_that_runs_nothing_is_refused(capacity: float) -> None:
    with pytest.raises(SetupError, match="is out of range"):
        choose([example_1(0.001)], capacity)


@given(naive.problems(4), st.floats(0.05, 1.5))
@settings(max_examples=20, deadline=None)
def test_a_query_that_shares_its_join_goes_along_for_nothing(problem: JoinProblem, share: float) -> None:
    cost = exhaustive_search(problem, left_deep_plans(problem), 1e12)[0].cost_per_s
    free = tuple(replace(i, select_seconds=0.0, window_seconds=NO_TIME) for i in problem.inputs)
    sharer = replace(
        problem, query="r", inputs=free, between=NO_TIME, result_seconds=0.0, shares_with=problem.query
    )
    alone = choose([problem], share * cost).queries[problem.query].chosen
    both = choose([problem, sharer], share * cost).queries
    assert both["r"].chosen.order == both[problem.query].chosen.order
    assert both["r"].chosen.cost_per_s == 0
    for decision in both.values():
        assert decision.chosen.output_per_s == pytest.approx(alone.output_per_s, rel=1e-6)
    assert "shares the join" in both["r"].why
