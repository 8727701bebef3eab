"""Drop boxes under time windows against a general-purpose solver."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.planning.join_order import naive
from tests.planning.join_order.examples import chain_of, example_1

from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order.problem import JoinInput, JoinPredicate, JoinProblem, WindowSeconds
from headgate.planning.join_order.search import exhaustive_search, heuristic_search, left_deep_plans


def random_problem(seed: int, row_share: float) -> JoinProblem:
    rng = np.random.default_rng(seed)
    names = [f"S{i}" for i in range(int(rng.integers(2, 5)))]
    seconds = WindowSeconds(probe_seconds=1e-3)

    def window() -> RowWindow | TimeWindow:
        if rng.random() < row_share:
            return RowWindow(int(rng.integers(1, 50)))
        return TimeWindow(int(rng.integers(1, 3000)) * 1000)

    return JoinProblem(
        "q",
        tuple(
            JoinInput(n, n, rng.uniform(10, 1000), window(), 1.0, float(rng.choice([0, 1e-3])), seconds)
            for n in names
        ),
        tuple(
            JoinPredicate(f"{a}{b}", frozenset({a, b}), rng.uniform(0.001, 0.1)) for a, b in pairwise(names)
        ),
        seconds,
    )


def solved(problem: JoinProblem, plan: object, capacity: float) -> float:
    """The most output that SLSQP finds from several starts, over logarithms of shares."""
    streams, best = problem.streams, 0.0

    def at(y: np.ndarray) -> tuple[float, float]:
        return naive.evaluate(problem, plan, dict(zip(streams, np.exp(y), strict=True)))

    for start in (-0.1, -0.7, -2.0):
        found = minimize(
            lambda y: -np.log(at(y)[0]),
            np.full(len(streams), start),
            bounds=[(-27, 0)] * len(streams),
            constraints={"type": "ineq", "fun": lambda y: 1 - at(y)[1] / capacity},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-12},
        )
        output, cost = at(found.x)
        if cost <= capacity * (1 + 1e-8):
            best = max(best, output)
    return best


def nested(problem: JoinProblem, order: list[str]) -> object:
    plan: object = order[0]
    for alias in order[1:]:
        plan = (plan, alias)
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("row_share", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_as_good_as_a_solver_finds(seed: int, row_share: float) -> None:
    problem = random_problem(seed, row_share)
    for share in (0.5, 0.05):
        capacity = share * heuristic_search(problem, 1e12).cost_per_s
        for candidate in exhaustive_search(problem, left_deep_plans(problem), capacity)[:2]:
            best = solved(problem, nested(problem, candidate.order), capacity)
            assert candidate.output_per_s >= best * (1 - 1e-5)
            output, cost = naive.evaluate(problem, nested(problem, candidate.order), dict(candidate.keep))
            assert candidate.output_per_s == pytest.approx(output, rel=1e-9)
            assert cost <= capacity * (1 + 1e-9)


def test_streams_that_are_shed_cause_the_same_cost() -> None:
    problem = chain_of(2, TimeWindow(1_000_000))
    found = heuristic_search(problem, heuristic_search(problem, 1e12).cost_per_s / 10)
    kept = {s: i.tuples_per_s * found.keep[s] for s, i in zip(problem.streams, problem.inputs, strict=True)}
    shed = [kept[s] for s, share in found.keep.items() if share < 1]
    assert shed == pytest.approx([shed[0]] * len(shed), rel=1e-5)


def test_the_heuristic_is_exact_under_time_windows_too_when_a_plan_fits() -> None:
    problem = example_1(0.001, TimeWindow(1_000_000))
    best = exhaustive_search(problem, left_deep_plans(problem), 1e9)[0]
    assert str(heuristic_search(problem, best.cost_per_s * 1.01)) == str(best)


@pytest.mark.slow
def test_the_heuristic_is_near_the_best_when_nothing_fits() -> None:
    ratios = []
    for seed in range(12):
        problem = random_problem(seed, 0.0)
        capacity = 0.3 * heuristic_search(problem, 1e12).cost_per_s
        best = exhaustive_search(problem, left_deep_plans(problem), capacity)[0]
        ratios.append(heuristic_search(problem, capacity).output_per_s / best.output_per_s)
    assert max(ratios) <= 1 + 1e-6 and np.mean(ratios) > 0.98
