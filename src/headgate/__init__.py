"""Headgate: many continuous SQL queries over bursty streams on Spark, inside a memory budget."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError, QueryError, SetupError, UserCodeError

if TYPE_CHECKING:
    from headgate.handle import Run
    from headgate.session import Session

__all__ = ["HeadgateError", "QueryError", "Run", "Session", "SetupError", "UserCodeError"]
__version__ = "0.1.0"
_MODULES = {"Run": "headgate.handle", "Session": "headgate.session"}


def __getattr__(name: str) -> Any:
    # Spark's Python workers import the package for a source of ours: they need no planner
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
