"""Operators that make results of queries a stream again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import LongType, StructField, StructType

from headgate.model.operator import Number, Union
from headgate.spark import sql
from headgate.spark.blocks import BlockStore
from headgate.spark.operators.base import (
    OperatorContext,
    Results,
    SparkOperator,
    Stretch,
    orderable,
    spark_operator,
)
from headgate.spark.operators.inputs import StoreTask, TickInput
from headgate.spark.sql import SEQ

_COUNT = "$tuples"
_COUNTED = StructType([StructField(_COUNT, LongType())])


class UnionOperator(SparkOperator):
    """Passes on the tuples of all inputs, up to the progress of the slowest."""

    settings: Union

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The tuples between the old and the new progress."""
        query = self.union([stretch.content(one) for one in inputs])
        return Results(query, [one.retain(stretch.new_ts) for one in inputs])

    def union(self, parts: Sequence[str | None]) -> str | None:
        """All tuples; columns are matched by their place, and have the types that hold the values of all."""
        renamed = []
        for part, schema in zip(parts, self.inputs, strict=True):
            items = [self._renamed(*pair) for pair in zip(schema.fields, self.inputs[0].names, strict=True)]
            renamed.append(part and sql.select(items, part))
        return sql.union(renamed)

    def _renamed(self, own: StructField, name: str) -> str:
        # before the network is prepared, Spark finds the types
        kind = self.output[name].dataType if name in self.output.names else own.dataType
        value = sql.name(own.name)
        cast = value if kind == own.dataType else f"CAST({value} AS {kind.simpleString()})"
        return f"{cast} AS {sql.name(name)}"


class NumberOperator(SparkOperator):
    """Numbers tuples without gaps; how many there were is carried from tick to tick."""

    settings: Number

    def __init__(self, settings: Number, store: BlockStore) -> None:
        super().__init__(settings)
        self._store = store

    def results(self, inputs: Sequence[TickInput], stretch: Stretch) -> Results:
        """The tuples between the old and the new progress, with their numbers."""
        [one] = inputs
        retained = [one.retain(stretch.new_ts)]
        tuples = stretch.content(one)
        if tuples is None:
            return Results(None, retained)
        kept = stretch.state.groups
        carried = self._store.view(f"number of {self.name}", kept, _COUNTED) if kept else None
        total = sql.select([f"{_before(carried)} + count(*) AS {sql.name(_COUNT)}"], tuples)
        count = StoreTask(self.name, None, total, _COUNTED, 1)
        return Results(self.numbered(tuples, carried), retained, [count], groups=())

    def numbered(self, tuples: str, carried: str | None) -> str:
        """The tuples in an order that does not depend on ticks."""
        order = ", ".join(orderable(self.inputs[0]))
        place = f"{_before(carried)} + row_number() OVER (ORDER BY {order}) - 1"
        return sql.select([*sql.names(self.inputs[0].names), f"{place} AS {sql.name(SEQ)}"], tuples)


def _before(carried: str | None) -> str:
    """How many tuples there were before the tick."""
    return "0L" if carried is None else f"(SELECT max({sql.name(_COUNT)}) FROM {sql.relation(carried)})"


@spark_operator.register
def _union(settings: Union, context: OperatorContext) -> SparkOperator:
    del context
    return UnionOperator(settings)


@spark_operator.register
def _number(settings: Number, context: OperatorContext) -> SparkOperator:
    return NumberOperator(settings, context.store)
