"""Headgate: many continuous SQL queries over bursty streams on Spark, inside a memory budget."""

from headgate.errors import HeadgateError, QueryError, SetupError
from headgate.session import Run, Session

__all__ = ["HeadgateError", "QueryError", "Run", "Session", "SetupError"]
__version__ = "0.1.0"
