"""Processor time of Spark jobs, as their tasks report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


class TaskTime:
    """Adds up how long tasks ran, by the tag that their jobs were started under."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        scala_context: Any = spark.sparkContext._jsc.sc()
        self._tracker = scala_context.statusTracker()
        self._store = scala_context.statusStore()

    @contextmanager
    def under(self, tag: str) -> Iterator[None]:
        """Tag the jobs that this thread starts."""
        self._context.addJobTag(tag)
        try:
            yield
        finally:
            self._context.removeJobTag(tag)

    def seconds(self, tag: str) -> float:
        """Processor seconds of all tasks under a tag, as far as Spark has noted them."""
        milliseconds = 0
        for job in self._tracker.getJobIdsForTag(tag):
            stages = self._store.job(job).stageIds()
            for place in range(stages.size()):
                milliseconds += self._store.lastStageAttempt(stages.apply(place)).executorRunTime()
        return milliseconds / 1e3
