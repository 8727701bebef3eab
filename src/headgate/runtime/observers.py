"""Observers see every event; one that raises is unplugged, the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from headgate.model.event import Event
from headgate.runtime.usercode import Guarded, name_of, user_code_error

Observer = Callable[[Event], None]

_log = logging.getLogger("headgate")


def guarded(observers: Iterable[Observer]) -> list[Observer]:
    """Observers of the user's, so that a run need not wait for one that hangs."""
    return [Guarded(f"observer {name_of(observer)}", observer) for observer in observers]


class Observers:
    """The observers still plugged in."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._plugged = list(observers)

    def notify(self, event: Event) -> None:
        """Show the event to all."""
        for observer in list(self._plugged):
            try:
                observer(event)
            # not KeyboardInterrupt: on the main thread that is Ctrl-C
            except (Exception, SystemExit) as error:
                told = user_code_error(f"observer {name_of(observer)}", error)
                _log.error("%s; it is unplugged, the run goes on", told)
                _log.debug("its traceback", exc_info=error)
                self._plugged.remove(observer)
