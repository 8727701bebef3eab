"""The list of tables of a checkpoint, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from headgate.errors import SetupError
from headgate.model.network import Network
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.file_system import Files
from headgate.spark.prepared import Prepared
from headgate.spark.stored_tables import StoredTables, record_tables

TABLE = {
    "name": "q",
    "kind": "query",
    "format": "parquet",
    "columns": StructType().add("v", LongType()).json(),
    "options": {"path": "/out"},
}


def stored(root: Path, content: bytes) -> StoredTables:
    (root / "headgate.tables.json").write_bytes(content)
    return StoredTables(cast(SparkSession, None), Files(), str(root))


def test_tables_are_read_in_order(tmp_path: Path) -> None:
    found = stored(tmp_path, json.dumps([TABLE, {**TABLE, "name": "a"}]).encode())
    assert [table.name for table in found.tables] == ["q", "a"]


def test_the_list_replaces_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "headgate.tables.json/x").mkdir(parents=True)
    checkpoint = cast(Checkpoint, SimpleNamespace(root=str(tmp_path)))
    network = cast(Network, SimpleNamespace(relations={}, queries={}))
    record_tables(cast(SparkSession, None), Files(), checkpoint, network, cast(Prepared, None))
    assert StoredTables(cast(SparkSession, None), Files(), str(tmp_path)).tables == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"7",
        b"\xff",
        b"[1]",
        b"{}7",
        json.dumps([{**TABLE, "options": [1]}]).encode(),
        json.dumps([{**TABLE, "columns": "{"}]).encode(),
        json.dumps([{**TABLE, "columns": "{}"}]).encode(),
        json.dumps([{**TABLE, "kind": 1}]).encode(),
    ],
)
def test_a_damaged_list_of_tables_is_named(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SetupError) as refused:
        stored(tmp_path, content)
    damage = f"{tmp_path}/headgate.tables.json is damaged; start the run again, which writes it anew"
    assert str(refused.value) == damage
