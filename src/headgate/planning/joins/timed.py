"""Plans with time windows: less of a stream means less in its window, so rates are products of shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.planning.joins.figures import Bools, Figures, Floats, Ints, members
from headgate.planning.joins.plans import Terms
from headgate.planning.joins.shed import Shed
from headgate.planning.joins.timed_boxes import timed_keep

_LEAST = 1e-12
_HALVINGS = 50
_TINY = 1e-300


@dataclass(frozen=True)
class TimedFlows:
    """Plans, ready to be asked what they do with other shares kept.

    ``caused[plan, term, i]`` is the processor time a second that arrivals at input ``i`` cause in a term of
    the plan; ``joined[plan, i]`` the tuples of the whole join. ``timed`` marks the inputs of a term whose
    windows shrink with what is kept.
    """

    caused: Floats
    selecting: Floats
    joined: Floats
    timed: Bools
    timed_whole: Bools
    boxes: Ints
    is_timed: Bools

    @staticmethod
    def of(terms: Terms, figures: Figures) -> TimedFlows:
        """The plans of ``terms``."""
        caused = figures.caused_per_s
        return TimedFlows(
            caused=caused[terms.problems[:, None], terms.subsets] * terms.seconds[..., None],
            selecting=terms.select_cost_per_s,
            joined=caused[terms.problems, terms.whole],
            timed=members(terms.subsets, figures.inputs) & figures.is_timed,
            timed_whole=members(terms.whole, figures.inputs) & figures.is_timed,
            boxes=figures.boxes,
            is_timed=figures.is_timed,
        )

    def cost_per_s(self, keep: Floats) -> Floats:
        """Processors kept busy."""
        shares = keep[:, self.boxes]
        joining = _scaled(self.caused, self.timed, shares[:, None, :]).sum(axis=(1, 2))
        return np.asarray(joining + (self.selecting * shares).sum(axis=1))

    def joined_per_s(self, keep: Floats) -> Floats:
        """Tuples of the whole join a second."""
        return np.asarray(_scaled(self.joined, self.timed_whole, keep[:, self.boxes]).sum(axis=-1))

    def keep_within(self, most: Floats, capacity: Floats) -> Floats:
        """The shares with the most output, none above ``most``, whose cost is within the capacity."""
        over = self.cost_per_s(most) > capacity
        keep: Floats = most.copy()
        if over.any():
            keep[over] = timed_keep(self.only(over), most[over], capacity[over])
        return keep

    def roughly_within(self, most: Floats, capacity: Floats) -> Shed:
        """All streams of a plan are shed alike."""
        shares = most[:, self.boxes]
        cost = _scaled(self.caused, self.timed, shares[:, None, :])
        joined = _scaled(self.joined, self.timed_whole, shares)
        degrees = len(self.boxes) + 1
        # when everything is kept by a share more, each part falls by as many factors as it has streams
        powers = _by_degree(cost.reshape(len(cost), -1), _degrees(self.timed).reshape(len(cost), -1), degrees)
        powers[:, 1] += (self.selecting * shares).sum(axis=1)
        share = _root(powers, capacity)
        of_output = _by_degree(joined, _degrees(self.timed_whole), degrees)
        used = (self.joined > 0) @ self._box_of > 0
        keep = np.where(used, most * share[:, None], most)
        return Shed(keep, _polynomial(powers, share), _polynomial(of_output, share))

    @property
    def by_rows(self) -> Bools:
        """Boxes without a time window behind them: rates are linear in what these keep."""
        return np.asarray(self.is_timed @ self._box_of == 0)

    def output_slopes(self, keep: Floats) -> Floats:
        """By how much the output grows with the logarithm of each share."""
        scaled = _scaled(self.joined, self.timed_whole, keep[:, self.boxes])
        total = scaled.sum(axis=-1, keepdims=True)
        return np.where(self.timed_whole, total, scaled) @ self._box_of

    def cost_slopes(self, keep: Floats) -> tuple[Floats, Floats]:
        """By how much the cost grows with the logarithm of each share, and by how much that does."""
        shares = keep[:, self.boxes]
        scaled = _scaled(self.caused, self.timed, shares[:, None, :])
        timed, rows = self.timed.astype(float), np.where(self.timed, 0.0, scaled)
        loads = timed * scaled.sum(axis=-1, keepdims=True)
        selecting = self.selecting * shares
        across = np.swapaxes(timed, 1, 2) @ rows
        bends = np.swapaxes(loads, 1, 2) @ timed + across + np.swapaxes(across, 1, 2)
        inputs = np.arange(len(self.boxes))
        bends[:, inputs, inputs] += rows.sum(axis=1) + selecting
        slopes = (loads + rows).sum(axis=1) + selecting
        return slopes @ self._box_of, self._box_of.T @ bends @ self._box_of

    def refined(self, plan: int, keep: Floats, capacity: float) -> Floats:
        """Row and time windows together can have several optima: look for a better one elsewhere."""
        if self.is_timed.all() or (keep == 1).all():
            return keep
        # imported here: half a second that only those wait for who need it
        from scipy.optimize import minimize

        flows, best = self.only(np.array([plan])), keep
        for start in (keep, np.full(len(keep), 0.5), *(np.eye(len(keep)) * 0.9 + 0.05)):
            found = minimize(
                lambda x: -np.log(max(float(flows.joined_per_s(x[None])[0]), _TINY)),
                np.clip(start, _LEAST, 1.0),
                bounds=[(_LEAST, 1.0)] * len(keep),
                constraints={"type": "ineq", "fun": lambda x: 1 - flows.cost_per_s(x[None])[0] / capacity},
                method="SLSQP",
            ).x
            fits = flows.cost_per_s(found[None])[0] <= capacity * (1 + 1e-9)
            if fits and flows.joined_per_s(found[None])[0] > flows.joined_per_s(best[None])[0] * (1 + 1e-9):
                best = found
        return best

    def only(self, plans: Bools | Ints) -> TimedFlows:
        """Some of the plans."""
        return TimedFlows(
            self.caused[plans],
            self.selecting[plans],
            self.joined[plans],
            self.timed[plans],
            self.timed_whole[plans],
            self.boxes,
            self.is_timed,
        )

    @property
    def _box_of(self) -> Floats:
        return np.eye(int(self.boxes.max()) + 1)[self.boxes]


def _degrees(timed: Bools) -> Ints:
    """How many shares each part of a rate is a product of."""
    return np.asarray(timed.sum(axis=-1, keepdims=True) + ~timed)


def _by_degree(parts: Floats, degrees: Ints, count: int) -> Floats:
    plans = np.arange(len(parts))[:, None] * count
    sums = np.bincount((plans + degrees).ravel(), parts.ravel(), minlength=len(parts) * count)
    return np.asarray(sums.reshape(len(parts), count), dtype=np.float64)


def _polynomial(powers: Floats, share: Floats) -> Floats:
    value = np.zeros(len(powers))
    for power in powers.T[::-1]:
        value = value * share + power
    return value


def _root(powers: Floats, capacity: Floats) -> Floats:
    """The share by which a cost comes to the capacity; 1 where it is below."""
    low, high = np.zeros(len(powers)), np.ones(len(powers))
    low = np.where(_polynomial(powers, high) <= capacity, 1.0, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = _polynomial(powers, middle) <= capacity
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low


def _scaled(caused: Floats, timed: Bools, shares: Floats) -> Floats:
    """``caused`` when shares are kept: arrivals at every input meet less in all time windows."""
    together = np.where(timed, shares, 1.0).prod(axis=-1, keepdims=True)
    return np.asarray(caused * np.where(timed, 1.0, shares) * together)
