"""Ctrl-C and SIGTERM: a command ends without a trace, and with the exit code that shells expect."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """A signal ends the command at once."""

    def __init__(self, number: int) -> None:
        super().__init__(_NAMES[signal.Signals(number)])
        self.exit_code = exit_code(number)


def exit_code(number: int) -> int:
    """As shells report a process that a signal has ended."""
    return 128 + number


class Interrupt:
    """Whether a signal has come that stops the run; a second one ends the command at once."""

    number: int | None = None
    _is_seen = False

    @property
    def wanted(self) -> bool:
        return self.number is not None

    def is_new(self) -> bool:
        """Whether there has been a first signal since the last call."""
        was_seen, self._is_seen = self._is_seen, self.wanted
        return self.wanted and not was_seen

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            _end(number, frame)
        self.number = number


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let the first signal ask to stop, so that the tick under way is finished."""
    interrupt = Interrupt()
    with _handled_by(interrupt.note):
        yield interrupt


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let a signal end the command: it raises, so that all is tidied up; a second one does not wait."""
    with _handled_by(_end):
        yield


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in _NAMES}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _end(number: int, frame: FrameType | None) -> None:
    for each in _NAMES:
        signal.signal(each, _give_up)
    raise Interrupted(number)


def _give_up(number: int, frame: FrameType | None) -> None:
    leave_nothing()
    os._exit(exit_code(number))


def leave_nothing() -> None:
    """Kill Spark, if it was started, and remove temporary folders."""
    # not imported for a command that has no use of it
    ending: Any = sys.modules.get("headgate.spark.application.ending")
    if ending is not None:
        ending.end(grace_s=0.0)
