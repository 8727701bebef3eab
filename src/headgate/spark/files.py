"""The few file-system calls the engine makes, on any file system that Spark reaches."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession


def normal_path(path: str) -> str:
    """One spelling for a path, however Spark quotes it."""
    return unquote(urlparse(path).path)


class Files:
    """Hadoop's FileSystem, by path text."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path.getFileSystem(self._conf), hadoop_path

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        fs, at = self._at(path)
        return bool(fs.exists(at))

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        fs, at = self._at(path)
        fs.mkdirs(at)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""
        fs, at = self._at(path)
        if not fs.exists(at):
            return []
        return sorted(status.getPath().getName() for status in fs.listStatus(at))

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""
        fs, at = self._at(source)
        if not fs.rename(at, self._jvm.org.apache.hadoop.fs.Path(target)):
            raise OSError(f"could not move {source} to {target}")

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        fs, at = self._at(path)
        fs.delete(at, True)

    def read_text(self, path: str) -> str:
        """The whole of a small text file."""
        fs, at = self._at(path)
        stream = fs.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def length_bytes(self, path: str) -> int:
        """The length of a file."""
        fs, at = self._at(path)
        return int(fs.getFileStatus(at).getLen())

    def parquet_rows(self, path: str) -> int:
        """How many rows a Parquet file holds, as its footer says."""
        parquet = self._jvm.org.apache.parquet.hadoop
        _, at = self._at(path)
        reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(at, self._conf))
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def write_text(self, path: str, text: str) -> None:
        """Write a small text file so that it is there whole or not at all."""
        fs, at = self._at(path)
        draft = self._jvm.org.apache.hadoop.fs.Path(f"{path}.draft")
        stream = fs.create(draft, True)
        try:
            stream.write(text.encode())
            stream.hsync()
        finally:
            stream.close()
        fs.delete(at, False)
        if not fs.rename(draft, at):
            raise OSError(f"could not write {path}")
