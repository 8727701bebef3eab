"""Headgate: many continuous SQL queries over bursty streams on Spark, inside a memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError, QueryError, SetupError

if TYPE_CHECKING:
    from headgate.session import Run, Session

__all__ = ["HeadgateError", "QueryError", "Run", "Session", "SetupError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Spark's Python workers import the package for a source of ours: they need no planner
    if name in ("Run", "Session"):
        from headgate import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
