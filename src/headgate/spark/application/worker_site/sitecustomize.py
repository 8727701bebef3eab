"""Python loads this when it starts, in the processes that a JVM of ours starts.

Spark asks Python data sources for their partitions through a daemon of PySpark's that no setting replaces.
When a run ends while one of its workers still writes, the daemon prints a stack trace for nothing.
"""

import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _silence_broken_pipes() -> None:
    print_exc = traceback.print_exc

    def print_unless_gone(*arguments: object, **settings: object) -> None:
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            print_exc(*arguments, **settings)  # type: ignore[arg-type]

    traceback.print_exc = print_unless_gone


def _load_next() -> None:
    """The module of this name that Python would have loaded otherwise."""
    own = Path(__file__).parent
    found = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path) != own])
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))


if "pyspark.daemon" in sys.orig_argv:
    _silence_broken_pipes()
_load_next()
