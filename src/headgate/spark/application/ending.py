"""The end of a process: its JVM ends first, then its temporary folders go, and nothing of it stays behind."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import socketserver
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Protocol

# Spark's own tidying up takes less than a second
_GRACE_S = 10.0
_PROCESSES = Path("/proc")


class OpenRun(Protocol):
    """A run that may still be under way when the process ends."""

    def abandon(self) -> None:
        """Stop writing, whatever becomes of the tick under way."""


class _Left:
    """What is to be gone when the process that has started it ends; a forked one leaves it alone."""

    process_id = os.getpid()
    jvms: ClassVar[list[subprocess.Popen[bytes]]] = []
    folders: ClassVar[dict[str, None]] = {}
    ending = threading.RLock()
    is_under_way = False
    runs: ClassVar[set[OpenRun]] = set()


def temporary_folder(prefix: str) -> str:
    """A new folder that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    _Left.folders[folder] = None
    return folder


def keep_folder(folder: str | Path) -> None:
    """Leave a temporary folder to the user."""
    _Left.folders.pop(str(folder), None)


def remove_folder(folder: str | Path) -> None:
    """Remove a temporary folder before the process ends."""
    shutil.rmtree(folder, ignore_errors=True)
    keep_folder(folder)


def end_with_process(jvm: subprocess.Popen[bytes]) -> None:
    """Let a JVM, the first process of a session of its own, end when this process does."""
    _Left.jvms.append(jvm)


def begin_run(run: OpenRun) -> None:
    """Note that a run is under way."""
    _Left.runs.add(run)


def end_run(run: OpenRun) -> None:
    """Note that a run has come to its end."""
    _Left.runs.discard(run)


def is_under_way() -> bool:
    """Whether this process is about to end."""
    return _Left.is_under_way


@atexit.register
def end(grace_s: float = _GRACE_S) -> None:
    """End the JVM, by force if it has not ended after a while, and remove temporary folders."""
    if os.getpid() != _Left.process_id:
        return
    _Left.is_under_way = True
    _silence()
    if _Left.jvms and _Left.runs:
        # Spark would cancel the jobs of the tick under way one by one, and say so
        grace_s = 0.0
    with _Left.ending:
        if not _Left.jvms:
            for run in list(_Left.runs):
                run.abandon()
        while _Left.jvms:
            end_jvm(_Left.jvms.pop(), grace_s)
        for folder in list(_Left.folders):
            remove_folder(folder)


def _silence() -> None:
    """Keep threads that talk to the JVM from reporting that it has gone."""
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda failure: None
    # of PySpark's server of accumulators
    socketserver.BaseServer.handle_error = lambda *request: None  # type: ignore[method-assign]


def end_jvm(jvm: subprocess.Popen[bytes], grace_s: float = 0.0) -> None:
    """End a JVM and the Python workers that it has started."""
    with suppress(ValueError):
        _Left.jvms.remove(jvm)
    # the gateway ends when its standard input does
    with suppress(OSError):
        assert jvm.stdin is not None
        jvm.stdin.close()
    try:
        jvm.wait(grace_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
    for process_id in _session(jvm.pid):
        with suppress(OSError):
            os.kill(process_id, signal.SIGKILL)


def _session(leader: int) -> list[int]:
    """Processes of a session whose leader has ended; none where the system does not list them."""
    found = []
    for entry in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            # the name of a process is in brackets, and may have blanks and brackets in it
            state, _, _, session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(entry.parent.name))
    return found
