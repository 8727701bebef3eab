"""Manners of Spark's Python workers."""

from __future__ import annotations

import sys
import traceback
from typing import Any

_DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Say nothing when the pipe to Spark breaks, in a worker of Spark's own daemon."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        silence_broken_pipes()


def silence_broken_pipes() -> None:
    """Print no stack trace of a broken pipe: a run that ends closes it, and nothing is wrong."""
    show = traceback.print_exc

    def show_unless_gone(*arguments: Any, **settings: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            show(*arguments, **settings)

    traceback.print_exc = show_unless_gone
