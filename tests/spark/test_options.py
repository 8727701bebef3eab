"""The options that CQL knows of each format are those that the installed Spark takes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.planning.options import Options, relation_options, sink_options, stream_options

pytestmark = pytest.mark.spark

DATASOURCES = "org.apache.spark.sql.execution.datasources"
CATALYST = "org.apache.spark.sql.catalyst"
OBJECTS = {
    "csv": f"{CATALYST}.csv.CSVOptions",
    "json": f"{CATALYST}.json.JSONOptions",
    "parquet": f"{DATASOURCES}.parquet.ParquetOptions",
    "orc": f"{DATASOURCES}.orc.OrcOptions",
    "text": f"{DATASOURCES}.text.TextOptions",
}
# for Spark's own use, or within a namespace that is handed on as a whole
INTERNAL = {"useunsaferow", "parquet.compression", "orc.compress"}


def options_of_spark(spark: SparkSession, name: str) -> set[str]:
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    singleton = loader.loadClass(f"{name}$").getField("MODULE$").get(None)
    found = singleton.getAllOptions()
    names = found.iterator()
    listed = set()
    while names.hasNext():
        listed.add(str(names.next()).lower())
    return listed - INTERNAL


def known_to(*options: Options) -> set[str]:
    return {name for one in options for name in one.known}


@pytest.mark.parametrize("file_format", OBJECTS)
def test_every_option_of_a_format_is_known(spark: SparkSession, file_format: str) -> None:
    found = options_of_spark(spark, OBJECTS[file_format])
    assert found, "Spark lists its options elsewhere"
    read = known_to(relation_options(file_format))
    written = known_to(sink_options(file_format if file_format != "text" else "csv"))
    assert found - read - written == set()
    assert read - known_to(stream_options(file_format)) == {"modifiedbefore", "modifiedafter", "refresh"}


def test_every_option_of_files_is_known(spark: SparkSession) -> None:
    of_files = options_of_spark(spark, f"{DATASOURCES}.FileIndexOptions")
    assert of_files
    assert of_files - known_to(relation_options("parquet")) == set()
