"""Which share of its streams' tuples a query's results are based on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf

from headgate.model.event import StreamCounts, kept_share
from headgate.model.network import Network
from headgate.model.operator import Aggregate, WindowUpdate
from headgate.model.window import TimeWindow, UnboundedWindow, Window
from headgate.spark.intake import Arrival


class KeptShares:
    """Remembers what boxes let through for as long as windows reach back."""

    def __init__(self, network: Network) -> None:
        self._streams_of = {query: network.streams_of(query) for query in network.queries}
        self._reach_us = {query: _reach_us(network, query) for query in network.queries}
        self._longest_us = max((r for r in self._reach_us.values() if r < inf), default=0.0)
        self._recent: dict[str, deque[tuple[int, StreamCounts]]] = {s: deque() for s in network.streams}

    def take_in(self, arrivals: Mapping[str, Arrival]) -> dict[str, float]:
        """A tick's tuples; the share that each query's results of this tick are based on."""
        for stream, arrival in arrivals.items():
            recent, max_ts = self._recent[stream], arrival.state.max_ts
            if arrival.counts.rows_in:
                recent.append((max_ts, arrival.counts))
            # the last one stays: a tick without tuples goes on with what there is
            while len(recent) > 1 and recent[0][0] < max_ts - self._longest_us:
                recent.popleft()
        return {query: self._share(query, arrivals) for query in self._streams_of}

    def _share(self, query: str, arrivals: Mapping[str, Arrival]) -> float:
        reach_us = self._reach_us[query]
        if reach_us == inf:
            return kept_share(arrivals[stream].state.totals for stream in self._streams_of[query])
        counts = []
        for stream in self._streams_of[query]:
            recent = self._recent[stream]
            since = arrivals[stream].state.max_ts - reach_us
            counts += [found for ts, found in recent if ts >= since] or [found for _, found in [*recent][-1:]]
        return kept_share(counts)


def _reach_us(network: Network, query: str) -> float:
    """How far back the windows of a query reach; row windows as far as the tick."""
    windows: list[Window] = []
    for operator in (network.operators[name] for name in network.operators_of(query)):
        if isinstance(operator, WindowUpdate):
            windows += [side.window for side in operator.sides]
        elif isinstance(operator, Aggregate):
            windows.append(operator.window)
    if any(isinstance(window, UnboundedWindow) for window in windows):
        return inf
    return max((w.reach_us for w in windows if isinstance(w, TimeWindow)), default=0)
