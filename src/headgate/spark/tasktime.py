"""Processor time of Spark jobs, as their tasks report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_PATIENCE_MS = 1000


class TaskTime:
    """Adds up how long tasks ran, by the tag that their jobs were started under."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        scala_context: Any = spark.sparkContext._jsc.sc()
        self._tracker = scala_context.statusTracker()
        self._store = scala_context.statusStore()
        self._bus = scala_context.listenerBus()

    @contextmanager
    def under(self, tag: str) -> Iterator[None]:
        """Tag the jobs that this thread starts."""
        self._context.addJobTag(tag)
        try:
            yield
        finally:
            self._context.removeJobTag(tag)

    def settle(self) -> None:
        """Wait until Spark has noted what its tasks have reported; if it has much to note, not for long."""
        with suppress(Py4JJavaError):
            self._bus.waitUntilEmpty(_PATIENCE_MS)

    def seconds(self, tag: str) -> float:
        """Processor seconds of all tasks under a tag, as far as Spark has noted them."""
        milliseconds = 0
        for job in self._tracker.getJobIdsForTag(tag):
            stages = self._store.job(job).stageIds()
            for place in range(stages.size()):
                milliseconds += self._milliseconds(stages.apply(place))
        return milliseconds / 1e3

    def _milliseconds(self, stage: int) -> int:
        try:
            return int(self._store.lastStageAttempt(stage).executorRunTime())
        except Py4JJavaError:
            # Spark forgets stages beyond a number, and first those that it could skip, which took no time
            return 0
