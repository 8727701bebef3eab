"""What a command is doing, on standard error, once it takes more than a moment."""

from __future__ import annotations

import threading
import time

from rich.console import Console

_FIRST_AFTER_S = 2.0
_LIVE_EVERY_S = 0.5
_PLAIN_EVERY_S = 10.0


class Working:
    """A line that shows the stage of the work, the share that is done if it is known, and the time.

    On a terminal the line is rewritten, and removed at the end; elsewhere there is a new one now and then.
    """

    def __init__(self, stage: str, console: Console | None = None) -> None:
        self.stage = stage
        self._console = console or Console(stderr=True, highlight=False)
        self._share = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._started_s = time.monotonic()

    def __enter__(self) -> Working:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()

    def enter(self, stage: str) -> None:
        self.stage, self._share = stage, 0.0

    def report(self, share: float) -> None:
        """Note the share of this stage that is done; what was expected may be exceeded."""
        self._share = min(share, 1.0)

    def line(self) -> str:
        done = f": {self._share:.0%}" if self._share else ""
        return f"{self.stage}{done}, {time.monotonic() - self._started_s:.0f} s so far; Ctrl-C stops it"

    def _show(self) -> None:
        is_live, wait_s = self._console.is_terminal, _FIRST_AFTER_S
        while not self._is_over.wait(wait_s):
            self._console.print(self.line(), end="\r" if is_live else "\n", soft_wrap=True, markup=False)
            wait_s = _LIVE_EVERY_S if is_live else _PLAIN_EVERY_S
        if is_live and wait_s != _FIRST_AFTER_S:
            # over the longest line so far
            self._console.print(" " * (self._console.width - 1), end="\r")
