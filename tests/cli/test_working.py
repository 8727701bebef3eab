"""What a command shows of work without ticks."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from headgate.cli import working
from headgate.cli.working import Working


def on(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, highlight=False, width=80)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_short_work_shows_nothing() -> None:
    for console in (on(True), on(False)):
        with Working("reading", console):
            pass
        assert text_of(console) == ""


def test_the_line_tells_stage_share_and_time() -> None:
    shown = Working("reading", on(False))
    assert shown.line() == "reading, 0 s so far; Ctrl-C stops it"
    shown.report(0.5)
    assert shown.line() == "reading: 50%, 0 s so far; Ctrl-C stops it"
    # more than was expected
    shown.report(1.7)
    assert shown.line().startswith("reading: 100%")
    shown.enter("writing")
    assert shown.line().startswith("writing, 0 s")


@pytest.mark.parametrize("terminal", [True, False])
def test_long_work_shows_where_it_is(
    monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None], terminal: bool
) -> None:
    monkeypatch.setattr(working, "_FIRST_AFTER_S", 0.01)
    monkeypatch.setattr(working, "_LIVE_EVERY_S", 0.02)
    monkeypatch.setattr(working, "_PLAIN_EVERY_S", 0.02)
    console = on(terminal)
    with Working("reading", console) as shown:
        eventually(lambda: "reading, 0 s" in text_of(console))
        shown.enter("writing")
        eventually(lambda: "writing" in text_of(console))
    # on a terminal the line is gone at the end, elsewhere lines stay
    assert text_of(console).endswith("\r" if terminal else "it\n")
