"""Observers see every event; one that raises is unplugged, the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from headgate.model.event import Event

Observer = Callable[[Event], None]

_log = logging.getLogger("headgate")


class Observers:
    """The observers still plugged in."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._plugged = list(observers)

    def notify(self, event: Event) -> None:
        """Show the event to all."""
        for observer in list(self._plugged):
            try:
                observer(event)
            except Exception:
                _log.exception("observer %r raised and is unplugged", observer)
                self._plugged.remove(observer)
