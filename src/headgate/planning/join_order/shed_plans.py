"""Cost and output of plans after shedding, and the drop boxes with which a plan fits with the most output.

Over row windows, output and cost are linear in the keep ratios, and drop boxes are a knapsack. A time window
shrinks with the keep ratio of its stream, so rates are products of keep ratios; drop boxes are then found by
Newton's method with a logarithmic barrier. Over time windows alone, the logarithm of the output is linear in
the logarithms of the keep ratios, and the cost is convex, so there is one optimum: all streams that are shed
cause the same cost, and none that is kept whole causes more. With both kinds of windows there can be several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.polynomial import polyval

from headgate.planning.join_order.plans import Bools, Floats, Ints, Plans, SubsetRates, members

# the weight of the output grows by this factor per stage, up to where gains are lost in rounding
_SHARPER = 30.0
_SHARPEST = 1e10
_ROUNDS = 50
_FLAT = 1e-6
_HALVINGS = 20
_FITTINGS = 60
_BISECTIONS = 50
OPEN = 1e-6
# streams that only cost together make the equations singular
_RIDGE = 1e-12
LEAST = 1e-12
_TINY = 1e-300


# of keep ratios
Rate = Callable[[Floats], float]
# keep ratios of each box, and the cost and output of plans with them
ShedResult = tuple[Floats, Floats, Floats]


def objective(joined_per_s: Floats, cost_per_s: Floats) -> Floats:
    """R(p): output per cost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = joined_per_s / cost_per_s
    return np.where(cost_per_s > 0, worth, np.where(joined_per_s > 0, np.inf, 0.0))


