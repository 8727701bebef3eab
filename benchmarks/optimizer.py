"""How long the join optimiser takes: no JVM, one processor."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

from headgate.experiments.optimizer import LEVELS, gains_and_errors
from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order.problem import JoinInput, JoinPredicate, JoinProblem, WindowSeconds
from headgate.planning.join_order.search import (
    all_plans,
    exhaustive_search,
    heuristic_search,
    left_deep_plans,
)

QUERIES = 1000
ROWS, TIME = RowWindow(100), TimeWindow(100_000)


def chain(streams: int, window: RowWindow | TimeWindow) -> JoinProblem:
    """Streams in a row, each joined with the next."""
    names = [f"S{i}" for i in range(streams)]
    seconds = WindowSeconds(probe_seconds=0.001)
    inputs = (
        JoinInput(name, name, 10.0 + 97 * i * i % 990, window, window_seconds=seconds)
        for i, name in enumerate(names)
    )
    predicates = (
        JoinPredicate(f"{a}{b}", frozenset({a, b}), 0.001 * (1 + i % 7))
        for i, (a, b) in enumerate(pairwise(names))
    )
    return JoinProblem("q", tuple(inputs), tuple(predicates), seconds)


def timed(what: str, run: Callable[[], object], times: int = 3) -> None:
    """Print the best of some runs."""
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    print(f"{what:72} {best:8.3f} s", flush=True)


def main() -> None:
    """Every case with room to spare and with a third of the processors it needs."""
    what = f"{QUERIES} queries, {len(LEVELS)} levels, exhaustive and heuristic"
    timed(what, lambda: gains_and_errors(QUERIES, 1), 1)
    for streams, window in ((12, ROWS), (8, TIME), (12, TIME)):
        problem = chain(streams, window)
        load = heuristic_search(problem, float("inf")).cost_per_s
        for what, capacity in (("fits", 2 * load), ("shed", load / 3)):
            timed(
                f"heuristic, {streams} streams {window}, {what}",
                lambda problem=problem, capacity=capacity: heuristic_search(problem, capacity),  # type: ignore[misc]
                1 if window is TIME else 3,
            )
    for streams, window in ((8, ROWS), (6, TIME)):
        problem = chain(streams, window)
        load = heuristic_search(problem, float("inf")).cost_per_s
        plans = left_deep_plans(problem)
        what = f"exhaustive, {streams} streams {window}, {len(plans)} left-deep plans, shed"
        timed(what, lambda p=problem, plans=plans, c=load / 3: exhaustive_search(p, plans, c))  # type: ignore[misc]
    problem = chain(7, ROWS)
    plans = all_plans(problem)
    timed(
        f"exhaustive, 7 streams {ROWS}, {len(plans)} plans of all shapes, shed",
        lambda: exhaustive_search(problem, plans, heuristic_search(problem, float("inf")).cost_per_s / 3),
    )


if __name__ == "__main__":
    main()
