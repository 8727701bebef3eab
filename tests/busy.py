"""Other work on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# a test that is killed leaves them behind, but not for long
_WORK = "import time; end = time.monotonic() + 180\nwhile time.monotonic() < end: sum(range(10_000))"


@contextmanager
def busy_processors() -> Iterator[None]:
    """Keep all processors busy: a process for each of them computes without a pause."""
    processes = [subprocess.Popen([sys.executable, "-c", _WORK]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
