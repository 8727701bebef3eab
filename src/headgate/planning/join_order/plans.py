"""Join plans as arrays over subsets of the inputs, so that many plans are evaluated at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from headgate.model.window import TimeWindow
from headgate.planning.join_order.problem import JoinProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SubsetRates:
    """Rates and costs of all subsets of inputs, by which plans are evaluated.

    A subset is a number whose bit ``i`` stands for input ``i``. Arrays begin with an axis over problems that
    differ only in their statistics; a single problem is a batch of one. ``caused_per_s[problem, subset, i]``
    is the rate of tuples of the subset's join that arrivals at input ``i`` cause, without shedding.
    ``boxes[i]`` is the drop box of input ``i``: one for each stream.
    """

    caused_per_s: Floats
    select_cost_per_s: Floats
    upkeep_seconds: Floats
    probe_seconds: Floats
    pair_seconds: float
    result_seconds: float
    is_timed: Bools
    boxes: Ints
    predicate_masks: tuple[int, ...]

    @staticmethod
    def of(problem: JoinProblem, tuples_per_s: Floats | None = None) -> SubsetRates:
        """The rates of one problem, or at other rates of its inputs, one row per problem."""
        inputs, streams = problem.inputs, problem.streams
        if tuples_per_s is None:
            tuples_per_s = np.array([[i.tuples_per_s for i in inputs]])
        selectivity = np.array([i.selectivity for i in inputs])
        is_timed = np.array([isinstance(i.window, TimeWindow) for i in inputs])
        held = np.array(
            [i.window.range_us / 1e6 if isinstance(i.window, TimeWindow) else i.window.rows for i in inputs]
        )
        windows = selectivity * np.where(is_timed, tuples_per_s * held, held)
        masks = tuple(sum(1 << problem.aliases.index(a) for a in p.aliases) for p in problem.predicates)
        passing = [p.selectivity for p in problem.predicates]
        # a window over a single input, or over results of a join
        seconds = [problem.between] * (1 << len(inputs))
        for number, i in enumerate(inputs):
            seconds[1 << number] = i.window_seconds
        return SubsetRates(
            caused_per_s=_caused_per_s(tuples_per_s * selectivity, windows, masks, passing),
            select_cost_per_s=tuples_per_s * np.array([i.select_seconds for i in inputs]),
            upkeep_seconds=np.array([own.upkeep_seconds for own in seconds]),
            probe_seconds=np.array([own.probe_seconds for own in seconds]),
            pair_seconds=problem.between.pair_seconds,
            result_seconds=problem.result_seconds,
            is_timed=is_timed & (len(inputs) > 1),
            boxes=np.array([streams.index(i.stream) for i in inputs]),
            predicate_masks=masks,
        )

    @property
    def inputs(self) -> int:
        return len(self.boxes)

    @property
    def box_of(self) -> Floats:
        """1 where an input has a box: sums values of inputs by box."""
        return np.eye(int(self.boxes.max()) + 1)[self.boxes]


def members(subsets: Ints, inputs: int) -> Bools:
    """The inputs of subsets, along a new last axis."""
    return np.asarray((subsets[..., None] >> np.arange(inputs)) & 1 == 1)


def _caused_per_s(
    rates: Floats, windows: Floats, masks: Sequence[int], selectivities: Sequence[float]
) -> Floats:
    problems, n = rates.shape
    subsets = np.arange(1 << n)
    held = np.where(members(subsets, n), windows[:, None, :], 1.0).prod(axis=-1)
    passing = np.ones(1 << n)
    for mask, selectivity in zip(masks, selectivities, strict=True):
        passing = np.where((subsets & mask) == mask, passing * selectivity, passing)
    caused = np.zeros((problems, 1 << n, n))
    for i in range(n):
        within = subsets[subsets >> i & 1 == 1]
        caused[:, within, i] = passing[within] * rates[:, i, None] * held[:, within ^ (1 << i)]
    return caused


# the subsets that a join joins
Pair = tuple[int, int]
# an input, or two sides
Shape = int | tuple["Shape", "Shape"]


@dataclass(frozen=True)
class Plans:
    """Many plans over the same inputs: ``pairs[plan, join]`` are the two subsets that a join joins.

    A plan without a join has one pair with an empty right side. ``problems[plan]`` is the problem whose rates
    apply to a plan.
    """

    pairs: Ints
    problems: Ints

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def whole(self) -> Ints:
        return np.asarray(np.bitwise_or.reduce(self.pairs.reshape(len(self), -1), axis=1))

    def only(self, which: Ints) -> Plans:
        return Plans(self.pairs[which], self.problems[which])

    def crosses(self, rates: SubsetRates) -> Ints:
        """The number of cross products of each plan."""
        return np.asarray(self.are_crosses(rates).sum(axis=-1))

    def are_crosses(self, rates: SubsetRates) -> Bools:
        """Which joins of each plan are cross products: no predicate links their sides."""
        left, right = self.pairs[..., 0], self.pairs[..., 1]
        linked = right == 0
        for mask in rates.predicate_masks:
            linked |= (((left | right) & mask) == mask) & ((left & mask) != 0) & ((right & mask) != 0)
        return np.asarray(~linked)


def left_deep(orders: Ints, problems: Ints | None = None) -> Plans:
    """Plans that join one more input at a time, one per row of ``orders``."""
    bits = 1 << orders
    before = np.bitwise_or.accumulate(bits, axis=1)[:, :-1]
    pairs = np.stack([before, bits[:, 1:]], axis=-1)
    if orders.shape[1] == 1:
        pairs = np.stack([bits, np.zeros_like(bits)], axis=-1)
    return Plans(pairs, np.zeros(len(orders), dtype=np.int64) if problems is None else problems)


@cache
def left_deep_orders(inputs: int) -> Ints:
    """All orders; the first two inputs, the sides of one join, are in order of FROM."""
    orders = [order for order in permutations(range(inputs)) if inputs == 1 or order[0] < order[1]]
    return np.array(orders)


@cache
def bushy_plans(inputs: int) -> Plans:
    if inputs == 1:
        return left_deep(left_deep_orders(1))
    joins = np.array(list(_bushy((1 << inputs) - 1)))
    return Plans(joins, np.zeros(len(joins), dtype=np.int64))


def _bushy(subset: int) -> Iterator[list[Pair]]:
    """The joins of every plan of a subset, lowest first."""
    lowest, others = subset & -subset, subset & (subset - 1)
    if not others:
        yield []
    left = others
    while left:
        left = (left - 1) & others
        # the side with the first input is the left one, so that no plan occurs twice
        first, second = left | lowest, others ^ left
        # a single input is the right side of a join, as in left-deep plans
        sides = (second, first) if not left and second & (second - 1) else (first, second)
        for of_first in _bushy(first):
            for of_second in _bushy(second):
                yield [*of_first, *of_second, sides]
