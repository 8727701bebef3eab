"""Files on a local disk and through Hadoop: the same calls, the same answers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.cli.app import describe_failure
from headgate.spark.application.cluster import private_session
from headgate.spark.application.java_classes import JAR
from headgate.spark.file_system import Files

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def private(spark: SparkSession) -> SparkSession:
    return private_session(spark)


@pytest.fixture(params=["disk", "hadoop"])
def files(private: SparkSession, request: pytest.FixtureRequest) -> Files:
    return through_hadoop(private) if request.param == "hadoop" else Files(private)


def through_hadoop(session: SparkSession) -> Files:
    """As on a file system of another machine."""
    found = Files(session)
    found.is_local = lambda path: False  # type: ignore[method-assign]
    return found


def test_names_are_sorted_and_leave_checksums_out(files: Files, tmp_path: Path) -> None:
    for name in ("b", "a c", ".a c.crc"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    assert files.names(str(tmp_path)) == ["a c", "b", "folder"]
    assert files.names(f"file:{tmp_path}") == files.names(str(tmp_path))


def test_a_folder_that_is_empty_or_not_there_has_no_names(files: Files, tmp_path: Path) -> None:
    assert files.names(str(tmp_path)) == []
    assert files.names(f"{tmp_path}/nowhere") == []


def test_a_text_is_read_back_and_replaced(files: Files, tmp_path: Path) -> None:
    path = f"{tmp_path}/new folder/text.json"
    for text in ("first", "second line:\nnaïve"):
        files.write_text(path, text)
        assert files.read_text(path) == text
    assert files.names(f"{tmp_path}/new folder") == ["text.json"]


def test_a_text_written_after_one_of_hadoops_is_still_read_by_hadoop(
    private: SparkSession, tmp_path: Path
) -> None:
    files, hadoop, path = Files(private), through_hadoop(private), f"{tmp_path}/text.json"
    hadoop.write_text(path, "by Hadoop, with a checksum beside it")
    files.write_text(path, "by us")
    assert hadoop.read_text(path) == "by us"


def test_moving_and_deleting(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    files.move(f"{tmp_path}/a/file", f"{tmp_path}/file")
    assert files.read_text(f"{tmp_path}/file") == "x" and files.names(f"{tmp_path}/a") == []
    for name in ("a", "file", "nothing"):
        files.delete(f"{tmp_path}/{name}")
        assert not files.exists(f"{tmp_path}/{name}")


def test_a_file_is_replaced_by_another(files: Files, tmp_path: Path) -> None:
    files.write_text(f"{tmp_path}/table", "old")
    files.write_text(f"{tmp_path}/draft", "new")
    files.replace(f"{tmp_path}/draft", f"{tmp_path}/table")
    assert files.read_text(f"{tmp_path}/table") == "new" and files.names(str(tmp_path)) == ["table"]
    files.write_text(f"{tmp_path}/other", "first")
    files.replace(f"{tmp_path}/other", f"{tmp_path}/free")
    assert files.read_text(f"{tmp_path}/free") == "first"


def test_a_text_is_exchanged_only_while_it_is_the_old_one(files: Files, tmp_path: Path) -> None:
    path = f"{tmp_path}/text"
    assert not files.exchange_text(path, "old", "new")
    assert files.create_text(path, "old") and not files.create_text(path, "other")
    assert not files.exchange_text(path, "older", "new") and files.read_text(path) == "old"
    assert files.exchange_text(path, "old", "new") and files.read_text(path) == "new"
    assert files.names(str(tmp_path)) == ["text"]


@pytest.mark.parametrize("write", [Files.write_text, Files.create_text])
def test_a_full_disk_is_named_with_the_file_that_had_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Files, str, str], object]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as raised:
        write(Files(), str(tmp_path / "manifest"), "text")
    text, _ = describe_failure(raised.value)
    assert text.startswith(f"error: {tmp_path}/manifest") and text.endswith(": No space left on device")
    assert not (tmp_path / "manifest").exists()


def test_local_disks_are_known_by_their_address(private: SparkSession) -> None:
    files = Files(private)
    assert all(map(files.is_local, ("/a", "file:/a", "file:///a")))
    # the JVM stays in the folder where it was started, so it must resolve what is relative
    assert not any(map(files.is_local, ("hdfs://host/a", "a")))


def test_only_the_engines_own_session_writes_without_starting_processes(
    spark: SparkSession, private: SparkSession
) -> None:
    def file_system(session: SparkSession) -> str:
        conf = session._jsparkSession.sessionState().newHadoopConf()
        path = session._jvm.org.apache.hadoop.fs.Path("/tmp")
        return str(path.getFileSystem(conf).getClass().getName())

    assert file_system(private) == "headgate.LocalFiles"
    assert file_system(spark) != "headgate.LocalFiles"


def test_files_and_folders_get_the_permissions_that_hadoop_gives_them(
    spark: SparkSession, private: SparkSession, tmp_path: Path
) -> None:
    modes = {}
    for name, session in {"hadoop": spark, "ours": private}.items():
        session.range(10).write.parquet(f"{tmp_path}/{name}")
        parts = (tmp_path / name).glob("part-*.parquet")
        modes[name] = {(tmp_path / name).stat().st_mode, *(part.stat().st_mode for part in parts)}
        assert session.read.parquet(f"{tmp_path}/{name}").count() == 10
    assert modes["ours"] == modes["hadoop"]


BUILD = """
from pathlib import Path
from headgate.spark.application.cluster import own_session
from headgate.spark.application.java_classes import JAR, build
build(own_session("local[1]"), Path("built.jar"), JAR.parent)
"""


def test_the_jar_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    # in a JVM without an archive of classes, as it was built: with one, members have another order
    environ = {**os.environ, "HEADGATE_CLASS_SHARING": "off"}
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, env=environ, check=True)
    assert (tmp_path / "built.jar").read_bytes() == JAR.read_bytes()
