"""Plans over row windows: output and cost are linear in what is kept, and drop boxes a knapsack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.planning.joins.figures import Figures, Floats
from headgate.planning.joins.knapsack import knapsack
from headgate.planning.joins.plans import Terms
from headgate.planning.joins.shed import Shed


@dataclass(frozen=True)
class LinearFlows:
    """Joined tuples and cost a second that each box lets through when it keeps all: ``gains[plan, box]``."""

    gains: Floats
    costs: Floats

    @staticmethod
    def of(terms: Terms, figures: Figures) -> LinearFlows:
        """The plans of ``terms``."""
        caused = figures.caused_per_s
        by_term = caused[terms.problems[:, None], terms.subsets]
        costs = np.matmul(terms.seconds[:, None, :], by_term)[:, 0] + terms.select_cost_per_s
        return LinearFlows(caused[terms.problems, terms.whole] @ figures.box_of, costs @ figures.box_of)

    def cost_per_s(self, keep: Floats) -> Floats:
        """Processors kept busy."""
        return np.asarray((self.costs * keep).sum(axis=-1))

    def joined_per_s(self, keep: Floats) -> Floats:
        """Tuples of the whole join a second."""
        return np.asarray((self.gains * keep).sum(axis=-1))

    def keep_within(self, most: Floats, capacity: Floats) -> Floats:
        """The shares with the most output, none above ``most``, whose cost is within the capacity."""
        over = self.cost_per_s(most) > capacity
        shares = knapsack(self.gains[over] * most[over], self.costs[over] * most[over], capacity[over])
        keep: Floats = most.copy()
        keep[over] *= shares
        return keep

    def roughly_within(self, most: Floats, capacity: Floats) -> Shed:
        """A knapsack takes no time."""
        keep = self.keep_within(most, capacity)
        return Shed(keep, self.cost_per_s(keep), self.joined_per_s(keep))

    def refined(self, plan: int, keep: Floats, capacity: float) -> Floats:
        """A knapsack needs no refining."""
        del plan, capacity
        return keep
