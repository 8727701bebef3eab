"""Rows of Arrow tables as Python has them, and as JSON does."""

from __future__ import annotations

import base64
from datetime import date, time
from typing import Any


def python_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table; a date that Python has no form of is text."""
    try:
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    except OverflowError:
        columns = [_values(column) for column in table.columns]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
        return values
    except OverflowError:
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    """Years before 1 and after 9999 come from milliseconds that were taken for seconds."""
    import numpy as np

    try:
        return scalar.as_py()
    except OverflowError:
        # Arrow's own texts end with year 32767
        unit: Any = getattr(scalar.type, "unit", "D")
        return str(np.datetime64(scalar.value, unit)) + ("+00:00" if getattr(scalar.type, "tz", None) else "")


def plain_rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table as JSON has them; none if there is no table."""
    return [] if table is None else [_plain(row) for row in python_rows(table)]


def _plain(value: Any) -> Any:
    """A value as JSON has it; what it has no form of becomes text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (date, time)):
        # of dates with a time, too
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    # decimals, which floats would round, and intervals
    return str(value)
