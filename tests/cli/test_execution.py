"""Waiting for the end of a run: a time that counts from the first tick, signals, and what is looked at."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from tests.fake_runs import FakeSparkRun, a_run

from headgate.cli.execution import watch
from headgate.cli.progress import Progress
from headgate.cli.signals import Interrupt
from headgate.errors import SetupError
from headgate.model.event import TickStarted
from headgate.session.handle import Run

Eventually = Callable[[Callable[[], bool], float], None]


class Watching(threading.Thread):
    """A run that another thread watches."""

    def __init__(self, run: Run, for_s: float | None = None) -> None:
        super().__init__(daemon=True)
        self.said = io.StringIO()
        self.progress = Progress("", Console(file=self.said, width=200))
        self.interrupt = Interrupt()
        self.looks = 0
        self.error: Exception | None = None
        self._run, self._for_s = run, for_s
        self.start()

    def run(self) -> None:
        try:
            watch(self._run, self._for_s, self.progress, self.interrupt, self._look)
        except SetupError as error:
            self.error = error

    def _look(self) -> None:
        self.looks += 1


@pytest.fixture
def started(tmp_path: Path) -> tuple[Run, FakeSparkRun]:
    return a_run(tmp_path)


@pytest.mark.slow
def test_a_time_counts_from_the_first_tick(started: tuple[Run, FakeSparkRun], eventually: Eventually) -> None:
    run, behind = started
    watching = Watching(run, for_s=0.01)
    eventually(lambda: watching.looks >= 3, 10)
    assert behind.is_running
    watching.progress(TickStarted(0.0, 0))
    eventually(lambda: not watching.is_alive(), 10)
    assert not behind.is_running


def test_a_signal_is_answered_at_once_and_lets_the_run_end(
    started: tuple[Run, FakeSparkRun], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, behind = started
    asked: list[bool] = []
    monkeypatch.setattr(behind, "ask_to_stop", lambda: asked.append(True))
    watching = Watching(run)
    watching.interrupt.note(signal.SIGTERM, None)
    eventually(lambda: watching.looks >= 3, 10)
    # the tick under way goes on, however long it takes
    assert asked == [True] and watching.is_alive()
    assert watching.said.getvalue() == "finishing the tick, Ctrl-C again to abort\n"
    behind.over.set()
    eventually(lambda: not watching.is_alive(), 10)


def test_what_was_committed_before_a_failure_is_looked_at(
    started: tuple[Run, FakeSparkRun], eventually: Eventually
) -> None:
    run, behind = started
    behind.fail(SetupError("the disk is full"))
    watching = Watching(run)
    eventually(lambda: not watching.is_alive(), 10)
    assert watching.looks == 1 and str(watching.error) == "the disk is full"
