"""Operators that look at one tuple at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.errors import QueryError
from headgate.model.expression import Expression, column_of
from headgate.model.operator import Project, RelationJoin, StreamInput
from headgate.model.window import RowWindow, Window
from headgate.spark.columns import (
    ARRIVED,
    SEQ,
    TS,
    WINDOW_SEQ,
    is_system,
    seq_of_key,
    window_key,
)


def expression(bound: Expression) -> Column:
    """An expression in Spark's hands; it complains later, when it is analysed."""
    return F.expr(bound.text)


def all_of(predicates: tuple[Expression, ...]) -> Column:
    """The conjunction."""
    return reduce(and_, map(expression, predicates)) if predicates else F.lit(True)


def intake(frame: DataFrame, source: StreamInput, window: Window | None) -> DataFrame:
    """A stream's tuples under the names that the plan uses, with what its window has to know."""
    spelled = {name.lower(): name for name in frame.columns}
    user = [F.col(f"`{spelled[c.lower()]}`").alias(column_of(source.alias, c)) for c in source.columns]
    system = [F.col(TS), F.col(ARRIVED)]
    if SEQ in frame.columns and window is not None:
        keys = window.keys if isinstance(window, RowWindow) else ()
        system.append(F.col(SEQ))
        system.append(F.col(f"`{seq_of_key(keys)}`").alias(WINDOW_SEQ))
        system += [F.col(f"`{key}`").alias(window_key(i)) for i, key in enumerate(keys)]
    return frame.select(*system, *user)


def select(tuples: DataFrame, predicates: tuple[Expression, ...]) -> DataFrame:
    """The tuples that pass; predicates are asked in this order."""
    return blaming(lambda: tuples.where(all_of(predicates)), tuples, predicates)


def relation_join(tuples: DataFrame, operator: RelationJoin, relation: DataFrame) -> DataFrame:
    """Tuples with their matches in a stored relation."""
    spelled = {name.lower(): name for name in relation.columns}
    stored = relation.select(
        *[F.col(f"`{spelled[c.lower()]}`").alias(column_of(operator.alias, c)) for c in operator.columns]
    )
    return tuples.join(stored, all_of(operator.predicates), "inner")


def project(tuples: DataFrame, operator: Project, timestamp: Column) -> DataFrame:
    """The select list behind the result's timestamp; the time of arrival rides along."""
    items = [expression(item.expression).alias(item.name) for item in operator.items]
    return blaming(
        lambda: tuples.select(timestamp.alias("ts"), *items, F.col(ARRIVED)),
        tuples,
        [item.expression for item in operator.items],
    )


def blaming(
    build: Callable[[], DataFrame], tuples: DataFrame, expressions: Sequence[Expression]
) -> DataFrame:
    """Build a plan; if Spark does not accept it, find the expression whose fault that is."""
    try:
        return build()
    except PySparkException:
        for bound in expressions:
            checked(lambda b=bound: tuples.select(expression(b)), bound)
        raise


def checked(build, bound: Expression):  # type: ignore[no-untyped-def]
    """Build a plan; what Spark does not accept is the query's fault, at the expression's place."""
    try:
        return build()
    except PySparkException as error:
        raise QueryError(spark_complaint(error), bound.span) from error


def spark_complaint(error: BaseException) -> str:
    """Spark's message in one line, without its error class and SQL state."""
    first = str(error).strip().split("\n")[0]
    if first.startswith("[") and "]" in first:
        first = first[first.index("]") + 1 :].strip()
    return first.split(" SQLSTATE")[0].split("; line ")[0].rstrip()


def user_columns(tuples: DataFrame) -> list[Column]:
    """The columns that are not ours."""
    return [F.col(f"`{c}`") for c in tuples.columns if not is_system(c)]
