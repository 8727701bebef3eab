"""Schemas of Avro values, which are read before Spark parses any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.errors import SetupError
from headgate.model.network import Column, Schema, StreamDefinition
from headgate.spark.records import avro_schema

RECORD = {"type": "record", "name": "r", "fields": [{"name": "N", "type": "int"}]}


def stream(schema: str, *columns: str) -> StreamDefinition:
    declared = Schema(tuple(Column(name, "int") for name in columns))
    return StreamDefinition("s", "kafka", declared, (("format", "avro"), ("schema", schema)))


def test_a_schema_is_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(json.dumps(RECORD))
    for given in (json.dumps(RECORD), f"{tmp_path}/r.avsc"):
        assert avro_schema(stream(given, "n", "offset")) == RECORD


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "stream s: schema is not JSON"),
        ('"int"', "stream s: schema is not one of records"),
        ("nowhere.avsc", "schema nowhere.avsc cannot be read: No such file or directory"),
        (json.dumps(RECORD), "stream s: schema has no field m; it has N"),
    ],
)
def test_a_schema_that_cannot_give_the_columns_is_refused(schema: str, problem: str) -> None:
    with pytest.raises(SetupError, match=problem):
        avro_schema(stream(schema, "n", "m"))
