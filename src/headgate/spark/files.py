"""The few file-system calls the engine makes, on any file system that Spark reaches."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_NOT_FOUND = "java.io.FileNotFoundException"


def normal_path(path: str) -> str:
    """One spelling for a path, however Spark quotes it."""
    return unquote(urlparse(path).path)


class _FileSystem(Protocol):
    """What is asked of a file system, by path text."""

    def exists(self, path: str) -> bool: ...

    def make_folder(self, path: str) -> None: ...

    def names(self, path: str) -> list[str]: ...

    def move(self, source: str, target: str) -> None: ...

    def delete(self, path: str) -> None: ...

    def read_text(self, path: str) -> str: ...

    def write_text(self, path: str, text: str) -> None: ...

    def length_bytes(self, path: str) -> int: ...


class Files:
    """Files by path text: on a local disk by system calls, elsewhere through Hadoop's FileSystem."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        # with the settings of this session
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._hadoop = _Hadoop(jvm, self._conf)
        default = str(jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(self._conf))
        self._default_is_local = default.startswith("file:")
        # what a path without a root is relative to; this process may have moved on since Java was started
        self._local = _LocalDisk(Path(str(jvm.java.lang.System.getProperty("user.dir"))))

    def _of(self, path: str) -> _FileSystem:
        is_local = path.startswith("file:") if _scheme(path) else self._default_is_local
        return self._local if is_local and os.name == "posix" else self._hadoop

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        return self._of(path).exists(path)

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        self._of(path).make_folder(path)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""
        return sorted(self._of(path).names(path))

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""
        self._of(source).move(source, target)

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        self._of(path).delete(path)

    def read_text(self, path: str) -> str:
        """The whole of a small text file."""
        return self._of(path).read_text(path)

    def write_text(self, path: str, text: str) -> None:
        """Write a small text file so that it is there whole or not at all."""
        self._of(path).write_text(path, text)

    def length_bytes(self, path: str) -> int:
        """The length of a file."""
        return self._of(path).length_bytes(path)

    def parquet_rows(self, path: str) -> int:
        """How many rows a Parquet file holds, as its footer says."""
        parquet = self._jvm.org.apache.parquet.hadoop
        at = self._jvm.org.apache.hadoop.fs.Path(path)
        reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(at, self._conf))
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()


def _scheme(path: str) -> str:
    """The part of an address before its colon, if that is what the colon is for."""
    head = path.split("/", 1)[0]
    return head.split(":", 1)[0] if ":" in head else ""


class _LocalDisk:
    """A disk of this machine: a call into the JVM costs a hundred times as much as the system call itself."""

    def __init__(self, working_folder: Path) -> None:
        self._working_folder = working_folder

    def _at(self, path: str) -> Path:
        # Hadoop takes file:/a, file:///a and /a for the same, and unquotes none of them
        plain = path.removeprefix("file:")
        return self._working_folder / ("/" + plain.lstrip("/") if plain.startswith("/") else plain)

    def exists(self, path: str) -> bool:
        return self._at(path).exists()

    def make_folder(self, path: str) -> None:
        self._at(path).mkdir(parents=True, exist_ok=True)

    def names(self, path: str) -> list[str]:
        with suppress(FileNotFoundError):
            return [name for name in os.listdir(self._at(path)) if not _is_checksum(name)]
        return []

    def move(self, source: str, target: str) -> None:
        at = self._at(target)
        at.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self._at(source), at)
        _checksum_of(at).unlink(missing_ok=True)

    def delete(self, path: str) -> None:
        at = self._at(path)
        with suppress(FileNotFoundError):
            if at.is_dir() and not at.is_symlink():
                shutil.rmtree(at)
            else:
                at.unlink()
                _checksum_of(at).unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        return self._at(path).read_bytes().decode()

    def write_text(self, path: str, text: str) -> None:
        at = self._at(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        draft = at.with_name(f"{at.name}.draft")
        with open(draft, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # one of an earlier text would make Hadoop refuse this one
        _checksum_of(at).unlink(missing_ok=True)
        os.replace(draft, at)

    def length_bytes(self, path: str) -> int:
        return self._at(path).stat().st_size


def _checksum_of(at: Path) -> Path:
    return at.with_name(f".{at.name}.crc")


def _is_checksum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


class _Hadoop:
    """Any file system that Hadoop has a class for."""

    def __init__(self, jvm: Any, conf: Any) -> None:
        self._jvm = jvm
        self._conf = conf

    def _at(self, path: str) -> tuple[Any, Any]:
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path.getFileSystem(self._conf), hadoop_path

    def exists(self, path: str) -> bool:
        fs, at = self._at(path)
        return bool(fs.exists(at))

    def make_folder(self, path: str) -> None:
        fs, at = self._at(path)
        fs.mkdirs(at)

    def names(self, path: str) -> list[str]:
        fs, at = self._at(path)
        try:
            return [status.getPath().getName() for status in fs.listStatus(at)]
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _NOT_FOUND:
                return []
            raise

    def move(self, source: str, target: str) -> None:
        fs, at = self._at(source)
        if not fs.rename(at, self._jvm.org.apache.hadoop.fs.Path(target)):
            raise OSError(f"could not move {source} to {target}")

    def delete(self, path: str) -> None:
        fs, at = self._at(path)
        fs.delete(at, True)

    def read_text(self, path: str) -> str:
        fs, at = self._at(path)
        stream = fs.open(at)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
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

    def length_bytes(self, path: str) -> int:
        fs, at = self._at(path)
        return int(fs.getFileStatus(at).getLen())
