"""Drop boxes on Spark: the tuples of a stream that its box keeps, told by a hash over seed and tuple."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headgate.model.network import Network
from headgate.model.operator import StreamInput
from headgate.model.shedding import BITS, KEEP, DropBox
from headgate.spark.columns import is_system, tick_constant, tick_fraction
from headgate.spark.sources import BAD_ROW


def is_kept(rows: DataFrame, box: DropBox) -> Column:
    """Whether the box keeps a row; equal rows share their fate."""
    own = [
        F.col(f"`{field.name}`")
        for field in rows.schema.fields
        if not is_system(field.name) and field.name != BAD_ROW and _has_hash(field.dataType)
    ]
    hashed = F.xxhash64(F.lit(box.seed).cast("bigint"), *own)
    last_bits = hashed.bitwiseAND(F.lit(2**BITS - 1).cast("bigint"))
    anchor = rows.columns[0]
    passes = last_bits < tick_constant(box.threshold, anchor)
    if box.floor is None:
        return passes
    utility, above = utility_of(box.floor.text), tick_fraction(box.floor.above, anchor)
    return F.coalesce((utility > above) | ((utility == above) & passes), F.lit(False))


def utility_of(text: str) -> Column:
    """What a tuple is worth."""
    return F.expr(text).cast("double")


def with_chance(rows: DataFrame, keep: float) -> DataFrame:
    """Rows with the chance that each of them had to be kept."""
    # as exact as the box itself
    return rows.withColumn(KEEP, tick_fraction(round(keep * 2**BITS) / 2**BITS, rows.columns[0]))


def _has_hash(kind: DataType) -> bool:
    """Maps have no order, so Spark does not hash them."""
    if isinstance(kind, MapType):
        return False
    if isinstance(kind, ArrayType):
        return _has_hash(kind.elementType)
    if isinstance(kind, StructType):
        return all(_has_hash(field.dataType) for field in kind.fields)
    return kind.typeName() != "variant"


def streams_that_tell_chances(network: Network) -> frozenset[str]:
    """The streams whose tuples carry the chance that they had to be kept, for estimates."""
    return frozenset(
        source.stream
        for operator in network.operators.values()
        for source in operator.inputs
        if isinstance(source, StreamInput) and KEEP in source.columns
    )
