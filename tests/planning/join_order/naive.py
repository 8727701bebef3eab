"""Plans judged the slow way: join by join from the formulas, boxes by trying all corners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from hypothesis import strategies as st

from headgate.model.window import RowWindow
from headgate.planning.join_order.problem import JoinInput, JoinPredicate, JoinProblem, WindowSeconds

Nested = "str | tuple[Nested, Nested]"


@dataclass(frozen=True)
class Judged:
    output: float
    cost: float
    unshed: float

    @property
    def objective(self) -> float:
        return self.output / self.cost


def judge(problem: JoinProblem, plan: Nested, capacity: float) -> Judged:
    """The plan over row windows with the best boxes; everything is linear, so one unit a stream tells all."""
    streams = problem.streams
    units = [evaluate(problem, plan, {s: float(s == unit) for s in streams}) for unit in streams]
    gains, costs = np.array(units).T
    if costs.sum() <= capacity:
        return Judged(gains.sum(), costs.sum(), costs.sum())
    best = best_corner(gains, costs, capacity)
    return Judged(gains @ best, costs @ best, costs.sum())


def best_corner(gains: np.ndarray, costs: np.ndarray, capacity: float) -> np.ndarray:
    """What to take for the largest gain: some items, and of one more what fits.

    Solvers of linear programs exceed a capacity by their tolerance, which is a lot of an item of small cost.
    """
    best = np.zeros(len(gains))
    for chosen in product([0.0, 1.0], repeat=len(gains)):
        left = capacity - costs @ chosen
        if left < 0:
            continue
        for item in range(len(gains)):
            taken = np.array(chosen)
            if not taken[item]:
                taken[item] = 1.0 if costs[item] <= left else left / costs[item]
            best = max(best, taken, key=lambda corner: gains @ corner)
    return best


def evaluate(problem: JoinProblem, plan: Nested, keep: dict[str, float]) -> tuple[float, float]:
    """Output and cost a second."""
    rate, _, cost, aliases, _ = _walk(problem, plan, keep)
    assert aliases == set(problem.aliases)
    return rate, cost + rate * problem.result_seconds


def _walk(problem, plan, keep):
    if isinstance(plan, str):
        [i] = [i for i in problem.inputs if i.alias == plan]
        arriving = i.tuples_per_s * keep[i.stream]
        held = i.window.rows if isinstance(i.window, RowWindow) else arriving * i.window.range_us / 1e6
        own = arriving * i.select_seconds
        return arriving * i.selectivity, held * i.selectivity, own, {plan}, i.window_seconds
    l_l, w_l, c_l, a_l, s_l = _walk(problem, plan[0], keep)
    l_r, w_r, c_r, a_r, s_r = _walk(problem, plan[1], keep)
    f, both = 1.0, a_l | a_r
    for p in problem.predicates:
        if p.aliases <= both and not p.aliases <= a_l and not p.aliases <= a_r:
            f *= p.selectivity
    cost = l_r * s_l.probe_seconds + l_l * (s_l.insert_seconds + s_l.expire_seconds)
    cost += l_l * s_r.probe_seconds + l_r * (s_r.insert_seconds + s_r.expire_seconds)
    return f * (w_r * l_l + w_l * l_r), f * w_l * w_r, c_l + c_r + cost, both, problem.between


def left_deep(aliases: tuple[str, ...]) -> Iterator[Nested]:
    for order in permutations(aliases):
        plan = order[0]
        for alias in order[1:]:
            plan = (plan, alias)
        yield plan


def bushy(aliases: tuple[str, ...]) -> Iterator[Nested]:
    """Every plan, and each of them several times."""
    if len(aliases) == 1:
        yield aliases[0]
    for bits in range(1, 2 ** len(aliases) - 1):
        left = tuple(a for n, a in enumerate(aliases) if bits >> n & 1)
        right = tuple(a for n, a in enumerate(aliases) if not bits >> n & 1)
        for first in bushy(left):
            for second in bushy(right):
                yield (first, second)


NAMES = "ABCDE"
seconds = st.floats(1e-5, 1e-2)
windows_seconds = st.builds(WindowSeconds, seconds, seconds, seconds)


@st.composite
def problems(draw: st.DrawFn, most: int = 4) -> JoinProblem:
    """Random queries over row windows, self-joins and predicates over three streams among them."""
    n = draw(st.integers(2, most))
    aliases = NAMES[:n]
    streams = [
        draw(st.sampled_from(aliases[: i + 1])) if draw(st.booleans()) else a for i, a in enumerate(aliases)
    ]
    rates = {stream: draw(st.floats(1, 1000)) for stream in streams}
    inputs = tuple(
        JoinInput(
            alias,
            stream,
            rates[stream],
            RowWindow(draw(st.integers(1, 100))),
            draw(st.floats(0.01, 1)),
            draw(st.sampled_from([0.0, 1e-4, 1e-3])),
            draw(windows_seconds),
        )
        for alias, stream in zip(aliases, streams, strict=True)
    )
    predicates = []
    for number in range(draw(st.integers(0, n))):
        over = draw(st.sets(st.sampled_from(aliases), min_size=2, max_size=3))
        predicates.append(JoinPredicate(f"p{number}", frozenset(over), draw(st.floats(1e-4, 1))))
    above = draw(st.sampled_from([0.0, 1e-5]))
    return JoinProblem("q", inputs, tuple(predicates), draw(windows_seconds), above)
