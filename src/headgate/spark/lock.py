"""One run per checkpoint: a lock file that names host and process.

A process is identified by its id and start time, so that a later process with the same id is not mistaken
for it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headgate.errors import SetupError
from headgate.spark.file_system import Files

# two processes that find a stale lock at the same time agree within a few attempts
_ATTEMPTS = 5


@dataclass(frozen=True)
class Holder:
    """A process; ``token`` distinguishes the locks of one process."""

    host: str
    pid: int
    started: str | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @staticmethod
    def parse(text: str) -> Holder | None:
        """The holder named by a lock file; None if the file is incomplete."""
        try:
            return Holder(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None


def process_start(pid: int) -> str | None:
    """When a process started, as the same text for every caller; None if there is no such process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # the program's name is in parentheses, and may contain some
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        state, ticks = after_name[0], after_name[19]
        return None if state in "ZX" else f"{boot}/{ticks}"
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    # a system without /proc
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return None
    return " ".join(done.stdout.split()) or None


@dataclass(eq=False, repr=False)
class RunLock:
    """The lock file of a checkpoint."""

    _files: Files
    _root: str
    _start_of: Callable[[int], str | None] = process_start

    def __post_init__(self) -> None:
        self.path = f"{self._root}/headgate.lock"
        self._own: str | None = None

    def acquire(self, holder: Holder | None = None) -> None:
        """Take the lock, even from a dead process; raises if another run holds it."""
        me = holder or Holder(socket.gethostname(), os.getpid(), process_start(os.getpid()))
        own = json.dumps(asdict(me))
        for _ in range(_ATTEMPTS):
            if self._files.create_text(self.path, own):
                self._own = own
                return
            found = self._read()
            if found is not None:
                self._refuse_if_alive(found, me)
                if self._files.exchange_text(self.path, found, own):
                    self._own = own
                    return
        raise SetupError(f"{self.path} is taken over again and again; try again")

    def release(self) -> None:
        """Delete the lock file, if it is ours."""
        if self._own is not None and self._read() == self._own:
            self._files.delete(self.path)
        self._own = None

    def _read(self) -> str | None:
        try:
            # one that is damaged may have any bytes
            return self._files.read_bytes(self.path).decode(errors="replace")
        except Exception:
            if self._files.exists(self.path):
                raise
            # released in the meantime
            return None

    def _refuse_if_alive(self, text: str, me: Holder) -> None:
        found, used = Holder.parse(text), f"checkpoint {self._root} is in use by"
        if found is None:
            raise SetupError(
                f"checkpoint {self._root} has an unreadable lock; if no run uses it, remove {self.path}"
            )
        if found.host != me.host or found.started is None:
            # whether it is alive cannot be determined from here
            raise SetupError(
                f"{used} process {found.pid} on host {found.host}; if that run is over, remove {self.path}"
            )
        if (found.pid, found.started) == (me.pid, me.started):
            raise SetupError(
                f"{used} another run of this process ({me.pid} on host {me.host}); stop that one first"
            )
        if self._start_of(found.pid) == found.started:
            raise SetupError(
                f"{used} process {found.pid} on this host ({found.host}); "
                "stop it first, or choose another checkpoint"
            )
