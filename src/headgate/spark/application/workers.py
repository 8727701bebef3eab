"""Python workers of Spark that do not report a broken pipe.

A run that ends closes the pipes to its workers, and PySpark's daemon prints a stack trace for each. For
sessions of our own, Spark starts this module in its place (``spark.python.daemon.module``).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any


def silence_daemon() -> None:
    """Silence PySpark's own daemon, if this process is a worker forked from it."""
    main_module = sys.modules["__main__"]
    spec = getattr(main_module, "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        silence(main_module)


def silence(module: ModuleType) -> None:
    """Keep a module from reporting broken pipes; it still reports everything else."""
    quiet = {**vars(traceback), "print_exc": _unless_gone(traceback.print_exc)}
    vars(module).update(print=_unless_gone(print), traceback=SimpleNamespace(**quiet))


def _unless_gone(report: Callable[..., None]) -> Callable[..., None]:
    def reported(*values: Any, **settings: Any) -> None:
        # how a worker notices that Spark is gone
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            report(*values, **settings)

    return reported


if __name__ == "__main__":
    from pyspark import daemon

    silence(daemon)
    daemon.manager()
