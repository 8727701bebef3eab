"""Drop boxes under time windows: Newton's method inside of a wall that gets steeper.

Over time windows alone, the logarithm of the output is linear in those of the shares kept, and the cost is
convex. So there is one optimum: every stream that is shed causes the same cost, none that is kept whole
causes more. Rates are linear in what is kept before row windows, and with both there can be several optima.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from headgate.planning.joins.figures import Bools, Floats, Ints

# how much more the output counts from stage to stage, and when what is left to gain is lost in rounding
_SHARPER = 30.0
_SHARPEST = 1e10
_ROUNDS = 50
_FLAT = 1e-6
_HALVINGS = 20
_FITTINGS = 60
_OPEN = 1e-6
# streams that only ever cost together leave the equations without one answer
_RIDGE = 1e-12


class Curved(Protocol):
    """What is asked of plans; all by plan and box."""

    @property
    def by_rows(self) -> Bools:
        """Boxes without a time window behind them: rates are linear in what these keep."""

    def only(self, plans: Bools | Ints) -> Curved:
        """Some of the plans."""

    def cost_per_s(self, keep: Floats) -> Floats:
        """Processors kept busy."""

    def joined_per_s(self, keep: Floats) -> Floats:
        """Tuples of the whole join a second."""

    def output_slopes(self, keep: Floats) -> Floats:
        """By how much the output grows with the logarithm of each share."""

    def cost_slopes(self, keep: Floats) -> tuple[Floats, Floats]:
        """By how much the cost grows with the logarithm of each share, and by how much that does."""


def timed_keep(plans: Curved, most: Floats, capacity: Floats) -> Floats:
    """The share of each box, for plans that do not fit."""
    keep = most * 0.5
    while (outside := ~(plans.cost_per_s(keep) < capacity / 2)).any():
        keep[outside] *= 0.7
    sharpness = most.shape[1] + 1.0
    while sharpness < _SHARPEST:
        moving = np.flatnonzero(plans.joined_per_s(keep) > 0)
        for _ in range(_ROUNDS):
            if not len(moving):
                break
            some = plans.only(moving)
            keep[moving], has_moved = _round(some, keep[moving], most[moving], capacity[moving], sharpness)
            moving = moving[has_moved]
        sharpness *= _SHARPER
    return _settled(plans, keep, most, capacity)


def _round(
    plans: Curved, keep: Floats, most: Floats, capacity: Floats, sharpness: float
) -> tuple[Floats, Bools]:
    """One step towards the optimum for this sharpness, and which plans were not there yet."""
    change, gain = _newton(plans, keep, most, capacity, sharpness)
    now = _height(plans, keep, most, capacity, sharpness)
    length = np.minimum(1.0, 3.0 / np.maximum(np.abs(change).max(axis=1), 1e-300))
    result, waiting = keep.copy(), gain >= _FLAT
    for _ in range(_HALVINGS):
        tried = _moved(keep, length[:, None] * change, plans.by_rows)
        lower = _height(plans, tried, most, capacity, sharpness) <= now - 0.01 * length * gain
        result = np.where((waiting & lower)[:, None], tried, result)
        waiting &= ~lower
        if not waiting.any():
            break
        length = length / 2
    return result, (gain >= _FLAT) & ~waiting


def _newton(
    plans: Curved, keep: Floats, most: Floats, capacity: Floats, sharpness: float
) -> tuple[Floats, Floats]:
    """The way down by the logarithms of shares, or by shares before row windows, and how far down it goes."""
    by_rows = plans.by_rows
    left = (capacity - plans.cost_per_s(keep))[:, None]
    slopes, bends = plans.cost_slopes(keep)
    worth = plans.output_slopes(keep) / plans.joined_per_s(keep)[:, None]
    unit = np.where(by_rows, keep, 1.0)
    room = np.where(by_rows, most - keep, np.log(most / keep))
    downhill = (sharpness * worth - slopes / left) / unit - 1 / room + np.where(by_rows, 1 / keep, 0.0)
    diagonal = 1 / room**2 + np.where(by_rows, 1 / keep**2 - slopes / left / unit**2, 0.0)
    linear = np.where(by_rows, worth / unit, 0.0)
    matrix = bends / left[..., None] / unit[:, :, None] / unit[:, None, :]
    matrix += sharpness * linear[:, :, None] * linear[:, None, :]
    # a box that no tuple of the plan comes through stays where it is
    downhill = np.where(slopes > 0, downhill, 0.0)
    boxes = np.arange(keep.shape[1])
    matrix[:, boxes, boxes] += diagonal + _RIDGE * matrix[:, boxes, boxes]
    # near the wall its own part, steep x steep, dwarfs all others: it is added after the fact
    steep = slopes / left / unit
    both = np.linalg.solve(matrix, np.stack([downhill, steep], axis=-1))
    share = (steep * both[..., 0]).sum(axis=1) / (1 + (steep * both[..., 1]).sum(axis=1))
    change = both[..., 0] - share[:, None] * both[..., 1]
    return change, np.asarray((change * downhill).sum(axis=1))


def _moved(keep: Floats, change: Floats, by_rows: Bools) -> Floats:
    return np.where(by_rows, keep + change, keep * np.exp(np.where(by_rows, 0.0, change)))


def _height(plans: Curved, keep: Floats, most: Floats, capacity: Floats, sharpness: float) -> Floats:
    """Less output is higher, and there is no end to it at the capacity and at bounds."""
    inside = ((keep > 0) & (keep < most)).all(axis=1) & (plans.cost_per_s(keep) < capacity)
    with np.errstate(divide="ignore", invalid="ignore"):
        wall = -np.log(1 - plans.cost_per_s(keep) / capacity)
        rows = -np.log(keep) - np.log(most - keep)
        wall += np.where(plans.by_rows, rows, -np.log(np.log(most / keep))).sum(axis=1)
        return np.where(inside, wall - sharpness * np.log(plans.joined_per_s(keep)), np.inf)


def _settled(plans: Curved, keep: Floats, most: Floats, capacity: Floats) -> Floats:
    """Boxes that are all but open are opened, the others scaled so that the capacity is just used."""
    slopes, _ = plans.cost_slopes(keep)
    is_open = (keep > most * (1 - _OPEN)) | (slopes <= 0)
    low, high = np.zeros(len(keep)), np.full(len(keep), 2.0)
    for _ in range(_FITTINGS):
        middle = (low + high) / 2
        fits = plans.cost_per_s(_scaled(keep, middle, most, is_open)) <= capacity
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return _scaled(keep, low, most, is_open)


def _scaled(keep: Floats, factor: Floats, most: Floats, is_open: Bools) -> Floats:
    return np.where(is_open, most, np.minimum(keep * factor[:, None], most))
