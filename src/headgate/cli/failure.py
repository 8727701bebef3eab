"""Errors as people see them: one line on standard error, and an exit code.

2: what was asked for is wrong, or cannot be had; 1: it went wrong while it ran, or is our own defect.
"""

from __future__ import annotations

import re
import sys
import traceback

from headgate.errors import HeadgateError, InternalError, QueryError, UserCodeError

_JAVA_CAUSE = re.compile(r"^(?:Caused by: |: )(?:[\w$]+\.)+([\w$]+)(?:: (.*))?$", re.MULTILINE)


def report_failure(error: BaseException, debug: bool = False) -> int:
    """Say what went wrong; return the exit code."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    text, code = described(error)
    print(text, file=sys.stderr)
    return code


def described(error: BaseException) -> tuple[str, int]:
    """The text of an error and its exit code."""
    if isinstance(error, QueryError):
        return f"error: {error.detailed()}", 2
    if isinstance(error, UserCodeError):
        return f"error: {_one_line(str(error))}", 1
    if isinstance(error, HeadgateError) and not isinstance(error, InternalError):
        return f"error: {_one_line(str(error))}", 2
    if is_from_spark(error):
        return f"error: Spark: {spark_reason(error)}", 1
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    reason = _one_line(str(error)) or "no message"
    return f"internal error: {kind}{reason} (run with --debug for the stack trace)", 1


def is_from_spark(error: BaseException) -> bool:
    """Whether Spark, or the JVM below it, has raised this."""
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")


def spark_reason(error: BaseException) -> str:
    """The innermost cause in one line, without Java's stack."""
    try:
        text = str(error).strip()
    except OSError:
        # an error of Java is asked for its text only now, and there may be no Java left to answer
        return f"{type(error).__name__}, and its JVM has ended"
    causes = _JAVA_CAUSE.findall(text)
    if causes:
        name, reason = causes[-1]
        return _one_line(f"{name}: {reason}" if reason else name)
    return _one_line(text.splitlines()[0] if text else type(error).__name__)


def _one_line(text: str) -> str:
    return " ".join(text.split())
