"""Drop boxes on Spark: the tuples of a stream that its box keeps, decided by a hash over seed and tuple."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headgate.model.network import Network
from headgate.model.operator import StreamInput
from headgate.model.shedding import BITS, KEEP, DropBox
from headgate.spark import sql
from headgate.spark.columns import is_system
from headgate.spark.sources import BAD_ROW


def is_kept(columns: StructType, box: DropBox, anchor: str) -> str:
    """Condition for the rows that the box keeps; equal rows are kept or dropped together."""
    own = [
        sql.name(field.name)
        for field in columns.fields
        if not is_system(field.name) and field.name != BAD_ROW and _has_hash(field.dataType)
    ]
    hashed = f"xxhash64({', '.join([f'{box.seed}L', *own])})"
    passes = f"({hashed} & {2**BITS - 1}L) < {sql.Bound(box.threshold).at(anchor)}"
    if box.floor is None:
        return f"({passes})"
    utility, above = utility_of(box.floor.text), sql.Bound(float(box.floor.above)).at(anchor)
    return f"coalesce({utility} > {above} OR ({utility} = {above} AND {passes}), FALSE)"


def utility_of(text: str) -> str:
    """What a tuple is worth."""
    return f"CAST(({text}) AS DOUBLE)"


def keep_ratio(keep: float, anchor: str) -> str:
    """The chance that each tuple had to be kept, as exact as the box itself."""
    return sql.Bound(round(keep * 2**BITS) / 2**BITS).at(anchor)


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
