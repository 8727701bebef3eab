"""Ctrl-C as a wish to end, not as an accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Whether the user has asked for the end; asking a second time ends at once."""

    def __init__(self) -> None:
        self.wanted = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Take in a signal."""
        del number, frame
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Take over the signals that ask for the end.

    Spark's own handler, which this replaces for a while, would cancel the jobs of the tick under way.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.signal(number, interrupt.note) for number in _SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
