"""Slots of pools, shared by all jobs of a run on one machine."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Slot:
    """One place in a pool. Whoever holds it may call; others wait, in other processes too."""

    def __init__(self, folder: str | None, pool: str, number: int) -> None:
        self._path = None if folder is None else Path(folder) / f"{pool}-{number}"
        self._file: int | None = None
        self._held = False

    def acquire(self) -> None:
        """Wait for it."""
        if self._held or self._path is None:
            return
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._held = True

    def release(self) -> None:
        """Let others have it."""
        if self._held and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._held = False

    def close(self) -> None:
        """Give it up for good."""
        self.release()
        if self._file is not None:
            os.close(self._file)
            self._file = None
