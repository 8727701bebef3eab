"""First in, first out."""

from __future__ import annotations

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn


class Fifo:
    """Oldest tuple first, taken through its whole path before the next one."""

    name = "fifo"

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Remember where each operator's tuples go."""
        self._path_from = {name: network.path_from(name) for name in network.operators}

    def choose(self, view: SystemView) -> Turn | None:
        """The queue whose head arrived first; among equals the one nearest to the output."""
        ready = view.ready()
        if not ready:
            return None
        oldest = min(ready, key=lambda q: (q.oldest_s, len(self._path_from[q.operator]), q.operator))
        return Turn(self._path_from[oldest.operator], oldest.ready)
