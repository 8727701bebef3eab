"""Python loads this when it starts, in the processes that a JVM of ours starts.

Spark requests the partitions of Python data sources through a daemon of PySpark's that no setting replaces.
When a run ends while one of its workers still writes, the daemon prints a stack trace for nothing; so does
the process from which Spark requests the offsets of such a source.
"""

import sys
import traceback
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import TracebackType

_GONE = (BrokenPipeError, ConnectionResetError)


def _silence_broken_pipes() -> None:
    print_exc = traceback.print_exc

    def print_unless_gone(*arguments: object, **settings: object) -> None:
        if not isinstance(sys.exc_info()[1], _GONE):
            print_exc(*arguments, **settings)  # type: ignore[arg-type]

    traceback.print_exc = print_unless_gone


def _end_quietly_without_spark() -> None:
    report = sys.excepthook

    def report_unless_gone(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, _GONE):
            report(kind, error, trace)

    sys.excepthook = report_unless_gone


def _load_next() -> None:
    """The module of this name that Python would have loaded otherwise."""
    own = Path(__file__).parent
    found = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path) != own])
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))


if "pyspark.daemon" in sys.orig_argv:
    _silence_broken_pipes()
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
    _end_quietly_without_spark()
_load_next()
