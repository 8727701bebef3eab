"""The worked example: three streams, two predicates, one cost a tuple."""

from __future__ import annotations

from itertools import pairwise

from headgate.model.window import RowWindow, TimeWindow
from headgate.planning.join_order.problem import JoinInput, JoinPredicate, JoinProblem, WindowSeconds

Window = RowWindow | TimeWindow
TEN_ROWS = RowWindow(10)


def example_1(join_seconds: float, window: Window = TEN_ROWS) -> JoinProblem:
    seconds = WindowSeconds(probe_seconds=join_seconds)
    rates = {"A": 10.0, "B": 70.0, "C": 20.0}
    return JoinProblem(
        "q",
        tuple(JoinInput(a, a, rate, window, window_seconds=seconds) for a, rate in rates.items()),
        (
            JoinPredicate("A.a = B.a", frozenset("AB"), 0.5),
            JoinPredicate("B.b = C.b", frozenset("BC"), 0.2),
        ),
        seconds,
    )


def chain_of(streams: int, window: Window, join_seconds: float = 0.001) -> JoinProblem:
    """Streams in a row, each joined with the next."""
    names = [f"S{i}" for i in range(streams)]
    seconds = WindowSeconds(probe_seconds=join_seconds)
    return JoinProblem(
        "q",
        tuple(
            JoinInput(name, name, 10.0 + 97 * i * i % 990, window, window_seconds=seconds)
            for i, name in enumerate(names)
        ),
        tuple(
            JoinPredicate(f"{a} = {b}", frozenset({a, b}), 0.001 * (1 + i % 7))
            for i, (a, b) in enumerate(pairwise(names))
        ),
        seconds,
    )
