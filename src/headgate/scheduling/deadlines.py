"""Latency bounds of queries, turned into the time by which each operator must start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView

# a turn under a deadline takes at most this share of the latency bound before others are looked at again
_TURN_SHARE = 0.01


@dataclass(frozen=True)
class Due:
    """What lies between a queue and the output that presses most.

    ``remaining_s`` is the time of one tuple that passes all operators of the ``route``; ``expected_s`` counts
    with their selectivities.
    """

    route: tuple[str, ...]
    latency_s: float
    remaining_s: float
    expected_s: float

    def slack_s(self, oldest_s: float, now_s: float) -> float:
        """How long a tuple that came at ``oldest_s`` can still wait."""
        return oldest_s + self.latency_s - self.remaining_s - now_s

    def bounded(self, queue: QueueView) -> float:
        """A number of tuples that is soon done: one at least, not so many that others become late."""
        if math.isinf(self.latency_s) or self.remaining_s <= 0:
            return queue.ready
        return min(queue.ready, max(1.0, _TURN_SHARE * self.latency_s / self.remaining_s))


def due_by_operator(network: Network, profiles: Profiles, latency_s: float) -> Mapping[str, Due]:
    """Every operator's most pressing output; ``latency_s`` is the bound of queries that have none."""
    bounds: dict[str, float] = {}
    for query in network.queries.values():
        bound = latency_s if query.latency_s is None else query.latency_s
        for output in query.outputs:
            bounds[output] = min(bound, bounds.get(output, math.inf))
    due: dict[str, Due] = {}
    for name in reversed(list(network.operators)):
        seconds, selectivity = profiles[name].seconds_per_tuple, profiles[name].selectivity
        ways = [
            Due((name, *d.route), d.latency_s, seconds + d.remaining_s, seconds + selectivity * d.expected_s)
            for d in (due[reader] for reader in network.readers(name))
        ]
        if name in bounds or not ways:
            ways.append(Due((name,), bounds.get(name, latency_s), seconds, seconds))
        due[name] = min(ways, key=lambda d: (d.latency_s - d.remaining_s, -d.remaining_s))
    return due
