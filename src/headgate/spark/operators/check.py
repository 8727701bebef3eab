"""Expressions in Spark's hands, and whose fault it is when Spark does not accept them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from headgate.errors import QueryError
from headgate.model.expression import Expression

Built = TypeVar("Built")


def expression(bound: Expression) -> Column:
    """An expression as a column; Spark complains later, when it is analysed."""
    return F.expr(bound.text)


def checked(build: Callable[[], Built], bound: Expression) -> Built:
    """Build a plan; what Spark does not accept is the query's fault, at the expression's place."""
    try:
        return build()
    except PySparkException as error:
        raise QueryError(spark_complaint(error), bound.span) from error


def spark_complaint(error: object) -> str:
    """Spark's message in one line, without its error class and SQL state."""
    first = str(error).strip().split("\n")[0]
    if first.startswith("[") and "]" in first:
        first = first[first.index("]") + 1 :].strip()
    return first.split(" SQLSTATE")[0].split("; line ")[0].rstrip()
