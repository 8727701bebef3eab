"""Least slack: the tuple that can wait the least."""

from __future__ import annotations

import math

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.scheduling.deadlines import due_by_operator


class LeastSlack:
    """A query's latency bound gives every operator a latest start; the head nearest to its own goes first.

    ``latency_s`` bounds queries that have no bound of their own. Without any, the oldest goes first.
    """

    name = "least-slack"

    def __init__(self, latency_s: float = math.inf) -> None:
        self.latency_s = latency_s

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Note the time from each queue to the output."""
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
        """The head with the least slack, to the output; among equals the oldest, nearest to it."""
        best, chosen = (math.inf, math.inf, math.inf), None
        for queue in view.ready():
            due = self._due[queue.operator]
            rank = (due.slack_s(queue.oldest_s, view.now_s), queue.oldest_s, due.remaining_s)
            if chosen is None or rank < best:
                best, chosen = rank, queue
        if chosen is None:
            return None
        due = self._due[chosen.operator]
        return Turn(due.route, due.bounded(chosen))
