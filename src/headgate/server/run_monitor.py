"""Observes a run: each tick becomes a sample, and what changes between ticks is noticed every second.

The run itself only hands events over. Encoding them, and asking for settings and profiles, is the work of a
thread of its own, so that a tick waits for nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headgate.model.event import Event, SettingsChanged, StreamCounts, TickCommitted
from headgate.server import documents
from headgate.server.hub import Hub

if TYPE_CHECKING:
    from headgate.model.network import Network
    from headgate.session.following import Followers
    from headgate.session.handle import Run

_LOOK_EVERY_S = 1.0
# charts change slowly, and cost more than all else
_CHARTS_EVERY_S = 5.0
_MOST_UNREAD = 1_000


class RunMonitor:
    """An observer of runs, and the thread that publishes what it sees."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._events: queue.Queue[Event | None] = queue.Queue(_MOST_UNREAD)
        self._run: Run | None = None
        self._network: Network | None = None
        self._totals: dict[str, StreamCounts] = {}
        self._published: dict[str, Any] = {}
        self._warned: set[str] = set()
        self._charts_s = 0.0
        self._is_known = threading.Event()
        self._is_known.set()
        self.handover_s = 0.0
        """Seconds that ticks have waited for the observer."""
        self.sampling_s = 0.0
        """Processor seconds of the thread."""
        self.ticks_s = 0.0
        """Seconds of all ticks seen."""
        self._thread = threading.Thread(target=self._work, name="headgate-monitor", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Hand an event over; called by the run."""
        began_s = time.perf_counter()
        if isinstance(event, (TickCommitted, SettingsChanged)):
            try:
                self._events.put_nowait(event)
            except queue.Full:
                # pages miss a tick, the run goes on
                return
        self.handover_s += time.perf_counter() - began_s

    def watch(self, start: Callable[[], Run]) -> None:
        """Start a run that this observes; its first ticks wait until it is known."""
        self._is_known.clear()
        try:
            found = start()
            self._totals, self._network, self._run = {}, None, found
        finally:
            self._is_known.set()

    def join(self, run: Run, followers: Followers) -> None:
        """Follow a run that is on already, from its last minutes on."""
        self._is_known.clear()
        try:
            self._totals, self._network, self._run = followers.add(self), None, run
        finally:
            self._is_known.set()

    def close(self) -> None:
        """Publish what is left, and end the thread."""
        self._events.put(None)
        self._thread.join(5.0)

    def _work(self) -> None:
        looked_s = 0.0
        while True:
            try:
                event = self._events.get(timeout=_LOOK_EVERY_S)
                if event is None:
                    break
                self._publish(event)
            except queue.Empty:
                pass
            if time.monotonic() >= looked_s + _LOOK_EVERY_S:
                self.look()
                looked_s = time.monotonic()
            self.sampling_s = time.thread_time()
        self.look()

    def _publish(self, event: Event) -> None:
        self._is_known.wait()
        if self._network is None:
            # a page draws the network before its first sample
            self.look()
        if isinstance(event, SettingsChanged):
            self.hub.publish("decision", documents.decision(event), event.now_s)
        elif isinstance(event, TickCommitted):
            self.ticks_s += event.seconds
            for name, counts in event.streams.items():
                self._totals[name] = self._totals.get(name, StreamCounts()) + counts
            run = self._run
            processors = 1 if run is None else run.settings().processors
            pools = {} if run is None else run.pools()
            self.hub.publish("tick", documents.sample(event, self._totals, pools, processors), event.now_s)

    def look(self) -> None:
        """Publish what has changed besides ticks."""
        run = self._run
        if run is None:
            self._state("run", {"state": "waiting", "checkpoint": None, "error": None, "paused": []})
            return
        if run.network is not self._network:
            self._network = run.network
            self._state("network", documents.network(run.network))
            self._charts_s = 0.0
        self._state("settings", documents.settings(run.settings()))
        self._state("run", documents.run_state(run))
        if time.monotonic() >= self._charts_s + _CHARTS_EVERY_S:
            self._charts_s = time.monotonic()
            self._state("strategy", documents.strategy(run))
        for warning in run.warnings():
            if warning not in self._warned:
                self._warned.add(warning)
                self.hub.publish("warning", {"text": warning, "at_s": time.time()})

    def _state(self, kind: str, document: dict[str, Any]) -> None:
        if self._published.get(kind) != document:
            self._published[kind] = document
            self.hub.publish(kind, document)
