"""The few file-system calls the engine makes, on any file system that Spark reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from headgate.spark.localfiles import FileStatus, LocalFiles, is_hidden, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def normal_path(path: str) -> str:
    """One spelling for a path, however Spark quotes it."""
    return unquote(urlparse(path).path)


class Files:
    """Hadoop's FileSystem, by path text; a local disk directly, which is quicker and replaces atomically."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        self._local = LocalFiles()
        # a path without a scheme is wherever Hadoop's default file system is
        self._default_is_local = str(self._conf.get("fs.defaultFS", "file:///")).startswith("file:")

    def _at(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path.getFileSystem(self._conf), hadoop_path

    def is_local(self, path: str) -> bool:
        """Whether a path is on a disk of this machine, where looking at a file costs microseconds.

        A relative path is left to Hadoop: the JVM stays in the folder where it was started.
        """
        return path.startswith("file:/") or (self._default_is_local and path.startswith("/"))

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        if self.is_local(path):
            return self._local.exists(path)
        fs, at = self._at(path)
        return bool(fs.exists(at))

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        if self.is_local(path):
            return self._local.make_folder(path)
        fs, at = self._at(path)
        fs.mkdirs(at)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""
        if self.is_local(path):
            return self._local.names(path)
        fs, at = self._at(path)
        if not fs.exists(at):
            return []
        return sorted(status.getPath().getName() for status in fs.listStatus(at))

    def data_files(self, path: str) -> list[FileStatus]:
        """The files that Spark reads at a path, at any depth, sorted; none if it does not exist."""
        if self.is_local(path):
            return self._local.data_files(path)
        fs, at = self._at(path)
        if not fs.exists(at):
            return []
        root = str(fs.makeQualified(at).toString())
        listing, found = fs.listFiles(at, True), []
        while listing.hasNext():
            status = listing.next()
            name = str(status.getPath().toString())[len(root) :].lstrip("/")
            if not is_hidden(name):
                found.append(FileStatus(name, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found, key=lambda status: status.name)

    def crc32(self, path: str, start: int = 0) -> int:
        """Checksum of a file's bytes from ``start`` on."""
        if self.is_local(path):
            return self._local.crc32(path, start)
        fs, at = self._at(path)
        zipping = self._jvm.java.util.zip
        stream = fs.open(at)
        try:
            stream.seek(start)
            # the bytes stay on the side of Java
            checked = zipping.CheckedInputStream(stream, zipping.CRC32())
            self._jvm.org.apache.commons.io.IOUtils.consume(checked)
            return int(checked.getChecksum().getValue())
        finally:
            stream.close()

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""
        if self.is_local(source) and self.is_local(target):
            return self._local.move(source, target)
        fs, at = self._at(source)
        if not fs.rename(at, self._jvm.org.apache.hadoop.fs.Path(target)):
            raise OSError(f"could not move {source} to {target}")

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        if self.is_local(path):
            return self._local.delete(path)
        fs, at = self._at(path)
        fs.delete(at, True)

    def read_text(self, path: str) -> str:
        """The whole of a small text file."""
        if self.is_local(path):
            return self._local.read_text(path)
        fs, at = self._at(path)
        stream = fs.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def length_bytes(self, path: str) -> int:
        """The length of a file."""
        if self.is_local(path):
            return local_path(path).stat().st_size
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
        if self.is_local(path):
            return self._local.write_text(path, text)
        fs, at = self._at(path)
        draft = self._jvm.org.apache.hadoop.fs.Path(f"{path}.draft")
        self._write(fs.create(draft, True), text)
        # Hadoop's rename does not replace; names of manifests are new, so that nothing is deleted here
        fs.delete(at, False)
        if not fs.rename(draft, at):
            raise OSError(f"could not write {path}")

    def create_text(self, path: str, text: str) -> bool:
        """Write a small text file unless there is one already; whether this call wrote it."""
        if self.is_local(path):
            return self._local.create_text(path, text)
        fs, at = self._at(path)
        try:
            stream = fs.create(at, False)
        except Exception:
            if fs.exists(at):
                return False
            raise
        self._write(stream, text)
        return True

    def _write(self, stream: Any, text: str) -> None:
        try:
            stream.write(text.encode())
            stream.hsync()
        finally:
            stream.close()
