"""Failures of Spark and its JVM as errors of ours, in one line; Ctrl-C that leaves Spark's jobs alone.

Imports nothing of PySpark: the command line reports errors without it.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headgate.errors import HeadgateError, SparkError

_JAVA_CAUSE = re.compile(r"^(?:Caused by: |: )(?:[\w$]+\.)+([\w$]+)(?:: (.*))?$", re.MULTILINE)

_FILE_READ = re.compile(r"Encountered error while reading file (?:file:)?(?://)?(\S+?)\.(?:\s|$)")


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark, or the JVM below it, has raised this."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def spark_reason(error: BaseException) -> str:
    """The innermost cause in one line, without Java's stack."""
    try:
        text = str(error).strip()
    except OSError:
        # py4j fetches the text of a Java error on demand, and the JVM may have ended
        return f"{type(error).__name__}, and its JVM has ended"
    causes = _JAVA_CAUSE.findall(text)
    if causes:
        name, reason = causes[-1]
        whole = f"{name}: {reason}" if reason else name
        # what a decoder says of a file, it says without its name
        files = [path for path in _FILE_READ.findall(text) if path not in whole]
        return " ".join((f"{files[-1]}: {whole}" if files else whole).split())
    return " ".join((text.splitlines()[0] if text else type(error).__name__).split())


def is_stopped(spark: Any) -> bool:
    """Whether the application of a session has been stopped."""
    return getattr(spark.sparkContext, "_jsc", None) is None


@contextmanager
def spark_errors(spark: Any = None) -> Iterator[None]:
    """Raise what Spark raises as a ``SparkError``; on a stopped application, whatever is raised."""
    try:
        yield
    except HeadgateError:
        raise
    except Exception as error:
        if spark is not None and is_stopped(spark):
            raise SparkError("the Spark application has been stopped; make another Session") from error
        if is_of_spark(error) or isinstance(error, ConnectionError):
            raise SparkError(f"Spark: {spark_reason(error)}") from error
        raise


@contextmanager
def jobs_spared() -> Iterator[None]:
    """Let Ctrl-C interrupt the caller alone.

    PySpark's handler would cancel the jobs of all runs first. Any other handler is left in place.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not _is_main_thread() or not _is_of_pyspark(handler):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def handler_kept() -> Iterator[None]:
    """Undo that PySpark takes over Ctrl-C when it starts."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_taken = _is_of_pyspark(signal.getsignal(signal.SIGINT))
        if is_taken and before is not None and _is_main_thread():
            signal.signal(signal.SIGINT, before)


def _is_main_thread() -> bool:
    # no other one may set handlers
    return threading.current_thread() is threading.main_thread()


def _is_of_pyspark(handler: Any) -> bool:
    return str(getattr(handler, "__module__", "")).split(".")[0] == "pyspark"
