"""How much of the suite a run takes: ``make test`` is for every change, ``make long`` for every release."""

from __future__ import annotations

import os
from typing import TypeVar

Value = TypeVar("Value")

IS_LONG = os.environ.get("HEADGATE_LONG_TESTS", "") not in ("", "0")


def short_or_long(short: Value, long: Value) -> Value:
    """How many cases there are: some in ``make test``, and many in ``make long``."""
    return long if IS_LONG else short
