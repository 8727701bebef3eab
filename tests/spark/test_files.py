"""Files on a local disk and through Hadoop: the same calls, the same answers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.spark.cluster import private_session
from headgate.spark.files import Files, _Hadoop
from headgate.spark.local_files import JAR, compiled

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def private(spark: SparkSession) -> SparkSession:
    return private_session(spark)


@pytest.fixture(params=["disk", "hadoop"])
def files(private: SparkSession, request: pytest.FixtureRequest) -> Files:
    found = Files(private)
    if request.param == "hadoop":
        found._local = found._hadoop  # type: ignore[assignment]
        assert isinstance(found._of("/x"), _Hadoop)
    return found


def test_names_are_sorted_and_leave_checksums_out(files: Files, tmp_path: Path) -> None:
    for name in ("b", "a c", ".a c.crc", "d%20e"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    assert files.names(str(tmp_path)) == ["a c", "b", "d%20e", "folder"]
    assert files.names(f"file:{tmp_path}") == files.names(str(tmp_path))


def test_a_folder_that_is_empty_or_not_there_has_no_names(files: Files, tmp_path: Path) -> None:
    assert files.names(str(tmp_path)) == []
    assert files.names(f"{tmp_path}/nowhere") == []


def test_a_text_is_read_back_and_replaced(files: Files, tmp_path: Path) -> None:
    path = f"{tmp_path}/new folder/text.json"
    for text in ("first", "zweite Zeile:\r\nüber"):
        files.write_text(path, text)
        assert files.read_text(path) == text
    assert files.names(f"{tmp_path}/new folder") == ["text.json"]


def test_a_text_written_after_one_of_hadoops_is_still_read_by_hadoop(
    private: SparkSession, tmp_path: Path
) -> None:
    files, path = Files(private), f"{tmp_path}/text.json"
    files._hadoop.write_text(path, "by Hadoop, with a checksum beside it")
    files.write_text(path, "by us")
    assert files._hadoop.read_text(path) == "by us"


def test_moving_and_deleting(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("x")
    files.move(f"{tmp_path}/a/file", f"{tmp_path}/file")
    assert files.read_text(f"{tmp_path}/file") == "x" and files.names(f"{tmp_path}/a") == []
    for name in ("a", "file", "nothing"):
        files.delete(f"{tmp_path}/{name}")
        assert not files.exists(f"{tmp_path}/{name}")


def test_relative_paths_are_relative_to_where_java_was_started(
    private: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("")
    files = Files(private)
    assert files.exists("here") == files._hadoop.exists("here")


def test_other_file_systems_are_hadoops(private: SparkSession) -> None:
    files = Files(private)
    assert isinstance(files._of("hdfs://host/a"), _Hadoop)
    for local in ("/a", "a", "a/b:c", "file:/a", "file:///a"):
        assert not isinstance(files._of(local), _Hadoop)


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


def test_the_jar_is_what_its_source_compiles_to(private: SparkSession) -> None:
    with zipfile.ZipFile(JAR) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == compiled(private)
