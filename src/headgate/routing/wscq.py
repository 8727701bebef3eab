"""wscq: as scq, but at random, by the square of the benefit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import in_proportion
from headgate.routing.router import RoutingView, StatisticsRouter
from headgate.routing.scq import queue_benefit


class WeightedSelectivityCostQueue(StatisticsRouter):
    """Several orders at once; long queues repel."""

    name = "wscq"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """In proportion to the square of the benefit."""
        return in_proportion({name: queue_benefit(view.statistics[name]) ** 2 for name in eligible})
