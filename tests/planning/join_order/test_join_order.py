"""Exhaustive search and heuristic against plans judged one by one."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.join_order import naive
from tests.planning.join_order.examples import chain_of, example_1

from headgate.errors import SetupError
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order.plans import bushy_plans, left_deep_orders
from headgate.planning.join_order.problem import (
    CROSSED_PAIR,
    JoinInput,
    JoinPredicate,
    JoinProblem,
    WindowSeconds,
)
from headgate.planning.join_order.search import (
    all_plans,
    exhaustive_search,
    heuristic_search,
    left_deep_plans,
    operators_of,
)
from headgate.planning.join_order.shed_plans import knapsack
from headgate.planning.plan_tree import Tree

shares_of_load = st.sampled_from([0.01, 0.1, 0.5, 0.9, 1.1, 10.0])


def total_cost(operator: Tree) -> float:
    """Of an operator and all below it."""
    return float(operator.values["cost_per_s"]) + sum(map(total_cost, operator.children))


def load(problem: JoinProblem) -> float:
    return heuristic_search(problem, 1e12).cost_per_s


@pytest.mark.slow
@given(naive.problems(), shares_of_load)
@settings(max_examples=30, deadline=None)
def test_exhaustive_is_brute_force_over_left_deep_plans(problem: JoinProblem, share: float) -> None:
    capacity = share * load(problem)
    best = exhaustive_search(problem, left_deep_plans(problem), capacity)[0]
    judged = [naive.judge(problem, plan, capacity) for plan in naive.left_deep(problem.aliases)]
    assert best.objective == pytest.approx(max(j.objective for j in judged), rel=1e-7)
    assert best.shed_cost_per_s <= capacity * (1 + 1e-9)


@pytest.mark.slow
@given(naive.problems(), shares_of_load)
@settings(max_examples=12, deadline=None)
def test_exhaustive_is_brute_force_over_bushy_plans(problem: JoinProblem, share: float) -> None:
    capacity = share * load(problem)
    best = exhaustive_search(problem, all_plans(problem), capacity)[0]
    judged = [naive.judge(problem, plan, capacity) for plan in naive.bushy(problem.aliases)]
    assert best.objective == pytest.approx(max(j.objective for j in judged), rel=1e-7)


@given(naive.problems(5), st.floats(1.001, 10))
@settings(max_examples=30, deadline=None)
def test_the_heuristic_is_exact_when_a_left_deep_plan_fits(problem: JoinProblem, spare: float) -> None:
    cheapest = exhaustive_search(problem, left_deep_plans(problem), 1e12)[0]
    capacity = spare * cheapest.cost_per_s
    found = heuristic_search(problem, capacity)
    best = exhaustive_search(problem, left_deep_plans(problem), capacity)[0]
    assert found.is_feasible and best.is_feasible
    assert found.objective == pytest.approx(best.objective, rel=1e-9)
    assert set(found.keep.values()) == {1.0}


@given(naive.problems(5), shares_of_load)
@settings(max_examples=25, deadline=None)
def test_the_heuristic_is_never_above_the_best_and_fits(problem: JoinProblem, share: float) -> None:
    capacity = share * load(problem)
    found = heuristic_search(problem, capacity)
    best = exhaustive_search(problem, left_deep_plans(problem), capacity)[0]
    assert found.shed_cost_per_s <= capacity * (1 + 1e-9)
    assert found.objective <= best.objective * (1 + 1e-9)


numbers = st.floats(0.001, 1000)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8), st.floats(0.01, 1.5))
@settings(max_examples=50, deadline=None)
def test_the_knapsack_is_the_optimum_of_the_linear_program(
    items: list[tuple[float, float]], share: float
) -> None:
    gains, costs = np.array(items).T
    capacity = share * costs.sum()
    taken = knapsack(gains, costs, np.array(capacity))
    assert gains @ taken == pytest.approx(gains @ naive.best_corner(gains, costs, capacity), rel=1e-9)
    assert costs @ taken <= capacity * (1 + 1e-12) and ((taken >= 0) & (taken <= 1)).all()


def test_what_costs_nothing_is_kept() -> None:
    assert knapsack(np.array([1.0, 0.0, 5.0]), np.array([0.0, 0.0, 1.0]), np.array(0.5)).tolist() == [
        1,
        1,
        0.5,
    ]


def test_there_are_as_many_plans_as_there_should_be() -> None:
    assert [len(left_deep_orders(n)) for n in range(1, 7)] == [1, 1, 3, 12, 60, 360]
    assert [len(bushy_plans(n)) for n in range(1, 7)] == [1, 1, 3, 15, 105, 945]


def test_a_bushy_plan_is_chosen_where_it_is_cheaper() -> None:
    chain = chain_of(4, RowWindow(100))
    joins = {("S0", "S1"): 1e-4, ("S1", "S2"): 0.5, ("S2", "S3"): 1e-4}
    problem = JoinProblem(
        "q",
        chain.inputs,
        tuple(JoinPredicate(str(k), frozenset(k), f) for k, f in joins.items()),
        chain.between,
    )
    [left_deep, *_] = exhaustive_search(problem, left_deep_plans(problem), 1e9)
    [bushy, *_] = exhaustive_search(problem, all_plans(problem), 1e9)
    assert bushy.cost_per_s < left_deep.cost_per_s
    assert bushy.order == ("S0", "S1", ("S2", "S3"))


def test_cross_products_are_chosen_only_where_they_win() -> None:
    assert heuristic_search(example_1(0.0005), 1.0).crosses == 0
    assert heuristic_search(example_1(0.014), 1.0).crosses == 1
    unrelated = JoinProblem("q", example_1(0.001).inputs, (), example_1(0.001).between)
    assert heuristic_search(unrelated, 1e9).crosses == 2, "the join graph forces them"


def test_pairs_that_a_cross_product_compares_have_a_cost_of_their_own() -> None:
    paper = example_1(0.014)
    [crossing] = [
        c for c in exhaustive_search(paper, left_deep_plans(paper), 1.0) if c.order == ("A", "C", "B")
    ]
    dearer = replace(paper, between=replace(paper.between, pair_seconds=0.001))
    # 10 tuples of A per second meet 10 of C, and 20 of C meet 10 of A: 300 pairs
    assert crossing.under(dearer).cost_per_s == pytest.approx(crossing.cost_per_s + 300 * 0.001)
    shown = operators_of(crossing.under(dearer))
    assert total_cost(shown) == pytest.approx(crossing.under(dearer).shed_cost_per_s)
    for candidate in exhaustive_search(paper, left_deep_plans(paper), 1.0):
        if not candidate.crosses:
            assert candidate.under(dearer).cost_per_s == candidate.cost_per_s


def test_a_cross_product_is_chosen_until_its_pairs_cost_too_much() -> None:
    # a fast stream that matches nearly all of two small windows: pairs of these are few
    rates, windows = {"A": 1.0, "B": 1000.0, "C": 1.0}, {"A": 3, "B": 100, "C": 3}
    chosen = {}
    for pair_seconds in (0.0, CROSSED_PAIR, 10.0, 1000.0):
        seconds = WindowSeconds(probe_seconds=1.0, pair_seconds=pair_seconds)
        inputs = [JoinInput(a, a, rates[a], RowWindow(windows[a]), window_seconds=seconds) for a in "ABC"]
        links = (JoinPredicate("AB", frozenset("AB"), 0.9), JoinPredicate("BC", frozenset("BC"), 0.9))
        problem = JoinProblem("q", tuple(inputs), links, seconds)
        chosen[pair_seconds] = exhaustive_search(problem, left_deep_plans(problem), 1e9)[0].crosses
    assert chosen == {0.0: 1, CROSSED_PAIR: 1, 10.0: 1, 1000.0: 0}


def test_too_many_streams_to_try_all_plans_are_refused_in_one_line() -> None:
    with pytest.raises(SetupError, match="q joins 9 streams, too many to try all plans; up to 8 can be"):
        left_deep_plans(chain_of(9, RowWindow(5)))


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1e6, 8.0, 1.0])
@pytest.mark.parametrize("window", [RowWindow(100), TimeWindow(100_000)], ids=str)
def test_twelve_streams_take_less_than_a_second(capacity: float, window: RowWindow | TimeWindow) -> None:
    # of this thread, the best of three: others may keep the machine busy, and NumPy's threads wait actively
    taken = []
    for _ in range(3):
        begin = time.thread_time()
        heuristic_search(chain_of(12, window), capacity)
        taken.append(time.thread_time() - begin)
    assert min(taken) < 1


def test_a_stream_joined_with_itself_has_one_box() -> None:
    chain = chain_of(2, RowWindow(10))
    first, second = chain.inputs
    same = JoinProblem(
        "q",
        (
            first,
            JoinInput("S1", "S0", first.tuples_per_s, second.window, window_seconds=second.window_seconds),
        ),
        chain.predicates,
        chain.between,
    )
    found = heuristic_search(same, load(same) / 2)
    assert found.keep == {"S0": pytest.approx(0.5)}


def test_filters_alone_are_shed_by_one_box_before_the_first() -> None:
    only = JoinInput("A", "A", 1000.0, RowWindow(1), selectivity=0.125, select_seconds=0.0025)
    found = heuristic_search(JoinProblem("q", (only,)), 1.0)
    assert (found.cost_per_s, found.keep, found.output_per_s) == (2.5, {"A": 0.4}, 50.0)
    assert heuristic_search(JoinProblem("q", (only,)), 5.0).keep == {"A": 1.0}


def test_time_windows_hold_what_comes_in_their_time() -> None:
    timed = heuristic_search(example_1(0.0005, TimeWindow(100_000)), 1.0)
    # 1, 7 and 2 tuples: 0.1 (10 * 7 * 2 + 70 * 1 * 2 + 20 * 1 * 7)
    assert timed.output_per_s == pytest.approx(0.1 * (140 + 140 + 140))
