"""The tuples of all sides of a join, side by side: each on its way to the windows of the others."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headgate.spark.columns import ARRIVED, SIDE, TS, is_system
from headgate.spark.plans.side import union


def arrivals(schemas: Sequence[StructType], sides: Sequence[DataFrame | None]) -> DataFrame | None:
    """What comes on any side, with the columns of all of them; those of the others are null so far."""
    types = {
        field.name: field.dataType
        for schema in schemas
        for field in schema.fields
        if not is_system(field.name)
    }
    return union([None if side is None else _arrivals(types, n, side) for n, side in enumerate(sides)])


def _arrivals(types: dict[str, DataType], number: int, tuples: DataFrame) -> DataFrame:
    def column(name: str) -> Column:
        found = F.col(f"`{name}`") if name in tuples.columns else F.lit(None).cast(types[name])
        return found.alias(name)

    return tuples.select(TS, ARRIVED, F.lit(number).alias(SIDE), *map(column, types))
