"""The user's Python functions in Spark: checked against their declared types, named when a job fails.

Spark would turn a value of another type into NULL without reporting it.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.errors import InternalError, SetupError, UserCodeError
from headgate.model.network import Network
from headgate.model.operator import functions_of
from headgate.runtime.usercode import user_code_error_in

_TYPES: dict[type | tuple[type, ...], tuple[str, ...]] = {
    int: ("bigint", "long", "int", "integer", "smallint", "short", "tinyint", "byte"),
    float: ("double", "float", "real"),
    bool: ("boolean",),
    (bytes, bytearray): ("binary",),
    datetime.datetime: ("timestamp", "timestamp_ntz", "timestamp_ltz"),
    datetime.date: ("date",),
    decimal.Decimal: ("decimal", "dec", "numeric"),
}
_BY_NAME = {name: found for found, names in _TYPES.items() for name in names}


def declared(name: str, function: Callable[..., Any], returns: str) -> Callable[..., Any]:
    """The function, with a check of the type that it returns."""
    wanted = _BY_NAME.get(returns.partition("(")[0].strip().lower(), object)
    # True is an int to Python, and NULL to Spark
    never: type | tuple[type, ...] = bool if wanted is int else ()

    # uses nothing but builtins: executors need not have this package
    def call(*arguments: Any) -> Any:
        try:
            value = function(*arguments)
        except StopIteration as error:
            # it would end the loop over the rows, and Spark does not say whose it was
            raise RuntimeError(f"StopIteration {error}".strip()) from error
        if value is not None and (not isinstance(value, wanted) or isinstance(value, never)):
            raise TypeError(f"returned {value!r} ({type(value).__name__}), which is no {returns}")
        return value

    # so that a traceback names the function
    call.__code__ = call.__code__.replace(co_name=name)
    return call


_ARROW_AGGREGATE = 252
"""Spark's number of UDFs that make one value of Arrow arrays."""


def declared_aggregate(name: str, function: Callable[..., Any], returns: str) -> Callable[..., Any]:
    """A pandas UDF over lists of values, which calls the function, or that of a UDF, for each list."""
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import functions

    column = pa.array if getattr(function, "evalType", None) == _ARROW_AGGREGATE else pd.Series
    inner = _inside_udf(function)

    # these, too, use nothing of this package
    def value_of(*arguments: Any) -> Any:
        value = inner(*map(column, arguments))
        plain = getattr(value, "as_py", getattr(value, "item", None))
        return value if plain is None else plain()

    checked = declared(name, value_of, returns)

    def call(*columns: Any) -> Any:
        return pd.Series([checked(*group) for group in zip(*columns, strict=True)], dtype=object)

    # by these, Spark finds out what kind of function it is
    call.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    # its types know no function with any number of columns
    pandas_udf: Any = functions.pandas_udf  # type: ignore[attr-defined]
    found: Callable[..., Any] = pandas_udf(call, returns)
    return found


def _inside_udf(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that a UDF of Spark calls, or the function itself; a partial has a ``func``, too."""
    found: Callable[..., Any] = getattr(function, "func", function)
    return found if hasattr(function, "evalType") else function


def registration(
    name: str, function: Callable[..., Any], returns: str, is_aggregate: bool
) -> Callable[[Any], object]:
    """What registers a function of the user's with a Spark session, once there is one."""

    def register(spark: Any) -> object:
        _check_pickling(name, function)
        if is_aggregate:
            return spark.udf.register(name, declared_aggregate(name, function, returns))
        if hasattr(function, "returnType"):
            return spark.udf.register(name, function)
        return spark.udf.register(name, declared(name, function, returns), returns)

    return register


def _check_pickling(name: str, function: Callable[..., Any]) -> None:
    """Raise unless a function can be sent to Python workers; Spark would print a stack trace as well."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(_inside_udf(function))  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        advice = "make what it refers to inside of it, or in a module that it imports"
        raise SetupError(f"function {name} cannot be sent to Python workers: {reason}; {advice}") from error


_REPORTED = re.compile(r"(?:headgate\.errors\.)?UserCodeError: (.*)")
_TRACEBACK = "Traceback (most recent call last)"
# as Spark reports it: there is no traceback
_PROCESS_ENDED = "Python worker exited unexpectedly"


def reported_user_code_error(text: str) -> UserCodeError | None:
    """The error that a task of ours has raised, extracted from the text of Spark's own."""
    found = _REPORTED.findall(text)
    return UserCodeError(found[-1]) if found else None


def is_of_user_code(error: BaseException) -> bool:
    """Whether Python code made a job of Spark fail."""
    text = str(error)
    return _TRACEBACK in text or _PROCESS_ENDED in text


def process_ended(text: str, does: str) -> UserCodeError | None:
    """An error about the end of the Python process that does something, if that is what Spark reports."""
    if _PROCESS_ENDED not in text:
        return None
    return UserCodeError(f"the Python process that {does} has ended: it exited, crashed or was killed")


def last_traceback(text: str) -> str:
    """The innermost of Python's tracebacks, which Java repeats for each cause; empty if there is none."""
    return text[text.rindex(_TRACEBACK) :] if _TRACEBACK in text else ""


def blamed(
    error: BaseException, network: Network, functions: Mapping[str, Callable[..., Any]]
) -> BaseException:
    """An error as shown to the user: it names their function, and cannot end the process."""
    found = _failed_user_code(error, network, functions)
    if found is not None:
        found.__cause__ = error
        return found
    if not isinstance(error, Exception):
        # raised on a thread, it would not end the process but leave Spark waiting
        return InternalError(f"{type(error).__name__}: {error}")
    return error


def _failed_user_code(
    error: BaseException, network: Network, functions: Mapping[str, Callable[..., Any]]
) -> UserCodeError | None:
    """The function of the user's that made a job of Spark fail; None if it was none."""
    if isinstance(error, UserCodeError):
        return None
    try:
        text = str(error)
    except Exception:
        # the text of a Java error is fetched only now, and Java may be gone
        return None
    if reported := reported_user_code_error(text):
        return reported
    called = [f"function {name}{_in_queries(name, network)}" for name in _called(network, functions)]
    does = [f"calls {' or '.join(called)}", *_generating(network)]
    if called and (ended := process_ended(text, " or ".join(does))) is not None:
        return ended

    def what(file: str, function: str) -> str | None:
        if file == __file__:
            return f"function {function}{_in_queries(function, network)}"
        for name, fn in functions.items():
            code = getattr(fn, "__code__", None)
            if code is not None and (code.co_filename, code.co_name) == (file, function):
                return f"function {name}{_in_queries(name, network)}"
        return None

    found = user_code_error_in(last_traceback(text), what)
    # raised by the check after the call, not by the function
    return found and UserCodeError(str(found).replace("raised TypeError: returned ", "returned "))


def _called(network: Network, functions: Iterable[str]) -> list[str]:
    used = {name for operator in network.operators.values() for name in functions_of(operator)}
    return [name for name in functions if name.lower() in used]


def _generating(network: Network) -> list[str]:
    """The streams that are generated in Python processes."""
    # with it, all of PySpark
    from headgate.spark.generated import FORMATS

    return [f"generates stream {name}" for name, one in network.streams.items() if one.format in FORMATS]


def _in_queries(function: str, network: Network) -> str:
    calling = {name for name, o in network.operators.items() if function.lower() in functions_of(o)}
    using = [query for query in network.queries if not calling.isdisjoint(network.operators_of(query))]
    return f" in {'query' if len(using) == 1 else 'queries'} {', '.join(using)}" if using else ""
