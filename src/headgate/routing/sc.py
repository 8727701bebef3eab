"""sc: to the operator that drops most tuples per second of work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import largest
from headgate.routing.router import RoutingView, StatisticsRouter

_LEAST_SECONDS = 1e-12


def benefit(selectivity: float, seconds: float) -> float:
    """Tuples dropped per second of work; 0 if the operator makes more of them."""
    return max(0.0, 1.0 - selectivity) / max(seconds, _LEAST_SECONDS)


class SelectivityCost(StatisticsRouter):
    """The best order of a single processor."""

    name = "sc"

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """All to the largest benefit."""
        known = view.statistics
        return largest({name: benefit(known[name].selectivity, known[name].seconds) for name in eligible})
