"""However a process ends, nothing of it stays behind: no trace, no process, no temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

Eventually = Callable[[Callable[[], bool], float], None]

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240
ENDLESS = """\
CREATE STREAM packets (src STRING, bytes INT) FROM burst OPTIONS (rate '100', seed '1');
CREATE QUERY big AS SELECT src, bytes FROM packets WHERE bytes > 40 INTO console;
"""
SLOW = """\
CREATE FUNCTION slow AS '{folder}/slow.py:slow' RETURNS int;
CREATE STREAM packets (bytes INT) FROM burst OPTIONS (rate '100', seed '1', duration '1 s', speed 'max');
CREATE QUERY all_of_them AS SELECT slow(bytes) AS b FROM packets;
"""
IDLE = """\
import time

from headgate.spark.application.cluster import own_session

spark = own_session("local[2]")
print("started", flush=True)
time.sleep(600)
"""
FAILING = """\
import headgate

session = headgate.Session(master="local[2]")
session.execute(open("{script}").read())
run = session.start()
while not run.status().ticks:
    run.wait(0.1)
print("ticking", flush=True)
raise ValueError("a script that fails")
"""


@dataclass
class Child:
    """A process at the head of its own group; a mark in the environment tells its descendants."""

    process: subprocess.Popen[str]
    mark: str
    temporary: Path
    errors: Path

    def descendants(self) -> set[int]:
        found = set()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in environ.read_bytes():
                    found.add(int(environ.parent.name))
        return found

    def has_jvm(self) -> bool:
        return any(self._is_java(process) for process in self.descendants())

    def _is_java(self, process: int) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{process}/exe").resolve().name == "java"
        return False

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def said(self) -> str:
        return self.errors.read_text()

    def ended(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def check_that_nothing_is_left(self) -> None:
        assert self.descendants() == set()
        assert [entry.name for entry in self.temporary.iterdir()] == []
        assert "Traceback" not in self.said() and "Exception" not in self.said(), self.said()


Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python process with a place of its own for temporary files."""
    children: list[Child] = []

    def started(*arguments: object, **streams: int) -> Child:
        # the paths of sockets in it must not be long
        temporary = Path(tempfile.mkdtemp())
        mark, errors = uuid.uuid4().hex, tmp_path / f"errors-{len(children)}.txt"
        environ = {**os.environ, "TMPDIR": str(temporary), "HEADGATE_MARK": mark}
        environ["PYTHONPATH"] = str(ROOT / "src")
        with errors.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                env=environ,
                stderr=file,
                stdout=streams.get("stdout", subprocess.DEVNULL),
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        children.append(Child(process, mark, temporary, errors))
        return children[-1]

    yield started
    for child in children:
        for process in child.descendants():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        child.process.wait()
        if child.process.stdout is not None:
            child.process.stdout.close()
        shutil.rmtree(child.temporary)


def script(folder: Path, text: str) -> Path:
    path = folder / "script.sql"
    path.write_text(text.replace("{folder}", str(folder)))
    return path


def test_a_second_signal_does_not_wait_for_the_tick(
    start: Start, tmp_path: Path, eventually: Eventually
) -> None:
    (tmp_path / "slow.py").write_text(
        f"import pathlib, time\n\n\ndef slow(b):\n    pathlib.Path({str(tmp_path)!r}, 'called').touch()\n"
        "    time.sleep(600)\n    return b\n"
    )
    child = start("-m", "headgate", "run", script(tmp_path, SLOW), "--until-done", "--master", "local[2]")
    eventually((tmp_path / "called").exists, TIMEOUT_S)
    child.signal_group(signal.SIGTERM)
    eventually(lambda: "finishing the tick" in child.said(), 10)
    child.signal_group(signal.SIGTERM)
    assert child.ended() == 143
    assert child.said().endswith("terminated\n")
    child.check_that_nothing_is_left()


def test_ctrl_c_while_spark_starts_ends_a_command_at_once(start: Start, eventually: Eventually) -> None:
    child = start("-m", "headgate", "bench", "overload", "--master", "local[2]")
    eventually(child.has_jvm, TIMEOUT_S)
    child.signal_group(signal.SIGINT)
    assert child.ended() == 130
    assert child.said() == "starting Spark\ninterrupted\n"
    child.check_that_nothing_is_left()


def test_a_run_whose_output_nobody_reads_ends(start: Start, tmp_path: Path) -> None:
    child = start(
        "-m",
        "headgate",
        "run",
        script(tmp_path, ENDLESS),
        "--master",
        "local[2]",
        stdout=subprocess.PIPE,
    )
    assert child.process.stdout is not None
    assert child.process.stdout.readline().startswith("-- big, batch")
    child.process.stdout.close()
    assert child.ended() == 141
    child.check_that_nothing_is_left()


def test_the_jvm_of_a_process_that_is_killed_ends_and_removes_temporary_folders(
    start: Start, tmp_path: Path, eventually: Eventually
) -> None:
    idle = tmp_path / "idle.py"
    idle.write_text(IDLE)
    child = start(idle, stdout=subprocess.PIPE)
    assert child.process.stdout is not None
    assert child.process.stdout.readline() == "started\n"
    assert child.has_jvm() and list(child.temporary.iterdir())
    child.process.kill()
    assert child.ended() == -signal.SIGKILL
    eventually(lambda: not child.descendants(), 60)
    child.check_that_nothing_is_left()


def test_a_script_that_fails_while_queries_run_leaves_nothing(start: Start, tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text(FAILING.format(script=script(tmp_path, ENDLESS)))
    child = start(failing)
    assert child.ended() == 1
    # its own traceback, and nothing after it
    lines = child.said().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: a script that fails" and len(lines) == 4
    assert child.descendants() == set()
    assert list(child.temporary.iterdir()) == []
