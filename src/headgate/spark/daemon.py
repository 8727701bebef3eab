"""The daemon that Python workers of a local Spark are forked from: PySpark's own, with better manners.

A run that ends closes the pipes to its workers, and nothing is wrong; PySpark's daemon would print a stack
trace for each. Spark starts this module in its place (``spark.python.daemon.module``).
"""

from __future__ import annotations

import builtins
import sys
import traceback
from types import ModuleType
from typing import Any

# how a worker notices that Spark is gone
_GONE = (BrokenPipeError, ConnectionResetError)


def main() -> None:
    """Fork workers until Spark closes standard input."""
    from pyspark import daemon

    silence(daemon)
    daemon.manager()


def silence(module: ModuleType) -> None:
    """Keep a module from printing that a pipe is broken; all else it prints."""
    vars(module).update(print=_print_unless_gone, traceback=_Traceback())


def _print_unless_gone(*values: Any, **settings: Any) -> None:
    if not isinstance(sys.exc_info()[1], _GONE):
        builtins.print(*values, **settings)


class _Traceback:
    """The module ``traceback``, which prints nothing while a broken pipe is handled."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *arguments: Any, **settings: Any) -> None:
        """Print the error that is being handled, unless it is a broken pipe."""
        if not isinstance(sys.exc_info()[1], _GONE):
            traceback.print_exc(*arguments, **settings)


if __name__ == "__main__":
    main()
