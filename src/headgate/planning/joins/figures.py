"""Rates and costs of all subsets of streams as arrays, so that many plans are judged at once.

A subset of streams is a number whose bit ``i`` stands for input ``i``. Arrays begin with one axis over
problems that differ in their figures alone; a single problem is a batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.model.window import TimeWindow
from headgate.planning.joins.problem import JoinProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Figures:
    """What plans are judged by.

    ``caused_per_s[problem, subset, i]`` is how many tuples of the subset's join arrivals at input ``i`` cause
    a second, while nothing is shed. ``boxes[i]`` is the drop box of input ``i``: one for each stream.
    """

    caused_per_s: Floats
    select_cost_per_s: Floats
    upkeep_seconds: Floats
    probe_seconds: Floats
    result_seconds: float
    is_timed: Bools
    boxes: Ints
    predicate_masks: tuple[int, ...]

    @staticmethod
    def of(problem: JoinProblem) -> Figures:
        """The figures of one problem."""
        return Figures.of_rates(problem, np.array([[i.tuples_per_s for i in problem.inputs]]))

    @staticmethod
    def of_rates(problem: JoinProblem, tuples_per_s: Floats) -> Figures:
        """The problem with other rates of its inputs: a row a problem."""
        inputs, n = problem.inputs, len(problem.inputs)
        selectivity = np.array([i.selectivity for i in inputs])
        is_timed = np.array([isinstance(i.window, TimeWindow) for i in inputs])
        held = np.array(
            [i.window.range_us / 1e6 if isinstance(i.window, TimeWindow) else i.window.rows for i in inputs]
        )
        windows = selectivity * np.where(is_timed, tuples_per_s * held, held)
        masks = tuple(sum(1 << problem.aliases.index(a) for a in p.aliases) for p in problem.predicates)
        streams = problem.streams
        return Figures(
            caused_per_s=_caused_per_s(
                tuples_per_s * selectivity, windows, masks, [p.selectivity for p in problem.predicates]
            ),
            select_cost_per_s=tuples_per_s * np.array([i.select_seconds for i in inputs]),
            upkeep_seconds=_by_subset(
                n, problem.between.upkeep_seconds, [i.window_seconds.upkeep_seconds for i in inputs]
            ),
            probe_seconds=_by_subset(
                n, problem.between.probe_seconds, [i.window_seconds.probe_seconds for i in inputs]
            ),
            result_seconds=problem.result_seconds,
            is_timed=is_timed & (n > 1),
            boxes=np.array([streams.index(i.stream) for i in inputs]),
            predicate_masks=masks,
        )

    @property
    def inputs(self) -> int:
        """How many inputs the query has."""
        return len(self.boxes)

    @property
    def all_inputs(self) -> int:
        """The subset of all inputs."""
        return (1 << self.inputs) - 1

    @property
    def box_of(self) -> Floats:
        """1 where an input is behind a box: to add up what is known of inputs by box."""
        return np.eye(int(self.boxes.max()) + 1)[self.boxes]

    def is_cross(self, left: Ints, right: Ints) -> Bools:
        """Whether no predicate applies to a join that did not apply to a side of it."""
        both = left | right
        connected = np.zeros(both.shape, dtype=bool)
        for mask in self.predicate_masks:
            connected |= ((both & mask) == mask) & ((left & mask) != 0) & ((right & mask) != 0)
        return ~connected


def members(subsets: Ints, inputs: int) -> Bools:
    """Which inputs are in a subset, along a new last axis."""
    return np.asarray((subsets[..., None] >> np.arange(inputs)) & 1 == 1)


def _by_subset(inputs: int, of_joins: float, of_inputs: Sequence[float]) -> Floats:
    values = np.full(1 << inputs, of_joins)
    values[1 << np.arange(inputs)] = of_inputs
    return values


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
