"""Files that cannot be read are set aside with their reason, and change nothing else."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.oracle.brute_force import Stream
from tests.oracle.files import stamp, stream_sql, write_stream
from tests.oracle.runs import PATIENT, query_sql
from tests.spark.arrival.test_late_rows import check, queries, tuples

from headgate import Session
from headgate.errors import DamagedStateError
from headgate.session.handle import Run
from headgate.spark.arrival.dead_letters import culprits
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.source_files import FileSourceLog

TIMEOUT_S = 180
UNREADABLE = "the file cannot be read"


@pytest.mark.parametrize("bad", [(), ("c",), ("a", "b", "g"), tuple("abcdefg")])
def test_culprits_are_found_with_their_own_errors(bad: Sequence[str]) -> None:
    def failure(files: Sequence[str]) -> Exception | None:
        found = [file for file in files if file in bad]
        return ValueError(found[0]) if found else None

    assert [(file, str(error)) for file, error in culprits("abcdefg", failure)] == [(b, b) for b in bad]


def test_one_culprit_among_many_files_takes_few_reads() -> None:
    reads = []

    def failure(files: Sequence[str]) -> Exception | None:
        reads.append(len(files))
        return ValueError() if "77" in files else None

    [(found, _)] = culprits([str(number) for number in range(128)], failure)
    assert found == "77" and len(reads) == 1 + 2 * 7


def write_columns(path: Path, times: Sequence[object], values: pa.Array) -> None:
    columns = {
        "ts": times,
        "k": pa.array([1] * len(times), pa.int32()),
        "v": values,
        "s": ["ant"] * len(times),
    }
    pq.write_table(pa.table(columns), path, use_dictionary=False)


def damage_a_page(path: Path, times: Sequence[int]) -> None:
    """Timestamps can be read; values cannot be unpacked."""
    rng = Random(7)
    write_columns(path, times, pa.array([rng.randint(0, 2**30) for _ in times], pa.int32()))
    group = pq.read_metadata(path).row_group(0)
    place = next(
        group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "v"
    ).data_page_offset
    content = bytearray(path.read_bytes())
    content[place + 2 : place + 60] = b"\xff" * 58
    path.write_bytes(bytes(content))


def write_bad_files(folder: Path) -> dict[str, str]:
    """Bad files among the good ones; the reason for each."""
    times = pa.array(range(1000, 1300), pa.int64())
    texts, numbers = pa.array(["one"] * len(times)), pa.array([1] * len(times), pa.int32())
    (folder / "100.parquet").write_bytes(b"")
    (folder / "101.parquet").write_text("neither Parquet nor anything else " * 9)
    (folder / "102.parquet").write_bytes((folder / "000.parquet").read_bytes()[:-10])
    write_columns(folder / "103.parquet", times, texts)
    write_columns(folder / "104.parquet", texts, numbers)
    damage_a_page(folder / "105.parquet", times.to_pylist())
    (folder / "106.parquet").write_text("gone before it is read")
    for path in folder.glob("1*.parquet"):
        stamp(path)
        # between the first good file and the second
        os.utime(path, (1_600_000_000.5, 1_600_000_000.5))
    return {
        "100": f"{UNREADABLE}: it is empty",
        "101": f"{UNREADABLE}: RuntimeException: file:{folder}/101.parquet is not a Parquet file",
        "102": f"{UNREADABLE}: RuntimeException: file:{folder}/102.parquet is not a Parquet file",
        "103": "column v is STRING, declared INT",
        "104": "column ts is STRING, declared BIGINT",
        "105": f"{UNREADABLE}: ",
        "106": f"{UNREADABLE}: it is no longer there",
    }


def delete_when_read(patch: pytest.MonkeyPatch, gone: Path) -> None:
    listed = FileSourceLog.files

    def files(self: FileSourceLog, stream: str, batch_id: int) -> list[str]:
        found = listed(self, stream, batch_id)
        if any(path.endswith(gone.name) for path in found):
            gone.unlink(missing_ok=True)
        return found

    patch.setattr(FileSourceLog, "files", files)


def write_others(folder: Path) -> None:
    """A stream that is stamped on arrival, one of packed text, and one that declares no columns."""
    for name in ("stamped", "packed", "inferred"):
        (folder / name).mkdir()
    for number, values in enumerate([[1, 2, 3], ["a"], [4]]):
        pq.write_table(pa.table({"n": values}), folder / f"stamped/{number}.parquet")
    (folder / "stamped/3.parquet").write_bytes(b"")
    (folder / "packed/0.csv.gz").write_bytes(gzip.compress(b"1\n2\n"))
    (folder / "packed/1.csv.gz").write_text("not packed at all")
    (folder / "packed/2.csv").write_text("")
    (folder / "inferred/0.parquet").write_text("not Parquet")
    pq.write_table(pa.table({"n": [5, 6]}), folder / "inferred/1.parquet")


OTHERS = {"stamped": [1, 2, 3, 4], "packed": [1, 2], "inferred": [5, 6]}


def started(spark: SparkSession, folder: Path, stream: Stream, files_a_tick: int) -> Run:
    session = Session(spark)
    options = {"idle_after": PATIENT, "maxFilesPerTrigger": files_a_tick}
    session.execute(stream_sql(stream, folder / stream.name, "parquet", "BIGINT", **options))
    session.execute("\n".join(query_sql(query) for query in queries(stream)))
    session.execute(
        f"CREATE STREAM stamped (n BIGINT) FROM parquet OPTIONS (path '{folder}/stamped');"
        f"CREATE STREAM packed (n BIGINT) FROM csv OPTIONS (path '{folder}/packed');"
        f"CREATE STREAM inferred FROM parquet OPTIONS (path '{folder}/inferred');"
        + "".join(f"CREATE QUERY of_{name} AS SELECT n FROM {name};" for name in OTHERS)
    )
    return session.start(until_done=True, checkpoint=folder / "checkpoint")


@pytest.mark.spark
@pytest.mark.parametrize(("held_bytes", "files_a_tick"), [(2**20, 1000), (-1, 3)], ids=["held", "in place"])
def test_bad_files_are_set_aside_once_and_change_nothing_else(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held_bytes: int,
    files_a_tick: int,
) -> None:
    # of files that are not held in memory, what arrives is judged by timestamps alone
    monkeypatch.setattr("headgate.spark.arrival.log_appender.SMALL_FILES_BYTES", held_bytes)
    stream = Stream("readings", 0, tuples(range(1000, 1012)))
    folder = tmp_path / "readings"
    write_stream(folder, stream, [4, 8], "parquet", "BIGINT")
    reasons = write_bad_files(folder)
    write_others(tmp_path)
    delete_when_read(monkeypatch, folder / "106.parquet")
    with monkeypatch.context() as crashing:
        # files are set aside and results are public, but the tick has not happened

        def fail(*_: object) -> None:
            raise DamagedStateError("the disk is gone")

        crashing.setattr(Checkpoint, "commit", fail)
        with pytest.raises(DamagedStateError, match="the disk is gone"):
            started(spark, tmp_path, stream, files_a_tick).wait(TIMEOUT_S)
    (folder / "106.parquet").write_text("gone before it is read")
    run = started(spark, tmp_path, stream, files_a_tick)
    assert run.wait(TIMEOUT_S)
    check(run, stream)
    for name, values in OTHERS.items():
        assert sorted(n for (n,) in run.results(f"of_{name}").select("n").collect()) == values
    letters = run.dead_letters().where("stream = 'readings'").collect()
    found = {Path(json.loads(letter.row)["file"]).stem: letter.reason for letter in letters}
    assert found.keys() == reasons.keys() and len(letters) == len(reasons)
    assert [(file, found[file]) for file in found if not found[file].startswith(reasons[file])] == []
    counts = run.status().streams
    assert {name: counts[name].files_set_aside for name in counts} == {
        "readings": len(reasons),
        "stamped": 2,
        "packed": 1,
        "inferred": 1,
    }
    assert (counts["readings"].rows_in, counts["readings"].late, counts["readings"].bad) == (12, 0, 0)


@pytest.mark.spark
def test_a_bad_file_beside_a_stream_of_another_kind_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    write_others(tmp_path)
    session = Session(spark)
    session.execute(
        f"CREATE STREAM inferred FROM parquet OPTIONS (path '{tmp_path}/inferred');"
        "CREATE STREAM load FROM burst OPTIONS (rate '100', seed '1', duration '2 s', speed 'max');"
        "CREATE QUERY of_files AS SELECT n FROM inferred;"
        "CREATE QUERY of_load AS SELECT bytes FROM load;"
    )
    run = session.start(until_done=True, checkpoint=tmp_path / "checkpoint")
    assert run.wait(TIMEOUT_S)
    assert sorted(n for (n,) in run.results("of_files").select("n").collect()) == OTHERS["inferred"]
    assert run.status().streams["inferred"].files_set_aside == 1
    assert run.results("of_load").count() == run.status().streams["load"].rows_in > 0
