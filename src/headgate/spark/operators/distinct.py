"""SELECT DISTINCT over a window."""

from __future__ import annotations

from dataclasses import replace

from headgate.model.expression import AggregateExpression
from headgate.model.operator import Distinct
from headgate.spark import sql
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, SparkOperator, spark_operator
from headgate.spark.operators.windowed import TupleAggregateOperator

_EQUAL_TUPLES = AggregateExpression("$equal_tuples", "COUNT", None)


class DistinctOperator(TupleAggregateOperator):
    """Emits values when they enter the window: the tuple that brings them is the only one that has them."""

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Computed by window frames in stream order."""
        del new_ts
        counting = replace(self.settings, aggregates=(*self.settings.aggregates, _EQUAL_TUPLES))
        counted = aggregate.per_tuple(counting, tuples, sql.Bound(old_ts))
        keys, calls = self.settings.keys, self.settings.aggregates
        names = [sql.TS, *(key.name for key in keys), *(call.name for call in calls)]
        return sql.select(sql.names(names), counted, [f"{sql.name(_EQUAL_TUPLES.name)} = 1"])


@spark_operator.register
def _distinct(settings: Distinct, context: OperatorContext) -> SparkOperator:
    del context
    return DistinctOperator(settings)
