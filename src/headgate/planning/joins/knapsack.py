"""The continuous knapsack: what to take of items that can be divided."""

from __future__ import annotations

import numpy as np

from headgate.planning.joins.figures import Floats


def knapsack(gains: Floats, costs: Floats, capacity: Floats) -> Floats:
    """Shares of each item, along the last axis, with the most gain whose cost is within the capacity.

    Items are taken by falling gain for their cost; what costs nothing is taken whole.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        # rounded, so that of equals the first is taken, whatever the last digit says
        worth = np.round(np.log(np.where(costs > 0, gains / costs, np.inf)), 11)
    order = np.argsort(-worth, axis=-1, kind="stable")
    in_order = np.take_along_axis(costs, order, axis=-1)
    left = capacity[..., None] - (np.cumsum(in_order, axis=-1) - in_order)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(in_order > 0, np.clip(left / in_order, 0.0, 1.0), 1.0)
    taken = np.empty_like(shares)
    np.put_along_axis(taken, order, shares, axis=-1)
    return taken
