"""Tuples of a window as a stream: those that leave it, and all that it holds at a boundary."""

from __future__ import annotations

from headgate.model.operator import Contents, Departures
from headgate.model.window import HopWindow, TimeWindow
from headgate.spark import sql
from headgate.spark.operators import aggregate
from headgate.spark.operators.base import OperatorContext, SparkOperator, spark_operator
from headgate.spark.operators.windowed import SlidingAggregateOperator, due_boundaries
from headgate.spark.sql import TS


class DeparturesOperator(SlidingAggregateOperator):
    """Emits a tuple when it leaves its window: at its timestamp plus the range, or where the window ends."""

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """The tuples that leave between the old and the new progress."""
        window, own = self.settings.window, sql.name(TS)
        assert isinstance(window, TimeWindow)
        leaves = f"({own} + {window.range_us}L)"
        if isinstance(window, HopWindow):
            leaves = f"({own} - pmod({own}, {window.range_us}L) + {window.range_us}L)"
        source = aggregate.keyed(self.settings, tuples, [TS])
        inside = [f"{leaves} >= {sql.Bound(old_ts).at(own)}", f"{leaves} < {sql.Bound(new_ts).at(own)}"]
        return sql.select([f"{leaves} AS {own}", *aggregate.group_names(self.settings)], source, inside)


class ContentsOperator(SlidingAggregateOperator):
    """Emits all tuples of a window at each of its boundaries."""

    def aggregated(self, tuples: str, old_ts: int, new_ts: int) -> str:
        """Every tuple at each boundary whose window holds it."""
        window = self.settings.window
        assert isinstance(window, TimeWindow)
        first, last = due_boundaries(window, old_ts, new_ts)
        source = aggregate.keyed(self.settings, tuples, [TS])
        return aggregate.copies(self.settings, source, window, sql.Bound(first), sql.Bound(last))


@spark_operator.register
def _departures(settings: Departures, context: OperatorContext) -> SparkOperator:
    del context
    return DeparturesOperator(settings)


@spark_operator.register
def _contents(settings: Contents, context: OperatorContext) -> SparkOperator:
    del context
    return ContentsOperator(settings)
