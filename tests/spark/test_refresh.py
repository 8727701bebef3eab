"""Stored relations that are read again while a run goes on."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.files import stamp
from tests.oracle.runs import PATIENT

from headgate import Session
from headgate.model.network import RelationDefinition
from headgate.spark.blocks import BlockStore
from headgate.spark.checkpoint import Checkpoint, roll_back
from headgate.spark.file_system import Files
from headgate.spark.relations import StoredRelations
from headgate.spark.sources import Sources

pytestmark = pytest.mark.spark

KEYS = [1, 2]


def write_file(folder: Path, number: int) -> None:
    """A file of a stream: one second with a tuple of each key."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({"at": [number] * len(KEYS), "k": KEYS}), path)
    stamp(path)


def write_relation(path: Path, version: str) -> None:
    """Every key has the name of the version."""
    pq.write_table(pa.table({"k": KEYS, "version": [version] * len(KEYS)}), path)


def versions_by_file(spark: SparkSession, folder: Path) -> dict[int, str]:
    """Run to the end of what there is; which version the tuples of each file have met."""
    session = Session(spark).execute(f"""
        CREATE STREAM s (at BIGINT, k BIGINT) FROM parquet
          OPTIONS (path '{folder}/s', timestamp 'at', idle_after '{PATIENT}', maxFilesPerTrigger '1');
        CREATE RELATION r FROM parquet OPTIONS (path '{folder}/r.parquet', refresh '1 us');
        CREATE QUERY inner_join AS SELECT at, s.k, version FROM s JOIN r ON s.k = r.k;
        CREATE VIEW newest AS SELECT k, MAX(version) AS version FROM r GROUP BY k;
        CREATE QUERY of_view AS SELECT at, s.k, n.version FROM s JOIN (SELECT * FROM newest) AS n USING (k);
        CREATE QUERY left_join AS SELECT at, s.k, version FROM s LEFT JOIN r ON s.k = r.k AND at >= 0;
    """)
    run = session.start(until_done=True, checkpoint=folder / "checkpoint")
    assert run.wait(120)
    queries = ("inner_join", "of_view", "left_join")
    one, two, three = (sorted(map(tuple, run.results(q).drop("ts").collect())) for q in queries)
    # all operators of a tick read one version
    assert one == two == three
    found: dict[int, set[str]] = {}
    for at, _, version in one:
        found.setdefault(at, set()).add(version)
    assert len(one) == len(KEYS) * len(found) and all(len(met) == 1 for met in found.values())
    return {at: met.pop() for at, met in found.items()}


def test_a_relation_is_read_again_between_ticks_and_a_replay_reads_what_was_recorded(
    spark: SparkSession, tmp_path: Path
) -> None:
    relation = tmp_path / "r.parquet"
    write_relation(relation, "first")
    for number in (0, 1):
        write_file(tmp_path / "s", number)
    assert versions_by_file(spark, tmp_path) == {0: "first", 1: "first"}

    write_relation(relation, "second")
    for number in (2, 3, 4):
        write_file(tmp_path / "s", number)
    found = versions_by_file(spark, tmp_path)
    # the first tick reads the version that the last one has recorded
    assert [found[n] for n in (0, 1, 4)] == ["first", "first", "second"]
    assert [found[2], found[3]] in (["first", "second"], ["second", "second"])

    write_relation(relation, "third")
    files, root = Files(spark), str(tmp_path / "checkpoint")
    ticks = Checkpoint(files, root).history.ticks()
    roll_back(files, root, ticks[-3])
    again = versions_by_file(spark, tmp_path)
    redone = [n for n in again if again[n] != found[n]]
    assert "third" not in [again[n] for n in (0, 1, 2)] and all(again[n] == "third" for n in redone)


def test_a_version_that_cannot_be_read_leaves_the_one_before(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "r.parquet"
    write_relation(path, "first")
    files = Files(spark)
    store = BlockStore(spark, files, Checkpoint(files, str(tmp_path / "checkpoint")))
    definition = RelationDefinition("r", "parquet", None, (("path", str(path)),), refresh_us=10)
    relations = StoredRelations(spark, [definition], Sources(spark, files), store)

    def shown() -> list[str]:
        return [row.version for row in spark.sql(f"SELECT version FROM {relations['r'].view}").collect()]

    path.unlink()
    with caplog.at_level(logging.WARNING):
        assert relations.versions_after({}, 0, 5) == {}
    assert "relation r is not refreshed" in caplog.text and shown() == ["first"] * 2
    write_relation(path, "second")
    states = relations.versions_after({}, 1, 20)
    # not before it is used
    assert shown() == ["first"] * 2
    relations.use(states)
    assert shown() == ["second"] * 2
    write_relation(path, "third")
    assert relations.versions_after(states, 2, 29) == states
    relations.use(relations.versions_after(states, 3, 30))
    assert shown() == ["third"] * 2
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    relations.use(relations.versions_after(states, 4, 40))
    assert shown() == []
