"""scq: to the operator that drops most tuples per second of waiting and work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import largest
from headgate.routing.router import RoutingView, StatisticsRouter
from headgate.routing.sc import benefit
from headgate.routing.statistics import Statistics


def behind(queue: float, dropped_per_s: float) -> float:
    """A benefit as it is behind a queue: waiting counts as work."""
    return dropped_per_s / (1.0 + queue)


def queue_benefit(known: Statistics) -> float:
    """Tuples dropped per second of waiting and work."""
    return behind(known.queue, benefit(known.selectivity, known.seconds))


class SelectivityCostQueue(StatisticsRouter):
    """As sc, where a queue counts as work."""

    name = "scq"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """All to the largest benefit."""
        return largest({name: queue_benefit(view.statistics[name]) for name in eligible})
