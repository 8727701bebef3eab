"""Changing strategy and latency bounds while a network runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.scheduling.strategy import Strategy


class Steered:
    """A strategy that another thread may exchange; a change counts from the next decision on."""

    def __init__(self, strategy: Strategy) -> None:
        self._lock = threading.Lock()
        self._strategy = strategy
        self.name = strategy.name
        self._latencies_s: dict[str, float | None] = {}
        self._known: tuple[Network, Profiles] | None = None
        self._changed = False

    def use(self, strategy: Strategy) -> None:
        """Put another strategy in charge."""
        with self._lock:
            self._strategy, self.name = strategy, strategy.name
            self._changed = True

    def bound(self, latencies_s: Mapping[str, float | None]) -> None:
        """Change the latency bounds of queries; None takes a bound away."""
        with self._lock:
            self._latencies_s.update(latencies_s)
            self._changed = True

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare the strategy in charge."""
        with self._lock:
            self._known = network, profiles
            self._prepare()

    def choose(self, view: SystemView) -> Turn | None:
        """What the strategy in charge says."""
        with self._lock:
            if self._changed:
                self._prepare()
            return self._strategy.choose(view)

    def _prepare(self) -> None:
        assert self._known is not None
        network, profiles = self._known
        self._strategy.prepare(_bounded(network, self._latencies_s), profiles)
        self._changed = False


def _bounded(network: Network, latencies_s: Mapping[str, float | None]) -> Network:
    if not latencies_s:
        return network
    queries = tuple(
        replace(query, latency_s=latencies_s.get(query.name, query.latency_s))
        for query in network.queries.values()
    )
    return network.changed(queries=queries)
