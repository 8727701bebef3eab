"""Holding sources back: how much the next micro-batch takes from each.

Spark asks a source for as much as a limit allows, and fixes the limits of a query when it starts. The first
tick must be small, since nothing is known of its costs, and the next ones as large as they may be: the limits
are therefore replaced between ticks, in the table in which Spark keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headgate.formats.plain_json import json_text
from headgate.model.event import TickCommitted
from headgate.model.network import Network
from headgate.runtime.allowance import SourceLimits, TakenIn, first_rows
from headgate.spark.sources import Sources, portion_of
from headgate.spark.tick_plan import OpenTick

if TYPE_CHECKING:
    from headgate.spark.engine import TickLimits

_EXECUTION = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
_MAP = "scala.collection.immutable.Map"
_PYTHON_SOURCES = "org.apache.spark.sql.execution.datasources.v2.python."
_TABLE = "uniqueSources"
_REPLACE = f"{_TABLE}_$eq"


def can_hold_back(spark: SparkSession) -> bool:
    """Whether this version of Spark has a table of limits that can be replaced."""
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    try:
        kinds = gateway.new_array(jvm.java.lang.Class, 1)
        kinds[0] = jvm.java.lang.Class.forName(_MAP)
        jvm.java.lang.Class.forName(_EXECUTION).getMethod(_REPLACE, kinds)
    except Py4JError:
        return False
    return True


def held_back(
    spark: SparkSession, network: Network, sources: Sources, limits: TickLimits, is_known: bool
) -> IntakeLimits | None:
    """Limits of what ticks take from sources; None if nothing waits for their end.

    With ``is_known``, the costs of operators are known from an earlier run.
    """
    if limits.target_s == inf or not can_hold_back(spark):
        return None
    streams = network.streams
    rows = first_rows(limits.target_s) // max(1, len(streams))
    found = ((name, portion_of(stream, rows)) for name, stream in streams.items())
    portions = {name: portion for name, portion in found if portion is not None}
    positions, named = sources.positions(streams.values()), sources.names
    keys = {n: named.get(n, n) if positions is None else str(positions[n]) for n in portions}
    # drop boxes keep ticks short
    sheds = limits.budget_s == inf
    source_limits = SourceLimits(
        portions, limits.target_s, limits.memory_bytes, sheds=sheds, is_known=is_known
    )
    return IntakeLimits(spark, source_limits, keys)


class IntakeLimits:
    """Limits of the sources of a run. ``keys`` are the names of sources in Spark's table, by stream."""

    def __init__(self, spark: SparkSession, limits: SourceLimits, keys: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm
        self.limits = limits
        self._keys = keys
        self._execution: Any = None

    def attach(self, query: Any) -> None:
        """Limit the sources of this streaming query, which has been started."""
        self._execution = query._jsq.streamingQuery()

    def learn(self, tick: OpenTick, committed: TickCommitted, work_s: float) -> frozenset[str]:
        """Set the limits of the next tick, and return the streams of which more may wait in their sources."""
        amounts = {
            name: float(tick.arrivals[name].files if portion.of_files else committed.streams[name].rows_in)
            for name, portion in self.limits.portions.items()
        }
        waiting = self.limits.waiting(amounts)
        before = self.limits.limits()
        self.limits.add(
            TakenIn(
                amounts,
                intake_s=tick.phases_s.get("arrive", 0.0),
                work_s=work_s,
                arrived_bytes=sum(b.bytes for arrival in tick.arrivals.values() for b in arrival.blocks),
                backlog_bytes=committed.backlog_bytes,
            )
        )
        if self.limits.limits() != before:
            self._replace(self.limits.limits())
        return waiting

    def _replace(self, limits: Mapping[str, int]) -> None:
        sources, table = self._execution.sourceIdMap(), getattr(self._execution, _TABLE)()
        for name, most in limits.items():
            source = sources.apply(self._keys[name])
            table = table.updated(source, self._limit(source, self.limits.portions[name].of_files, most))
        getattr(self._execution, _REPLACE)(table)

    def _limit(self, source: Any, of_files: bool, most: int) -> Any:
        if str(source.getClass().getName()).startswith(_PYTHON_SOURCES):
            # handed on to Python as it is
            limit = {"_type": "ReadMaxRows", "max_rows": most}
            package = self._jvm.org.apache.spark.sql.execution.datasources.v2.python
            return package.PythonStreamingSourceReadLimit(json_text(limit, indent=None))
        kinds = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        return kinds.maxFiles(most) if of_files else kinds.maxRows(most)
