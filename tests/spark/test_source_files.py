"""Files of one time of change arrive in the order of their names, however the folder lists them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headgate import Session
from headgate.errors import DamagedStateError
from headgate.spark.application.cluster import private_session
from headgate.spark.file_system import Files
from headgate.spark.source_files import FileSourceLog

pytestmark = pytest.mark.spark

TIMEOUT_S = 180
FILES, ROWS_A_FILE = 12, 20
CHANGED_S = 1_700_000_000


def write_shuffled(folder: Path) -> None:
    """Names tell the order of time; neither the order of writing nor the time of change does."""
    folder.mkdir()
    order = list(range(FILES))
    Random(3).shuffle(order)
    for number in order:
        first = 1000 + number * ROWS_A_FILE
        path = folder / f"part-{number:02d}.csv"
        path.write_text("".join(f"{ts},{ts % 7}\n" for ts in range(first, first + ROWS_A_FILE)))
        os.utime(path, (CHANGED_S, CHANGED_S))


def test_files_of_one_time_of_change_bring_no_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_shuffled(tmp_path / "in")
    session = Session(spark)
    # one micro-batch, several, and one for every file
    for files_a_tick in (1000, 5, 1):
        session.execute(
            f"CREATE STREAM s{files_a_tick} (ts BIGINT, v INT) FROM csv OPTIONS (path '{tmp_path}/in', "
            f"timestamp 'ts', maxFilesPerTrigger '{files_a_tick}', idle_after '1 hour');"
            f"CREATE QUERY q{files_a_tick} AS SELECT ts FROM s{files_a_tick};"
        )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    found = {name: (c.rows_in, c.late) for name, c in run.status().streams.items()}
    assert found == dict.fromkeys(("s1000", "s5", "s1"), (FILES * ROWS_A_FILE, 0))


def test_local_folders_are_listed_by_name(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"{number:03d}" for number in range(200)]
    for name in Random(1).sample(names, len(names)):
        (tmp_path / name).write_text("")
    private = private_session(spark)
    path = private._jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    file_system = path.getFileSystem(private._jsparkSession.sessionState().newHadoopConf())
    assert [status.getPath().getName() for status in file_system.listStatus(path)] == names
    listings = [file_system.listLocatedStatus(path), file_system.listStatusIterator(path)]
    for listing in listings:
        found = []
        while listing.hasNext():
            found.append(listing.next().getPath().getName())
        assert found == names


def test_the_source_log_orders_by_entry_then_time_then_name(spark: SparkSession, tmp_path: Path) -> None:
    def entry(number: int, *files: tuple[str, int]) -> str:
        lines = [json.dumps({"path": path, "timestamp": at, "batchId": number}) for path, at in files]
        return "\n".join(["v1", *lines])

    for folder in ("offsets", "sources/s"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "offsets/0").write_text('v2\n{}\ns:{"logOffset":1}')
    (tmp_path / "sources/s/0").write_text(entry(0, ("file:///b", 5), ("file:///a%20c", 5), ("file:///z", 4)))
    (tmp_path / "sources/s/1").write_text(entry(1, ("file:///a", 1)))
    log = FileSourceLog(Files(spark), str(tmp_path))
    assert log.files("s", 0) == ["file:///z", "file:///a c", "file:///b", "file:///a"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("offsets/1", ""),
        ("offsets/1", "v2\n{}\ns:{"),
        ("sources/s/0", 'v1\n{"path": '),
        ("sources/s/0", "v1\n7"),
        ("sources/s/0", 'v1\n{"path": "file:///a"}'),
    ],
)
def test_a_damaged_entry_of_sparks_logs_is_named(tmp_path: Path, path: str, content: str) -> None:
    for folder in ("offsets", "sources/s"):
        (tmp_path / "spark" / folder).mkdir(parents=True)
    (tmp_path / "spark/offsets/1").write_text('v2\n{}\ns:{"logOffset":0}')
    (tmp_path / "spark" / path).write_text(content)
    with pytest.raises(DamagedStateError, match=f"^{tmp_path}/spark/{path} is damaged: ") as raised:
        FileSourceLog(Files(), str(tmp_path / "spark")).files("s", 1)
    assert "\n" not in str(raised.value) and f"rollback {tmp_path}, or remove" in str(raised.value)


def test_a_missing_entry_of_sparks_logs_is_named(tmp_path: Path) -> None:
    (tmp_path / "spark/offsets").mkdir(parents=True)
    (tmp_path / "spark/offsets/1").write_text('v2\n{}\ns:{"logOffset":0}')
    with pytest.raises(DamagedStateError, match=f"^{tmp_path}/spark/sources/s is damaged: it has no entry 0"):
        FileSourceLog(Files(), str(tmp_path / "spark")).files("s", 1)
