"""Showing a run while it is on: in a terminal, in a notebook, or as lines of a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from headgate.formats.html import html_paragraph
from headgate.model.status import RunStatus
from headgate.report.screen import queries_table, streams_table

_LINE_EVERY_S = 5.0
_INTERRUPTED = "no longer watching; the run goes on"


class Watched(Protocol):
    """What is watched: a run."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end, and return whether it has come."""

    def status(self) -> RunStatus:
        """Counts so far."""


class Display(AbstractContextManager["Display"], Protocol):
    """Where a status is shown, in place of the one before."""

    def show(self, status: RunStatus) -> None:
        """Show a status."""

    def say(self, text: str) -> None:
        """Show a line below it."""


def watch(run: Watched, every_s: float, display: Display) -> None:
    """Show the status until the run ends; an interrupt ends the watching alone."""
    with display:
        try:
            is_over = False
            while not is_over:
                display.show(run.status())
                is_over = run.wait(every_s)
        except KeyboardInterrupt:
            display.say(_INTERRUPTED)
        finally:
            display.show(run.status())


def display_here() -> Display:
    """The display of the place where this process is used."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # IPython in a terminal has no kernel
    if getattr(shell, "kernel", None) is not None:
        return InNotebook(import_module("IPython.display"))
    console = Console(highlight=False)
    return InTerminal(console) if console.is_terminal else AsLines(console)


class InTerminal:
    """A live table; the last one stays."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> InTerminal:
        """Take over the lines below the cursor."""
        self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        """Give the terminal back."""
        self._live.stop()

    def show(self, status: RunStatus) -> None:
        """Draw the tables anew."""
        warnings = (Text(f"warning: {warning}") for warning in status.warnings[-1:])
        tables = (queries_table(status), streams_table(status), Text(status.summary))
        self._live.update(Group(*tables, *warnings), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above the tables."""
        self._live.console.print(text)


class InNotebook:
    """The tables of a status as HTML, in the output of the cell; ``display`` is ``IPython.display``."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None
        self._below = ""

    def __enter__(self) -> InNotebook:
        """Nothing is shown yet."""
        return self

    def __exit__(self, *failure: object) -> None:
        """The last status stays."""

    def show(self, status: RunStatus) -> None:
        """Replace the output."""
        page = self._display.HTML(status._repr_html_() + self._below)
        if self._handle is None:
            self._handle = self._display.display(page, display_id=True)
        else:
            self._handle.update(page)

    def say(self, text: str) -> None:
        """Below all later statuses."""
        self._below = html_paragraph(text)


class AsLines:
    """A line every few seconds, and at the end."""

    def __init__(self, console: Console, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock_s = clock_s
        self._shown_s = -_LINE_EVERY_S
        self._status: RunStatus | None = None

    def __enter__(self) -> AsLines:
        """Nothing is shown yet."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Show the last status."""
        if self._status is not None:
            self._print(self._status)

    def show(self, status: RunStatus) -> None:
        """Print a line, unless the last one is recent."""
        self._status = status
        if self._clock_s() >= self._shown_s + _LINE_EVERY_S:
            self._shown_s = self._clock_s()
            self._print(status)
            self._status = None

    def _print(self, status: RunStatus) -> None:
        rows_out = sum(query.rows_out for query in status.queries.values())
        self._console.print(f"{rows_out:,} rows out; {status.summary}", soft_wrap=True, markup=False)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text)
