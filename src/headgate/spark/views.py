"""Temporary views, defined again in every tick."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.spark import sql


class Views:
    """Defines views. Spark runs a command for each, 5 ms; a view that only gets other rows needs none."""

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark._jsparkSession
        jvm: Any = spark._jvm
        self._catalog = session.sessionState().catalog()
        self._some = jvm.scala.Option.apply
        self._view = jvm.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation
        self._known: dict[str, tuple[Any, Any]] = {}

    def define(self, name: str, frame: DataFrame) -> str:
        """Let a name stand for the rows of a plan; returned as text of SQL has it."""
        quoted = sql.name(name)
        java: Any = frame._jdf
        plan = java.queryExecution().analyzed()
        described, schema = self._known.get(name, (None, None))
        if described is None or not schema.equals(plan.schema()):
            frame.createOrReplaceTempView(quoted)
            described = self._catalog.getRawTempView(name).get().tableMeta()
            self._known[name] = described, described.schema()
        else:
            self._catalog.createTempView(name, self._view(described, self._some(plan)), True)
        return quoted
