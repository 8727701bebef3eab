"""What an eddy's tuples look like on their way through a job: what is kept, and what predicates read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, NumericType, StringType, StructField, StructType

from headgate.errors import QueryError
from headgate.model.expression import Expression
from headgate.model.operator import ByTruth, Eddy, PlacedPredicate
from headgate.model.pool import FunctionDefinition
from headgate.spark.eddies.assignment import Step
from headgate.spark.eddies.shipping import pickled
from headgate.spark.eddies.task import DONE, NEXT, NUMBER, TOLD
from headgate.spark.eddies.ways import Ways, ways_of
from headgate.spark.operators.check import checked, expression


@dataclass(frozen=True)
class Layout:
    """An eddy made ready for jobs."""

    eddy: Eddy
    schema: StructType
    """Of its input, and output."""
    columns: tuple[Column, ...]
    """What predicates read, of a tuple."""
    inputs: StructType
    steps: tuple[Step, ...]
    ways: Ways
    windows: tuple[StructType, ...]
    """Of a join: what the window of every side holds."""

    @property
    def stored(self) -> StructType:
        """A tuple in a block of the eddy."""
        own = [
            StructField(NUMBER, LongType()),
            StructField(DONE, LongType()),
            StructField(NEXT, IntegerType()),
        ]
        return StructType([*self.schema.fields, *own])

    @property
    def answered(self) -> StructType:
        """A tuple as it comes out of a task, or a report."""
        fields = [StructField(f.name, f.dataType, True) for f in self.stored.fields]
        return StructType([*fields, StructField(TOLD, StringType())])


def lay_out(
    eddy: Eddy,
    declared: Mapping[str, FunctionDefinition],
    tuples: DataFrame,
    functions: Mapping[str, Callable[..., Any]],
    windows: tuple[StructType, ...] = (),
) -> Layout:
    """Check what the predicates read, and number it; ``tuples`` is any frame of the eddy's input."""
    ways = ways_of(eddy)
    columns: list[Column] = []
    steps = []

    def read(bound: Expression) -> int:
        column = expression(bound).alias(f"$in{len(columns)}")
        checked(lambda: tuples.select(column), bound)
        columns.append(column)
        return len(columns) - 1

    for number, predicate in enumerate(eddy.predicates):
        arguments = tuple(read(argument) for argument in predicate.arguments)
        verdict = predicate.verdict
        if isinstance(verdict, ByTruth):
            comparison = ""
            tests = tuple(read(truth) for truth in (verdict.if_true, verdict.if_false, verdict.if_null))
        else:
            comparison, tests = verdict.comparison, (read(verdict.other),)
            _check_comparison(predicate, verdict.other, declared[predicate.function].returns, tuples)
        function = pickled(functions[predicate.function.lower()])
        name = ways.names[ways.probes + number]
        steps.append(Step(name, predicate.pool, predicate.function, function, arguments, comparison, tests))
    inputs = tuples.select(*columns).schema
    return Layout(eddy, tuples.schema, tuple(columns), inputs, tuple(steps), ways, windows)


def _check_comparison(predicate: PlacedPredicate, other: Expression, returns: str, tuples: DataFrame) -> None:
    """Refuse to compare what Python would compare otherwise than Spark."""
    value = F.lit(None).cast(returns)
    left, right = (field.dataType for field in tuples.select(value, expression(other)).schema.fields)
    numbers = isinstance(left, NumericType) and isinstance(right, NumericType)
    if not numbers and left != right:
        raise QueryError(
            f"{predicate.function} returns {left.simpleString()} and is compared with "
            f"{right.simpleString()}; write CAST(... AS {left.simpleString()})",
            other.span,
        )


def numbered(tuples: DataFrame, first: Column) -> DataFrame:
    """Tuples on their way into the eddy's queue, in one partition, numbered without a gap."""
    together = tuples.coalesce(1)
    return together.withColumn(NUMBER, F.monotonically_increasing_id() + first)
