"""Observers that come while a run is on, and the earlier events that they receive."""

from __future__ import annotations

import threading
from collections import deque

from headgate.model.event import Event, SettingsChanged, StreamCounts, TickCommitted
from headgate.runtime.drive import Observer, notify

_MOST_EVENTS = 300


class Followers:
    """An observer that passes events on to others, each of which first gets those of the last minutes."""

    def __init__(self, most_events: int = _MOST_EVENTS) -> None:
        self._most_events = most_events
        self._lock = threading.Lock()
        self._observers: list[Observer] = []
        self._recent: deque[Event] = deque()
        self._before: dict[str, StreamCounts] = {}

    def __call__(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, (TickCommitted, SettingsChanged)):
                self._recent.append(event)
                if len(self._recent) > self._most_events:
                    self._forget(self._recent.popleft())
            notify(self._observers, event)

    def _forget(self, event: Event) -> None:
        if isinstance(event, TickCommitted):
            for name, counts in event.streams.items():
                self._before[name] = self._before.get(name, StreamCounts()) + counts

    def add(self, observer: Observer) -> dict[str, StreamCounts]:
        """Let an observer follow; returns the counts of streams before the first event that it gets."""
        with self._lock:
            for event in self._recent:
                observer(event)
            self._observers.append(observer)
            return dict(self._before)

    def remove(self, observer: Observer) -> None:
        """Let an observer follow no more."""
        with self._lock:
            self._observers = [known for known in self._observers if known is not observer]
