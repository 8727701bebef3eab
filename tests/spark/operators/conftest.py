"""Spark for a dozen tuples at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def tiny(spark: SparkSession) -> Iterator[SparkSession]:
    """One task per stage, and no plan made anew between stages: most of what a query would cost here."""
    own = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    before = {key: spark.conf.get(key) for key in own}
    for key, value in own.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)