def knapsack(gains: Floats, costs: Floats, capacity: Floats) -> Floats:
    """The continuous knapsack: shares of items, along the last axis, with the most gain within the capacity.

    Items are taken by falling gain per cost; those without cost are taken whole.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # rounded, so that the first of equals is taken in spite of rounding errors
        worth = np.round(np.log(np.where(costs > 0, gains / costs, np.inf)), 11)
    order = np.argsort(-worth, axis=-1, kind="stable")
    in_order = np.take_along_axis(costs, order, axis=-1)
    left = capacity[..., None] - (np.cumsum(in_order, axis=-1) - in_order)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(in_order > 0, np.clip(left / in_order, 0.0, 1.0), 1.0)
    taken = np.empty_like(shares)
    np.put_along_axis(taken, order, shares, axis=-1)
    return taken


def solve(output: Rate, cost: Rate, start: Floats, capacity: float) -> Floats:
    # imported here: it takes half a second, and few plans need it
    from scipy.optimize import minimize

    found: Floats = minimize(
        lambda x: -np.log(max(output(x), _TINY)),
        np.clip(start, LEAST, 1.0),
        bounds=[(LEAST, 1.0)] * len(start),
        constraints={"type": "ineq", "fun": lambda x: 1 - cost(x) / capacity},
        method="SLSQP",
    ).x
    return found


def shed_plans(plans: Plans, rates: SubsetRates) -> LinearPlans | TimedPlans:
    """The plans after shedding; ``keep[plan, box]`` are keep ratios of streams.

    Their CPU time is a sum of terms, the time for every tuple of the join of a subset. The operators above
    the join count once all inputs are joined.
    """
    left, right, whole = plans.pairs[..., 0], plans.pairs[..., 1], plans.whole
    is_join = right > 0
    upkeep, probe = rates.upkeep_seconds, rates.probe_seconds
    results = np.where(whole == (1 << rates.inputs) - 1, rates.result_seconds, 0.0)
    subsets = np.concatenate([left, right, whole[:, None]], axis=1)
    of_left, of_right = (upkeep[left] + probe[right]) * is_join, (upkeep[right] + probe[left]) * is_join
    seconds = np.concatenate([of_left, of_right, results[:, None]], axis=1)
    if rates.pair_seconds:
        subsets = np.concatenate([subsets, left | right], axis=1)
        seconds = np.concatenate([seconds, rates.pair_seconds * plans.are_crosses(rates)], axis=1)
    selecting = rates.select_cost_per_s[plans.problems] * members(whole, rates.inputs)
    caused = rates.caused_per_s[plans.problems[:, None], subsets]
    joined = rates.caused_per_s[plans.problems, whole]
    if not rates.is_timed.any():
        costs = np.matmul(seconds[:, None, :], caused)[:, 0] + selecting
        return LinearPlans(joined @ rates.box_of, costs @ rates.box_of)
    timed = members(subsets, rates.inputs) & rates.is_timed
    timed_whole = members(whole, rates.inputs) & rates.is_timed
    return TimedPlans(caused * seconds[..., None], selecting, joined, timed, timed_whole, rates)


@dataclass(frozen=True)
class LinearPlans:
    """Plans over row windows: ``gains[plan, box]`` and costs per second of boxes that keep everything."""

    gains: Floats
    costs: Floats

    def cost_per_s(self, keep: Floats) -> Floats:
        return np.asarray((self.costs * keep).sum(axis=-1))

    def joined_per_s(self, keep: Floats) -> Floats:
        """Tuples of the whole join per second."""
        return np.asarray((self.gains * keep).sum(axis=-1))

    def keep_within(self, most: Floats, capacity: Floats) -> Floats:
        """The keep ratios with the most output, none above ``most``, within the capacity."""
        over = self.cost_per_s(most) > capacity
        shares = knapsack(self.gains[over] * most[over], self.costs[over] * most[over], capacity[over])
        keep: Floats = most.copy()
        keep[over] *= shares
        return keep

    def roughly_within(self, most: Floats, capacity: Floats) -> ShedResult:
        """A knapsack is fast enough for thousands of plans."""
        keep = self.keep_within(most, capacity)
        return keep, self.cost_per_s(keep), self.joined_per_s(keep)

    def refine(self, keep: Floats, capacity: float) -> Floats:
        """A knapsack needs no refining."""
        return keep


@dataclass(frozen=True)
class TimedPlans:
    """Plans with time windows.

    ``caused[plan, term, i]`` is the CPU time per second that arrivals at input ``i`` cause in a term of the
    plan; ``joined[plan, i]`` the tuples of the whole join. ``timed`` marks the inputs of a term whose windows
    shrink with the keep ratio.
    """

    caused: Floats
    selecting: Floats
    joined: Floats
    timed: Bools
    timed_whole: Bools
    rates: SubsetRates

    def cost_per_s(self, keep: Floats) -> Floats:
        shares = keep[:, self.rates.boxes]
        joining = _scaled(self.caused, self.timed, shares[:, None, :]).sum(axis=(1, 2))
        return np.asarray(joining + (self.selecting * shares).sum(axis=1))

    def joined_per_s(self, keep: Floats) -> Floats:
        return np.asarray(_scaled(self.joined, self.timed_whole, keep[:, self.rates.boxes]).sum(axis=-1))

    def keep_within(self, most: Floats, capacity: Floats) -> Floats:
        over = self.cost_per_s(most) > capacity
        keep: Floats = most.copy()
        if over.any():
            keep[over] = _barrier_keep(self.only(over), most[over], capacity[over])
        return keep

    def roughly_within(self, most: Floats, capacity: Floats) -> ShedResult:
        """All streams of a plan have the same keep ratio."""
        shares = most[:, self.rates.boxes]
        cost = _scaled(self.caused, self.timed, shares[:, None, :])
        joined = _scaled(self.joined, self.timed_whole, shares)
        degrees = self.rates.inputs + 1
        # each part of a rate is a product of as many keep ratios as it has streams
        powers = _by_degree(cost.reshape(len(cost), -1), _degrees(self.timed).reshape(len(cost), -1), degrees)
        powers[1] += (self.selecting * shares).sum(axis=1)

        def cost_per_s(share: Floats) -> Floats:
            return np.asarray(polyval(share, powers, tensor=False))

        whole = np.ones(len(cost))
        low = np.where(cost_per_s(whole) <= capacity, 1.0, 0.0)
        share = _largest(lambda x: cost_per_s(x) <= capacity, low, whole, _BISECTIONS)
        of_output = _by_degree(joined, _degrees(self.timed_whole), degrees)
        used = (self.joined > 0) @ self.rates.box_of > 0
        keep = np.where(used, most * share[:, None], most)
        return keep, cost_per_s(share), np.asarray(polyval(share, of_output, tensor=False))

    @property
    def by_rows(self) -> Bools:
        """Boxes without time windows: rates are linear in their keep ratios."""
        return np.asarray(self.rates.is_timed @ self.rates.box_of == 0)

    def output_slopes(self, keep: Floats) -> Floats:
        """Derivative of the output by the logarithm of each keep ratio."""
        scaled = _scaled(self.joined, self.timed_whole, keep[:, self.rates.boxes])
        total = scaled.sum(axis=-1, keepdims=True)
        return np.where(self.timed_whole, total, scaled) @ self.rates.box_of

    def cost_slopes(self, keep: Floats) -> tuple[Floats, Floats]:
        """First and second derivatives of the cost by the logarithms of keep ratios."""
        shares, box_of = keep[:, self.rates.boxes], self.rates.box_of
        scaled = _scaled(self.caused, self.timed, shares[:, None, :])
        timed, rows = self.timed.astype(float), np.where(self.timed, 0.0, scaled)
        loads = timed * scaled.sum(axis=-1, keepdims=True)
        selecting = self.selecting * shares
        across = np.swapaxes(timed, 1, 2) @ rows
        bends = np.swapaxes(loads, 1, 2) @ timed + across + np.swapaxes(across, 1, 2)
        inputs = np.arange(self.rates.inputs)
        bends[:, inputs, inputs] += rows.sum(axis=1) + selecting
        slopes = (loads + rows).sum(axis=1) + selecting
        return slopes @ box_of, box_of.T @ bends @ box_of

    def refine(self, keep: Floats, capacity: float) -> Floats:
        """With row and time windows there can be several optima: search from other starting points."""
        return np.array([self._refined(plan, shares, capacity) for plan, shares in enumerate(keep)])

    def _refined(self, plan: int, keep: Floats, capacity: float) -> Floats:
        if self.rates.is_timed.all() or (keep == 1).all():
            return keep
        shed, best = self.only(np.array([plan])), keep

        def output(x: Floats) -> float:
            return float(shed.joined_per_s(x[None])[0])

        def cost(x: Floats) -> float:
            return float(shed.cost_per_s(x[None])[0])

        for start in (keep, np.full(len(keep), 0.5), *(np.eye(len(keep)) * 0.9 + 0.05)):
            found = solve(output, cost, start, capacity)
            if cost(found) <= capacity * (1 + 1e-9) and output(found) > output(best) * (1 + 1e-9):
                best = found
        return best

    def only(self, plans: Bools | Ints) -> TimedPlans:
        return replace(
            self,
            caused=self.caused[plans],
            selecting=self.selecting[plans],
            joined=self.joined[plans],
            timed=self.timed[plans],
            timed_whole=self.timed_whole[plans],
        )


def _scaled(caused: Floats, timed: Bools, shares: Floats) -> Floats:
    """``caused`` after shedding: arrivals at every input find less in all time windows."""
    together = np.where(timed, shares, 1.0).prod(axis=-1, keepdims=True)
    return np.asarray(caused * np.where(timed, 1.0, shares) * together)


def _degrees(timed: Bools) -> Ints:
    """The number of keep ratios in each part of a rate."""
    return np.asarray(timed.sum(axis=-1, keepdims=True) + ~timed)


def _by_degree(parts: Floats, degrees: Ints, count: int) -> Floats:
    plans = np.arange(len(parts))[:, None] * count
    sums = np.bincount((plans + degrees).ravel(), parts.ravel(), minlength=len(parts) * count)
    return np.asarray(sums.reshape(len(parts), count).T, dtype=np.float64)


def _largest(fits: Callable[[Floats], Bools], low: Floats, high: Floats, steps: int) -> Floats:
    """The largest numbers between the bounds that fit, by bisection."""
    for _ in range(steps):
        middle = (low + high) / 2
        is_low = fits(middle)
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return low


def _barrier_keep(plans: TimedPlans, most: Floats, capacity: Floats) -> Floats:
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
    # boxes that are almost open are opened, and the others scaled so that the capacity is used up
    slopes, _ = plans.cost_slopes(keep)
    is_open = (keep > most * (1 - OPEN)) | (slopes <= 0)

    def fitted(factor: Floats) -> Floats:
        return np.where(is_open, most, np.minimum(keep * factor[:, None], most))

    low, high = np.zeros(len(keep)), np.full(len(keep), 2.0)
    return fitted(_largest(lambda x: plans.cost_per_s(fitted(x)) <= capacity, low, high, _FITTINGS))


def _round(
    plans: TimedPlans, keep: Floats, most: Floats, capacity: Floats, sharpness: float
) -> tuple[Floats, Bools]:
    """One step towards the optimum at this sharpness, and the plans that have not reached it."""
    change, gain = _newton(plans, keep, most, capacity, sharpness)
    now = _height(plans, keep, most, capacity, sharpness)
    length = np.minimum(1.0, 3.0 / np.maximum(np.abs(change).max(axis=1), 1e-300))
    result, waiting, by_rows = keep.copy(), gain >= _FLAT, plans.by_rows
    for _ in range(_HALVINGS):
        step = length[:, None] * change
        tried = np.where(by_rows, keep + step, keep * np.exp(np.where(by_rows, 0.0, step)))
        lower = _height(plans, tried, most, capacity, sharpness) <= now - 0.01 * length * gain
        result = np.where((waiting & lower)[:, None], tried, result)
        waiting &= ~lower
        if not waiting.any():
            break
        length = length / 2
    return result, (gain >= _FLAT) & ~waiting


def _newton(
    plans: TimedPlans, keep: Floats, most: Floats, capacity: Floats, sharpness: float
) -> tuple[Floats, Floats]:
    """The Newton step in the logarithms of keep ratios, or in the ratios of row windows, and its gain."""
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
    # a box that the plan does not use stays where it is
    downhill = np.where(slopes > 0, downhill, 0.0)
    boxes = np.arange(keep.shape[1])
    matrix[:, boxes, boxes] += diagonal + _RIDGE * matrix[:, boxes, boxes]
    # near the wall, its own part (steep x steep) dominates: it is added afterwards
    steep = slopes / left / unit
    both = np.linalg.solve(matrix, np.stack([downhill, steep], axis=-1))
    share = (steep * both[..., 0]).sum(axis=1) / (1 + (steep * both[..., 1]).sum(axis=1))
    change = both[..., 0] - share[:, None] * both[..., 1]
    return change, np.asarray((change * downhill).sum(axis=1))


def _height(plans: TimedPlans, keep: Floats, most: Floats, capacity: Floats, sharpness: float) -> Floats:
    """The barrier function: higher with less output, infinite at the capacity and at the bounds."""
    inside = ((keep > 0) & (keep < most)).all(axis=1) & (plans.cost_per_s(keep) < capacity)
    with np.errstate(divide="ignore", invalid="ignore"):
        wall = -np.log(1 - plans.cost_per_s(keep) / capacity)
        rows = -np.log(keep) - np.log(most - keep)
        wall += np.where(plans.by_rows, rows, -np.log(np.log(most / keep))).sum(axis=1)
        return np.where(inside, wall - sharpness * np.log(plans.joined_per_s(keep)), np.inf)
