from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from tests.fake_runs import FakeSparkRun, a_run

from headgate.errors import SetupError
from headgate.model.status import RunStatus
from headgate.report.watching import AsLines, InNotebook, InTerminal, display_here, watch
from headgate.session.handle import Run


class Noted:
    """A display that remembers, and does something at a certain status."""

    def __init__(self, at: int = -1, deed: Any = None) -> None:
        self.shown: list[RunStatus] = []
        self.said: list[str] = []
        self.is_open = False
        self._at, self._deed = at, deed

    def __enter__(self) -> Noted:
        self.is_open = True
        return self

    def __exit__(self, *failure: object) -> None:
        self.is_open = False

    def show(self, status: RunStatus) -> None:
        self.shown.append(status)
        if len(self.shown) == self._at:
            self._deed()

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Run, FakeSparkRun]:
    return a_run(tmp_path)


def test_watching_ends_with_the_run_and_shows_it_before_and_after(both: tuple[Run, FakeSparkRun]) -> None:
    run, behind = both
    display = Noted(at=3, deed=behind.over.set)
    watch(run, 0.001, display)
    assert len(display.shown) == 4 and not display.is_open and display.said == []


def test_an_interrupt_ends_the_watching_and_not_the_run(both: tuple[Run, FakeSparkRun]) -> None:
    run, _ = both

    def interrupt() -> None:
        raise KeyboardInterrupt

    display = Noted(at=2, deed=interrupt)
    watch(run, 0.001, display)
    assert display.said == ["no longer watching; the run goes on"]
    assert run.is_running and not display.is_open


def test_the_error_of_a_run_is_raised_once_it_was_shown(both: tuple[Run, FakeSparkRun]) -> None:
    run, behind = both
    display = Noted(at=2, deed=lambda: behind.fail(SetupError("no more")))
    with pytest.raises(SetupError, match="no more"):
        watch(run, 0.001, display)
    assert len(display.shown) == 3 and not display.is_open


def test_in_a_terminal_the_tables_change_in_place_and_the_last_ones_stay(
    both: tuple[Run, FakeSparkRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, behind = both
    file, waits = io.StringIO(), iter([False, False, True])
    monkeypatch.setattr(behind, "wait", lambda timeout_s: next(waits))
    watch(run, 0.01, InTerminal(Console(file=file, force_terminal=True, width=100)))
    drawn = file.getvalue()
    assert drawn.count("out (rows)") >= 2 and "packets" in drawn
    # the cursor goes up over the tables before they are drawn anew
    assert "\x1b[1A" in drawn
    assert "0 ticks in 0.0 s" in drawn.split("\x1b[1A")[-1]


class FakeIPython(ModuleType):
    """Remembers what a notebook was asked to show."""

    def __init__(self, kernel: object) -> None:
        super().__init__("IPython")
        self.pages: list[str] = []
        self.get_ipython = lambda: SimpleNamespace(kernel=kernel) if kernel else SimpleNamespace()
        self.HTML = str

    def display(self, page: str, display_id: bool) -> Any:
        assert display_id
        self.pages.append(page)
        return SimpleNamespace(update=lambda page: self.pages.append(page))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> FakeIPython:
    module = FakeIPython(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return module


def test_in_a_notebook_one_output_is_replaced(
    both: tuple[Run, FakeSparkRun], notebook: FakeIPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = both
    assert isinstance(display_here(), InNotebook)
    waits = iter([False, KeyboardInterrupt()])

    def wait(timeout_s: float | None = None) -> bool:
        found = next(waits)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(run._run, "wait", wait)
    run.watch("10 ms")
    assert len(notebook.pages) == 3 and all("<table>" in page for page in notebook.pages)
    assert "the run goes on" in notebook.pages[-1] and "the run goes on" not in notebook.pages[0]


def test_without_a_kernel_or_a_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", FakeIPython(kernel=None))
    assert isinstance(display_here(), AsLines)


def test_lines_are_some_seconds_apart_and_the_last_status_has_one(both: tuple[Run, FakeSparkRun]) -> None:
    run, _ = both
    file, now_s = io.StringIO(), [100.0]
    display = AsLines(Console(file=file, width=200), lambda: now_s[0])
    with display:
        for _ in range(13):
            display.show(run.status())
            now_s[0] += 1
    # at 100, 105 and 110 s, and at the end
    assert file.getvalue().splitlines() == ["0 rows out; 0 ticks in 0.0 s; backlog 0 tuples, 0 at most"] * 4
