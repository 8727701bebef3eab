"""File-system calls of the engine: on a local disk directly, elsewhere through Hadoop."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FileStatus:
    """A file as its folder lists it; ``name`` is relative to the folder, empty for the path itself."""

    name: str
    size_bytes: int
    modified_ms: int


def normal_path(path: str) -> str:
    """One spelling for a path, however Spark quotes it."""
    return unquote(urlparse(path).path)


def local_path(path: str) -> Path:
    """A path, or an address that begins with ``file:``, as Python opens it."""
    return Path(normal_path(path)) if path.startswith("file:") else Path(path)


class Files:
    """Files by path text. Local disks are accessed directly, which is faster and replaces files atomically.

    Without a Spark session, all paths must be local. Hadoop keeps a checksum beside each local file that it
    writes (``.name.crc``). Such a companion is never listed, and is deleted with its file: left behind, it
    would not match the next file of that name.
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._jvm: Any = None
        if spark is not None:
            self._jvm = spark._jvm
            self._gateway: Any = spark.sparkContext._gateway
            self._conf: Any = spark._jsc.hadoopConfiguration()
            default = str(self._conf.get("fs.defaultFS", "file:///"))
            self._default_is_local = default.startswith("file:")

    def is_local(self, path: str) -> bool:
        """Whether a path is on a disk of this machine, where looking at a file costs microseconds.

        A relative path is left to Hadoop: the JVM stays in the folder where it was started.
        """
        if self._jvm is None or path.startswith("file:/"):
            return True
        # a path without a scheme is wherever Hadoop's default file system is
        return self._default_is_local and path.startswith("/")

    def _at(self, *paths: str) -> tuple[Any, ...]:
        """Hadoop's file system and the paths as it writes them; on a local disk, None and Python's paths."""
        if self._jvm is None or all(map(self.is_local, paths)):
            return None, *map(local_path, paths)
        places = [self._jvm.org.apache.hadoop.fs.Path(path) for path in paths]
        return places[0].getFileSystem(self._conf), *places

    def exists(self, path: str) -> bool:
        fs, at = self._at(path)
        return bool(at.exists() if fs is None else fs.exists(at))

    def is_file(self, path: str) -> bool:
        fs, at = self._at(path)
        return bool(at.is_file() if fs is None else fs.exists(at) and fs.getFileStatus(at).isFile())

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""
        fs, at = self._at(path)
        if fs is not None:
            found = fs.listStatus(at) if fs.exists(at) else ()
            return sorted(status.getPath().getName() for status in found)
        try:
            names = os.listdir(at)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return [at.name]
        return sorted(name for name in names if not (name.startswith(".") and name.endswith(".crc")))

    def data_files(self, path: str) -> list[FileStatus]:
        """The files that Spark reads at a path, at any depth, sorted; none if it does not exist."""
        fs, at = self._at(path)
        try:
            found = list(_walk(at) if fs is None else _walk_hadoop(fs, at))
        except NotADirectoryError:
            found = [_status("", at.stat())]
        except FileNotFoundError:
            found = []
        return sorted(found, key=lambda status: status.name)

    def length_bytes(self, path: str) -> int:
        fs, at = self._at(path)
        return int(at.stat().st_size if fs is None else fs.getFileStatus(at).getLen())

    def read_bytes(self, path: str, start: int = 0) -> bytes:
        """A small file, or the end of one."""
        fs, at = self._at(path)
        with closing(at.open("rb") if fs is None else fs.open(at)) as file:
            file.seek(start)
            return bytes(
                file.read() if fs is None else self._jvm.org.apache.commons.io.IOUtils.toByteArray(file)
            )

    def parquet_rows(self, path: str) -> int:
        """How many rows a Parquet file holds, according to its footer."""
        parquet, at = self._jvm.org.apache.parquet.hadoop, self._jvm.org.apache.hadoop.fs.Path(path)
        file = parquet.util.HadoopInputFile.fromPath(at, self._conf)
        with closing(parquet.ParquetFileReader.open(file)) as reader:
            return int(reader.getRecordCount())

    def make_folder(self, path: str) -> None:
        """Create a folder and those around it, as far as they are missing."""
        fs, at = self._at(path)
        if fs is None:
            at.mkdir(parents=True, exist_ok=True)
        else:
            fs.mkdirs(at)

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""
        fs, old, new = self._at(source, target)
        if fs is None:
            os.rename(old, new)
            _companion(new).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                os.rename(_companion(old), _companion(new))
        elif not fs.rename(old, new):
            raise OSError(f"could not move {source} to {target}")

    def replace(self, source: str, target: str) -> None:
        """Rename, in place of what has that name; who reads it sees either one."""
        fs, old, new = self._at(source, target)
        if fs is None:
            # a checksum of the file before would be wrong for this one
            _companion(new).unlink(missing_ok=True)
            os.replace(old, new)
            return
        hadoop = self._jvm.org.apache.hadoop.fs
        # of its own class: Java would not take an array of objects
        overwrite = self._gateway.new_array(getattr(hadoop, "Options$Rename"), 1)
        overwrite[0] = getattr(hadoop, "Options$Rename").OVERWRITE
        hadoop.FileContext.getFileContext(new.toUri(), self._conf).rename(old, new, overwrite)

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        fs, at = self._at(path)
        if fs is not None:
            fs.delete(at, True)
        elif at.is_dir() and not at.is_symlink():
            with suppress(FileNotFoundError):
                shutil.rmtree(at)
        else:
            at.unlink(missing_ok=True)
            _companion(at).unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def write_text(self, path: str, text: str) -> None:
        """Write a small text file so that it is there whole or not at all, even after a power failure."""
        self.write_bytes(path, text.encode())

    def write_bytes(self, path: str, content: bytes) -> None:
        """The same for any content."""
        fs, draft = self._at(f"{path}.draft")
        if fs is None:
            _write_draft(draft, content)
        else:
            _write_to(fs.create(draft, True), content)
        self.replace(f"{path}.draft", path)

    def create_text(self, path: str, text: str) -> bool:
        """Write a small text file unless there is one already; whether this call wrote it."""
        # others may try at the same time
        fs, at, draft = self._at(path, f"{path}.{uuid.uuid4().hex[:8]}.draft")
        if fs is None:
            _write_draft(draft, text.encode())
            try:
                # a link appears at once and whole, and never replaces what is there
                os.link(draft, at)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
            return True
        try:
            stream = fs.create(at, False)
        except Exception:
            if fs.exists(at):
                return False
            raise
        _write_to(stream, text.encode())
        return True


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a file, by one of the parts of its name."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _status(name: str, stat: os.stat_result) -> FileStatus:
    return FileStatus(name, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _walk(folder: Path | str, above: str = "") -> Iterator[FileStatus]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{above}{entry.name}"
            if _is_hidden(entry.name):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, f"{name}/")
            else:
                yield _status(name, entry.stat())


def _walk_hadoop(fs: Any, folder: Any) -> Iterator[FileStatus]:
    if not fs.exists(folder):
        return
    root, listing = str(fs.makeQualified(folder).toString()), fs.listFiles(folder, True)
    while listing.hasNext():
        status = listing.next()
        name = str(status.getPath().toString())[len(root) :].lstrip("/")
        if not _is_hidden(name):
            yield FileStatus(name, int(status.getLen()), int(status.getModificationTime()))


def _write_draft(draft: Path, content: bytes) -> None:
    draft.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _write_to(stream: Any, content: bytes) -> None:
    with closing(stream):
        stream.write(content)
        stream.hsync()


def _companion(place: Path) -> Path:
    return place.with_name(f".{place.name}.crc")
