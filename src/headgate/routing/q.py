"""q: to the shortest queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import largest
from headgate.routing.router import RoutingView, StatisticsRouter


class ShortestQueue(StatisticsRouter):
    """Back-pressure: whoever is behind gets less."""

    name = "q"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """All to the shortest queue."""
        return largest({name: -view.statistics[name].queue for name in eligible})
