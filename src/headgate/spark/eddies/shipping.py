"""Functions on their way to tasks."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pyspark import cloudpickle


def by_value(module: ModuleType) -> None:
    """Send what a module defines along with it, since tasks cannot import it."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pickled(function: Callable[..., Any]) -> bytes:
    """A function as tasks get it."""
    found: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return found
