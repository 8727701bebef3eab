"""The heuristic: dynamic programming over subsets of streams, left-deep, with drop boxes once needed.

Of every subset the best plan is kept. One that does not fit gets its boxes at once; they stay, as filters
would, and later ones are multiplied with them. It finds the best plan if there is a left-deep one that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headgate.planning.joins.candidate import Candidate
from headgate.planning.joins.exhaustive import candidates_of, exhaustive
from headgate.planning.joins.figures import Figures, Floats, Ints
from headgate.planning.joins.flows import flows_of
from headgate.planning.joins.plans import Plans, left_deep
from headgate.planning.joins.problem import JoinProblem

# objectives that differ by less are the same, computed in another order
_TIE = 1e-9


@dataclass(frozen=True)
class Found:
    """The best plan of each problem for all subsets of one size: ``orders[problem, subset]``, its boxes."""

    subsets: tuple[int, ...]
    orders: Ints
    keep: Floats


def heuristic(problem: JoinProblem, capacity: float) -> Candidate:
    """The plan that the dynamic program finds."""
    figures = Figures.of(problem)
    found = best_orders(figures, np.array([capacity]))
    if problem.is_linear:
        return candidates_of(problem, left_deep(found.orders[0]), found.keep[0], capacity)[0]
    # on the way boxes were rough: what counts is the order, and the cheapest may be the better one
    cheapest = best_orders(figures, np.array([np.inf]))
    return exhaustive(problem, left_deep(np.concatenate([found.orders[0], cheapest.orders[0]])), capacity)[0]


def best_orders(figures: Figures, capacity: Floats) -> Found:
    """The plan of every problem in the batch."""
    problems, boxes = len(capacity), int(figures.boxes.max()) + 1
    found = Found((0,), np.zeros((problems, 1, 0), dtype=np.int64), np.ones((problems, 1, boxes)))
    for size in range(1, figures.inputs + 1):
        found = _one_more(figures, capacity, found, size)
    return found


def _one_more(figures: Figures, capacity: Floats, before: Found, size: int) -> Found:
    """The best plans of one more input, each a best plan of the others joined with the last."""
    problems, at = len(capacity), {subset: place for place, subset in enumerate(before.subsets)}
    subsets = tuple(sum(1 << i for i in chosen) for chosen in combinations(range(figures.inputs), size))
    # the highest first: of two inputs that are the sides of one join, the first of FROM then stands first
    last = np.array([[i for i in reversed(range(figures.inputs)) if s >> i & 1] for s in subsets])
    rest = np.array([[at[s ^ (1 << int(i))] for i in row] for s, row in zip(subsets, last, strict=True)])
    lasts = np.broadcast_to(last, (problems, *last.shape))[..., None]
    orders = np.concatenate([before.orders[:, rest], lasts], axis=-1)
    plans = left_deep(orders.reshape(-1, size), np.repeat(np.arange(problems), last.size))
    keep = before.keep[:, rest].reshape(len(plans.pairs), -1)
    keep, place = _best(figures, plans, keep, np.repeat(capacity, last.size), size)
    chosen = place.reshape(problems, len(subsets))[..., None, None]
    return Found(
        subsets,
        np.take_along_axis(orders, chosen, axis=2)[:, :, 0],
        np.take_along_axis(keep.reshape(*orders.shape[:3], -1), chosen, axis=2)[:, :, 0],
    )


def _best(
    figures: Figures, plans: Plans, keep: Floats, capacity: Floats, alternatives: int
) -> tuple[Floats, Ints]:
    """Boxes of all plans, and which of each row of alternatives is best."""
    shed = flows_of(plans, figures).roughly_within(keep, capacity)
    worth = shed.objective.reshape(-1, alternatives)
    most = worth.max(axis=1, keepdims=True)
    tied = (worth == most) | (worth >= most * (1 - _TIE))
    crosses = np.where(tied, plans.crosses(figures).reshape(-1, alternatives), figures.inputs)
    return shed.keep, np.asarray(crosses.argmin(axis=1))
