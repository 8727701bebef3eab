"""Manners of Spark's Python workers that run code of ours."""

from __future__ import annotations

import sys
import traceback
from typing import Any

_DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Say nothing when the pipe to Spark breaks: a run that ends closes it, and nothing is wrong.

    The daemon that workers are forked from would print a stack trace. Elsewhere nothing changes.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or spec.name != _DAEMON:
        return
    show = traceback.print_exc

    def show_unless_gone(*arguments: Any, **settings: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            show(*arguments, **settings)

    traceback.print_exc = show_unless_gone
