"""Plans behind their boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.planning.joins.figures import Floats


@dataclass(frozen=True)
class Shed:
    """What is kept of each box, and what plans cost and give then."""

    keep: Floats
    cost_per_s: Floats
    joined_per_s: Floats

    @property
    def objective(self) -> Floats:
        """Output for its cost, R(p)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = self.joined_per_s / self.cost_per_s
        return np.where(self.cost_per_s > 0, worth, np.where(self.joined_per_s > 0, np.inf, 0.0))
