"""t: to the operator with most tickets, one for each tuple that it has taken and not passed on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.routing.choosing import largest
from headgate.routing.q import ShortestQueue
from headgate.routing.router import RoutingView, StatisticsRouter


class Tickets(StatisticsRouter):
    """The lottery of the first eddies, without chance."""

    name = "t"

    def __init__(self) -> None:
        self._without_tickets = ShortestQueue()

    def route(self, done: Collection[str], eligible: Sequence[str], view: RoutingView) -> dict[str, float]:
        """All to whom holds most tickets; if nobody holds any, to the shortest queue."""
        tickets = {name: view.statistics[name].tickets for name in eligible}
        if max(tickets.values()) <= 0:
            return self._without_tickets.route(done, eligible, view)
        return largest(tickets)
