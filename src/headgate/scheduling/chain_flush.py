"""Chain-flush: chain, until a deadline is about to be missed."""

from __future__ import annotations

import math

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.scheduling.chain import Chain
from headgate.scheduling.deadlines import due_by_operator
from headgate.scheduling.strategy import Strategy


class ChainFlush:
    """Chain, but a queue whose head must start now to be in time goes first, all the way to the output.

    Only heads of queues are looked at. ``latency_s`` bounds queries that have no bound of their own;
    ``margin_s`` is how much earlier to flush, where decisions are far apart. They may be changed at any time,
    and count from the next ``prepare``.
    """

    name = "chain-flush"

    def __init__(
        self, latency_s: float = math.inf, margin_s: float = 0.0, base: Strategy | None = None
    ) -> None:
        self.latency_s = latency_s
        self.margin_s = margin_s
        self.base = base or Chain()

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare chain, and note the time from each queue to the output."""
        self.base.prepare(network, profiles)
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
        """Of the heads that have no slack left the one due first, else what chain says."""
        latest_s = view.now_s + self.margin_s
        first, pressing = (math.inf, math.inf), None
        for queue in view.ready():
            due = self._due[queue.operator]
            if due.slack_s(queue.oldest_s, latest_s) <= 0:
                rank = (queue.oldest_s + due.latency_s, due.remaining_s)
                if rank < first:
                    first, pressing = rank, queue
        if pressing is None:
            return self.base.choose(view)
        due = self._due[pressing.operator]
        return Turn(due.route, due.bounded(pressing))
