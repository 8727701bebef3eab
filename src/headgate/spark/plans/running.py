"""Aggregates over all time: what each group has come to so far is carried from tick to tick."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from headgate.model.expression import AggregateExpression
from headgate.model.operator import Aggregate
from headgate.spark.columns import ARRIVED, SEQ, TS
from headgate.spark.plans.aggregate import _argument, _keyed, _plain

_HAS_CARRY = "$carried"


def running(operator: Aggregate, tuples: DataFrame, carried: DataFrame | None) -> DataFrame:
    """The new value of its group for every tuple."""
    keyed = _keyed(operator, tuples)
    groups = [f"`{key.name}`" for key in operator.keys]
    frame = SparkWindow.partitionBy(*groups).orderBy(TS, SEQ).rowsBetween(SparkWindow.unboundedPreceding, 0)
    parts = [part.over(frame).alias(name) for call in operator.aggregates for name, part in _parts(call)]
    partial = keyed.select(TS, ARRIVED, *groups, *parts)
    merged = _with_carry(operator, partial, carried)
    return merged.select(
        TS, ARRIVED, *groups, *[_value(call).alias(call.name) for call in operator.aggregates]
    )


def carry(operator: Aggregate, tuples: DataFrame | None, carried: DataFrame | None) -> DataFrame | None:
    """What every group has come to after these tuples."""
    if tuples is None:
        return carried
    groups = [f"`{key.name}`" for key in operator.keys]
    parts = [part.alias(name) for call in operator.aggregates for name, part in _parts(call)]
    fresh = _keyed(operator, tuples).groupBy(*groups).agg(*parts)
    if carried is None:
        return fresh
    again = [
        _merge(name)(F.col(name)).alias(name) for call in operator.aggregates for name, _ in _parts(call)
    ]
    return carried.unionByName(fresh).groupBy(*groups).agg(*again)


def _parts(call: AggregateExpression) -> list[tuple[str, Column]]:
    """Partial values that can be added up over ticks."""
    argument = _argument(call)
    if call.function == "AVG":
        return [(f"{call.name}_sum", F.sum(argument)), (f"{call.name}_count", F.count(argument))]
    return [(f"{call.name}_{call.function.lower()}", _plain(call))]


def _merge(part: str):  # type: ignore[no-untyped-def]
    return {"min": F.min, "max": F.max}.get(part.rsplit("_", 1)[1], F.sum)


def _with_carry(operator: Aggregate, partial: DataFrame, carried: DataFrame | None) -> DataFrame:
    if carried is None:
        return partial
    names = [name for call in operator.aggregates for name, _ in _parts(call)]
    groups = [key.name for key in operator.keys]
    old = carried.select(
        *[F.col(f"`{g}`").alias(f"$old_{g}") for g in groups], *[F.col(n).alias(f"$old_{n}") for n in names]
    )
    same = F.lit(True)
    for group in groups:
        same = same & F.col(f"`{group}`").eqNullSafe(F.col(f"$old_{group}"))
    joined = partial.join(old, same, "left")
    for name in names:
        joined = joined.withColumn(name, _combined(name))
    return joined


def _combined(name: str) -> Column:
    new, old = F.col(name), F.col(f"$old_{name}")
    kind = name.rsplit("_", 1)[1]
    if kind == "min":
        return F.least(new, old)
    if kind == "max":
        return F.greatest(new, old)
    return F.when(new.isNull(), old).when(old.isNull(), new).otherwise(new + old)


def _value(call: AggregateExpression) -> Column:
    if call.function == "AVG":
        total, count = F.col(f"{call.name}_sum"), F.col(f"{call.name}_count")
        return F.when(count > 0, total / count)
    return F.col(f"{call.name}_{call.function.lower()}")
