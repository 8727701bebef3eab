"""Operators that look at one tuple at a time."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.model.expression import Expression, column_of
from headgate.model.joins import AntiRelationJoin, RelationJoin, SemiRelationJoin
from headgate.model.operator import Explode, Project, Select
from headgate.spark import sql
from headgate.spark.operators.base import OperatorContext, SparkOperator, StoredRelation, spark_operator
from headgate.spark.sql import TS

TIMESTAMP = "ts"
"""The column of a result's timestamp, unless its sink calls it otherwise."""


class SelectOperator(SparkOperator):
    """Passes on the tuples for which every predicate holds."""

    settings: Select

    def applied(self, tuples: str) -> str:
        """Predicates are evaluated in the order that costs least, as far as known."""
        own = self.settings
        order = own.predicates if self.predicate_order is None else self.predicate_order.order(own)
        return sql.select(["*"], tuples, [sql.conjunction(order)])


class ProjectOperator(SparkOperator):
    """Computes the select list, behind the result's timestamp."""

    settings: Project

    def __init__(self, settings: Project, timestamp: str) -> None:
        super().__init__(settings)
        self._timestamp = timestamp

    def applied(self, tuples: str) -> str:
        """The timestamp in microseconds rides along; it is dropped before results are written."""
        items = [f"{self._timestamp} AS {TIMESTAMP}", *map(sql.aliased, self.settings.items), sql.name(TS)]
        return sql.select(items, tuples)


class ExplodeOperator(SparkOperator):
    """Passes on each tuple once for every row that it has itself, with the tuple's timestamp and number."""

    settings: Explode

    def applied(self, tuples: str) -> str:
        """Tuples with their rows."""
        own = self.settings
        columns = [column_of(own.alias, column) for column in own.columns]
        return exploded(tuples, own.call, columns, own.is_outer)


def exploded(tuples: str, call: Expression, columns: Sequence[str], is_outer: bool) -> str:
    """Tuples with the rows that a call gives for each of them."""
    view = f"LATERAL VIEW {'OUTER ' if is_outer else ''}{call.text} r AS {sql.listed(sql.names(columns))}"
    return f"SELECT {sql.listed(['t.*', *sql.names(columns)])}\nFROM {sql.relation(tuples)} AS t\n{view}"


class RelationJoinOperator(SparkOperator):
    """Joins each tuple with a stored relation, as it is in this tick."""

    settings: RelationJoin

    def __init__(self, settings: RelationJoin, relation: StoredRelation) -> None:
        super().__init__(settings)
        self._relation = relation
        self.doubtful: tuple[Expression, ...] = ()
        """Tuples with a row of the relation for which these hold are left out."""

    def joined_by(self, settings: RelationJoin) -> RelationJoinOperator:
        """Another join with the same relation."""
        return RelationJoinOperator(settings, self._relation)

    def applied(self, tuples: str) -> str:
        """Tuples with their matches."""
        own = self.settings
        if self.doubtful:
            doubt = AntiRelationJoin(own.name, own.input, own.relation, own.alias, own.columns, self.doubtful)
            tuples = self.joined_by(doubt).applied(tuples)
        items = [f"{sql.name(c)} AS {sql.name(column_of(own.alias, c))}" for c in own.columns]
        stored = sql.select(items or ["1 AS `$one`"], self._relation.view)
        columns = [column_of(own.alias, c) for c in own.columns]
        matched = [] if isinstance(own, (SemiRelationJoin, AntiRelationJoin)) else columns
        wanted = ["t.*", *(f"r.{sql.name(c)}" for c in matched)]
        return (
            f"SELECT /*+ {self._relation.hint}(r) */ {sql.listed(wanted)}\nFROM {sql.relation(tuples)} AS t\n"
            f"{own.join} {sql.relation(stored)} AS r\n  ON {sql.conjunction(own.predicates)}"
        )


@spark_operator.register
def _select(settings: Select, context: OperatorContext) -> SparkOperator:
    del context
    return SelectOperator(settings)


@spark_operator.register
def _explode(settings: Explode, context: OperatorContext) -> SparkOperator:
    del context
    return ExplodeOperator(settings)


@spark_operator.register
def _project(settings: Project, context: OperatorContext) -> SparkOperator:
    return ProjectOperator(settings, context.timestamp(settings.name))


@spark_operator.register
def _relation_join(settings: RelationJoin, context: OperatorContext) -> SparkOperator:
    return RelationJoinOperator(settings, context.relation(settings.relation))
