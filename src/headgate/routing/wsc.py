"""wsc: as sc, but at random, by the square of the benefit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import in_proportion
from headgate.routing.router import RoutingView, StatisticsRouter
from headgate.routing.sc import benefit


class WeightedSelectivityCost(StatisticsRouter):
    """Several orders at once, the better ones more often."""

    name = "wsc"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """In proportion to the square of the benefit."""
        known = view.statistics
        return in_proportion(
            {name: benefit(known[name].selectivity, known[name].seconds) ** 2 for name in eligible}
        )
