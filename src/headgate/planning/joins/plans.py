"""Plans of a join: a row of joins, each of two subsets of the streams; left-deep ones and all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from headgate.planning.joins.figures import Figures, Floats, Ints

# an input, or two sides
Shape = int | tuple["Shape", "Shape"]


@dataclass(frozen=True)
class Plans:
    """Many plans over the same inputs: ``pairs[plan, join]`` are the two subsets that a join joins.

    A plan without a join has one pair all the same, whose right side is empty. ``problems[plan]`` says whose
    figures a plan is judged by.
    """

    pairs: Ints
    problems: Ints

    @property
    def whole(self) -> Ints:
        """The subset that each plan joins."""
        return np.asarray(np.bitwise_or.reduce(self.pairs.reshape(len(self.pairs), -1), axis=1))

    def only(self, which: Ints) -> Plans:
        """Some of the plans, in that order."""
        return Plans(self.pairs[which], self.problems[which])

    def crosses(self, figures: Figures) -> Ints:
        """How many cross products each plan has."""
        left, right = self.pairs[..., 0], self.pairs[..., 1]
        return np.asarray((figures.is_cross(left, right) & (right > 0)).sum(axis=-1))


@dataclass(frozen=True)
class Terms:
    """The processor time of plans as a sum: every tuple of the join of ``subsets`` takes ``seconds``.

    ``whole`` is the subset whose join is the output; ``select_cost_per_s`` comes on top, for each input.
    """

    subsets: Ints
    seconds: Floats
    select_cost_per_s: Floats
    whole: Ints
    problems: Ints


def terms_of(plans: Plans, figures: Figures) -> Terms:
    """What the plans take; the operators above the join count once all inputs are joined."""
    left, right = plans.pairs[..., 0], plans.pairs[..., 1]
    is_join = right > 0
    upkeep, probe = figures.upkeep_seconds, figures.probe_seconds
    whole = plans.whole
    results = np.where(whole == figures.all_inputs, figures.result_seconds, 0.0)
    within = (whole[:, None] >> np.arange(figures.inputs)) & 1
    return Terms(
        subsets=np.concatenate([left, right, whole[:, None]], axis=1),
        seconds=np.concatenate(
            [
                (upkeep[left] + probe[right]) * is_join,
                (upkeep[right] + probe[left]) * is_join,
                results[:, None],
            ],
            axis=1,
        ),
        select_cost_per_s=figures.select_cost_per_s[plans.problems] * within,
        whole=whole,
        problems=plans.problems,
    )


def left_deep(orders: Ints, problems: Ints | None = None) -> Plans:
    """Plans that join one more input at a time; a row of ``orders`` a plan."""
    bits = 1 << orders
    before = np.bitwise_or.accumulate(bits, axis=1)[:, :-1]
    pairs = np.stack([before, bits[:, 1:]], axis=-1)
    if orders.shape[1] == 1:
        pairs = np.stack([bits, np.zeros_like(bits)], axis=-1)
    return Plans(pairs, np.zeros(len(orders), dtype=np.int64) if problems is None else problems)


@cache
def left_deep_orders(inputs: int) -> Ints:
    """All orders; the first two inputs are the sides of one join and stand in order of FROM."""
    orders = [order for order in permutations(range(inputs)) if inputs == 1 or order[0] < order[1]]
    return np.array(orders)


@cache
def bushy_plans(inputs: int) -> Plans:
    """All plans, whatever their shape."""
    joins = [_joins(shape)[1] for shape in _shapes((1 << inputs) - 1)]
    return (
        Plans(np.array(joins), np.zeros(len(joins), dtype=np.int64))
        if inputs > 1
        else left_deep(left_deep_orders(1))
    )


def shape_of(pairs: Ints) -> Shape:
    """The plan as nested pairs of inputs."""
    shapes: dict[int, Shape] = {}
    for left, right in pairs.tolist():
        sides = [shapes.get(side, side.bit_length() - 1) for side in (left, right) if side]
        shapes[left | right] = sides[0] if len(sides) == 1 else (sides[0], sides[1])
    return shapes[left | right]


def plan_of(shape: Shape) -> Plans:
    """The one plan of that shape."""
    pairs = _joins(shape)[1] or [(1, 0)]
    return Plans(np.array([pairs]), np.zeros(1, dtype=np.int64))


def flattened(shape: Shape) -> tuple[int, ...]:
    """The inputs of a plan from left to right."""
    return (shape,) if isinstance(shape, int) else (*flattened(shape[0]), *flattened(shape[1]))


def is_left_deep(shape: Shape) -> bool:
    """Whether no join has a join on its right."""
    return isinstance(shape, int) or (isinstance(shape[1], int) and is_left_deep(shape[0]))


def _shapes(subset: int) -> Iterator[Shape]:
    if subset & (subset - 1) == 0:
        yield subset.bit_length() - 1
        return
    lowest = subset & -subset
    left = subset & (subset - 1)
    while left:
        left = (left - 1) & (subset ^ lowest)
        # the side with the first input stands left, so that no plan comes twice
        for first in _shapes(left | lowest):
            for second in _shapes(subset ^ (left | lowest)):
                yield _larger_first(first, second)


def _larger_first(first: Shape, second: Shape) -> Shape:
    """A single input stands right of a join, as in left-deep plans."""
    return (second, first) if isinstance(first, int) and not isinstance(second, int) else (first, second)


def _joins(shape: Shape) -> tuple[int, list[tuple[int, int]]]:
    """The subset that a plan joins, and its joins, those below first."""
    if isinstance(shape, int):
        return 1 << shape, []
    left, of_left = _joins(shape[0])
    right, of_right = _joins(shape[1])
    return left | right, [*of_left, *of_right, (left, right)]
