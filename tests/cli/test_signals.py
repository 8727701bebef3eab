"""A command that is told to end does so without a trace, with the exit code that shells expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from headgate.cli import app
from headgate.cli.signals import Interrupted, ending_at_once

Eventually = Callable[[Callable[[], bool], float], None]
SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_to_the_group_ends_a_computation(
    tmp_path: Path, eventually: Eventually, number: int, code: int, said: str
) -> None:
    errors = tmp_path / "errors.txt"
    command = [sys.executable, "-m", "headgate", "reproduce", "eddies", "--out", str(tmp_path / "out")]
    with errors.open("w") as file:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            start_new_session=True,
        )
    eventually(lambda: "computing eddies" in errors.read_text(), 60)
    os.killpg(process.pid, number)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (code, b"")
    assert errors.read_text().endswith(f"{said}\n")
    assert "Traceback" not in errors.read_text()


def test_handlers_of_others_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.raises(Interrupted, match="terminated") as ended, ending_at_once():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.exit_code == 143
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize(
    ("code", "is_cut_short"), [(0, False), (2, False), (130, True), (141, True), (143, True)]
)
def test_a_command_that_is_cut_short_leaves_nothing_and_waits_for_no_thread(
    monkeypatch: pytest.MonkeyPatch, code: int, is_cut_short: bool
) -> None:
    done: list[object] = []

    def command(prog_name: str) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(app, "app", command)
    monkeypatch.setattr(app, "leave_nothing", lambda: done.append("tidy"))
    monkeypatch.setattr(os, "_exit", done.append)
    with nullcontext() if is_cut_short else pytest.raises(SystemExit):
        app.main()
    assert done == (["tidy", code] if is_cut_short else [])
