"""Registered Python functions as Spark calls them: named in tracebacks, and held to their declared type.

Spark turns a value of another type into NULL without a word.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

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
    """The function, checked for what it returns where Spark would not take everything."""
    wanted = _BY_NAME.get(returns.partition("(")[0].strip().lower(), object)
    # True is an int to Python, and NULL to Spark
    never: type | tuple[type, ...] = bool if wanted is int else ()

    # nothing but builtins inside: executors need not have this package
    def call(*arguments: Any) -> Any:
        value = function(*arguments)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, never)):
            raise TypeError(f"returned {value!r} ({type(value).__name__}), which is no {returns}")
        return value

    # so that a traceback says which one it is
    call.__code__ = call.__code__.replace(co_name=name)
    return call
