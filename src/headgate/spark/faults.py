"""Whose fault it is that a job failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headgate.errors import InternalError, UserCodeError
from headgate.model.network import Network
from headgate.runtime.usercode import user_code_error_in
from headgate.spark import functions as registered

_TOLD = re.compile(r"(?:headgate\.errors\.)?UserCodeError: (.*)")
_TRACEBACK = "Traceback (most recent call last)"


def blamed(
    error: BaseException, network: Network, functions: Mapping[str, Callable[..., Any]]
) -> BaseException:
    """An error as users get to see it: their functions by name, and no way out of the process."""
    found = failed_user_code(error, network, functions)
    if found is not None:
        found.__cause__ = error
        return found
    if not isinstance(error, Exception):
        # raised on a thread, it would end nothing but leave Spark waiting
        return InternalError(f"{type(error).__name__}: {error}")
    return error


def told_user_code_error(text: str) -> UserCodeError | None:
    """The error that a task of ours has raised, from the text in which Spark passes it on."""
    found = _TOLD.findall(text)
    return UserCodeError(found[-1]) if found else None


def is_of_user_code(error: BaseException) -> bool:
    """Whether Python code made a job of Spark fail."""
    return _TRACEBACK in str(error)


def failed_user_code(
    error: BaseException, network: Network, functions: Mapping[str, Callable[..., Any]]
) -> UserCodeError | None:
    """The function of the user's that made a job of Spark fail; None if it was none."""
    if isinstance(error, UserCodeError):
        return None
    try:
        text = str(error)
    except Exception:
        # an error of Java is asked for its text only now, and there may be no Java left to answer
        return None
    if told := told_user_code_error(text):
        return told
    if _TRACEBACK not in text:
        return None
    # Java repeats what Python said for each cause; the last is the innermost
    told_text = text[text.rindex(_TRACEBACK) :]

    def what(file: str, function: str) -> str | None:
        if file == registered.__file__:
            return f"function {function}{_in_queries(function, network)}"
        for name, fn in functions.items():
            code = getattr(fn, "__code__", None)
            if code is not None and (code.co_filename, code.co_name) == (file, function):
                return f"function {name}{_in_queries(name, network)}"
        return None

    found = user_code_error_in(told_text, what)
    # of the check after the call, and nothing that the function has raised
    return found and UserCodeError(str(found).replace("raised TypeError: returned ", "returned "))


def _in_queries(function: str, network: Network) -> str:
    """Which queries call it, as far as their operators say."""
    call = re.compile(rf"\b{re.escape(function)}\s*\(", re.IGNORECASE)
    using = [
        query
        for query in network.queries
        if any(call.search(repr(network.operators[name])) for name in network.operators_of(query))
    ]
    if not using:
        return ""
    return f" in {'query' if len(using) == 1 else 'queries'} {', '.join(using)}"
