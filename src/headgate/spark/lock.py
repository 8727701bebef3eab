"""One run per checkpoint: a lock file that names host and process.

A process is known by its id and the moment it started, so that another process that has been given the same
id since then is not taken for it.
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
from headgate.spark.localfiles import FileSystem

# two processes that find a dead lock at the same time agree within a few attempts
_ATTEMPTS = 5


@dataclass(frozen=True)
class Holder:
    """A process; ``token`` tells apart the locks of one process."""

    host: str
    pid: int
    started: str | None
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @staticmethod
    def this_process() -> Holder:
        """Who asks."""
        return Holder(socket.gethostname(), os.getpid(), process_start(os.getpid()))

    @staticmethod
    def parse(text: str) -> Holder | None:
        """Who wrote a lock file; None if it was never written to its end."""
        try:
            return Holder(**json.loads(text))
        except (ValueError, TypeError):
            return None


def process_start(pid: int) -> str | None:
    """When a process started, in a spelling that is the same whoever asks; None if there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # the name of the program is in brackets, and may itself hold some
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        state, ticks = after_name[0], after_name[19]
        return None if state in "ZX" else f"{boot}/{ticks}"
    except FileNotFoundError:
        # a system without /proc, or no such process
        return None if Path("/proc/self/stat").exists() else _start_by_ps(pid)


def _start_by_ps(pid: int) -> str | None:
    try:
        asked = ["ps", "-o", "lstart=", "-p", str(pid)]
        told = subprocess.run(asked, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return None
    return " ".join(told.stdout.split()) or None


class RunLock:
    """The lock file of a checkpoint."""

    def __init__(
        self,
        files: FileSystem,
        root: str,
        start_of: Callable[[int], str | None] = process_start,
    ) -> None:
        self._files = files
        self._root = root
        self.path = f"{root}/headgate.lock"
        self._start_of = start_of
        self._own: str | None = None

    def acquire(self, holder: Holder | None = None) -> None:
        """Take the lock, that of a dead process as well; raises if another run has it."""
        me = holder or Holder.this_process()
        own = json.dumps(asdict(me))
        for _ in range(_ATTEMPTS):
            if self._files.create_text(self.path, own):
                self._own = own
                return
            found = self._read()
            if found is not None:
                self._refuse_if_alive(found, me)
                self._remove_dead(found)
        raise SetupError(f"{self.path} changes hands all the time; try again")

    def release(self) -> None:
        """Give it back, if it is ours."""
        if self._own is not None and self._read() == self._own:
            self._files.delete(self.path)
        self._own = None

    def holder(self) -> Holder | None:
        """Who has it now, dead or alive."""
        text = self._read()
        return None if text is None else Holder.parse(text)

    def _read(self) -> str | None:
        try:
            return self._files.read_text(self.path)
        except Exception:
            if self._files.exists(self.path):
                raise
            # released in the meantime
            return None

    def _refuse_if_alive(self, text: str, me: Holder) -> None:
        found = Holder.parse(text)
        if found is None:
            raise SetupError(
                f"checkpoint {self._root} has an unreadable lock; if no run uses it, remove {self.path}"
            )
        if found.host != me.host or found.started is None:
            # nothing to be found out from here
            raise SetupError(
                f"checkpoint {self._root} is in use by process {found.pid} on host {found.host}; "
                f"if that run is over, remove {self.path}"
            )
        if found.pid == me.pid and found.started == me.started:
            raise SetupError(
                f"checkpoint {self._root} is in use by another run of this process "
                f"({me.pid} on host {me.host}); stop that one first"
            )
        if self._is_alive(found):
            raise SetupError(
                f"checkpoint {self._root} is in use by process {found.pid} on this host ({found.host}); "
                "stop it first, or choose another checkpoint"
            )

    def _is_alive(self, found: Holder) -> bool:
        started = self._start_of(found.pid)
        return started is not None and started == found.started

    def _remove_dead(self, text: str) -> None:
        """Move it away first: of two processes that have seen it, one succeeds."""
        aside = f"{self.path}.{uuid.uuid4().hex[:8]}"
        try:
            self._files.move(self.path, aside)
        except Exception:
            if self._files.exists(self.path):
                raise
            return
        if (moved := self._files.read_text(aside)) != text:
            # somebody else was quicker, and this is the new one: put it back
            self._files.create_text(self.path, moved)
        self._files.delete(aside)
