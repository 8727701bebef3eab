"""File-system calls of the engine: on a local disk directly, elsewhere through Hadoop."""

from __future__ import annotations

import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headgate.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# what file systems of Hadoop may offer: a file appears when its stream is closed, or never if that is aborted
_APPEARS_WHOLE = "fs.capability.outputstream.abortable"
# it is created on condition that there is none of that name, or that there is one of a certain version
_IF_NONE = "fs.option.create.conditional.overwrite"
_IF_VERSION = "fs.option.create.conditional.overwrite.etag"
_COPY_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class FileStatus:
    """A file as its folder lists it; ``name`` is relative to the folder, empty for the path itself."""

    name: str
    size_bytes: int
    modified_ms: int


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def _without_scheme(path: str) -> str:
    """A path without scheme and host; as for Hadoop, ``#``, ``?`` and ``%`` are letters of a name."""
    return _ADDRESS.sub("", path, count=1) if _ADDRESS.match(path) else path


def normal_path(path: str) -> str:
    """One spelling for a path, however Spark quotes it."""
    return unquote(_without_scheme(path))


def local_path(path: str) -> Path:
    """A path, or an address that begins with ``file:``, as Python opens it."""
    return Path(_without_scheme(path)) if path.startswith("file:") else Path(path)


class Files:
    """Files by path text. Local disks are accessed directly, which is faster and replaces files atomically.

    Elsewhere, a rename replaces files atomically, as on HDFS, unless they appear whole when they are closed:
    so on S3, where a rename is a copy and a deletion.

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
        if fs is None:
            with _named_in_errors(at), at.open("rb") as file:
                file.seek(start)
                return bytes(file.read())
        with closing(fs.open(at)) as stream:
            stream.seek(start)
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def matches_checksum(self, path: str) -> bool:
        """Whether a local file is what Hadoop's checksum beside it says, which fails reads if it is not."""
        fs, at = self._at(path)
        try:
            stored = b"" if fs is not None else _companion(at).read_bytes()
        except OSError:
            stored = b""
        size_bytes = int.from_bytes(stored[4:8], "big")
        # Hadoop, too, ignores what begins in another way
        if not stored.startswith(b"crc\0") or size_bytes == 0:
            return True
        content = self.read_bytes(path)
        places = range(0, len(content), size_bytes)
        sums = (zlib.crc32(content[place : place + size_bytes]).to_bytes(4, "big") for place in places)
        return stored[8:] == b"".join(sums)

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
            try:
                os.replace(old, new)
            except IsADirectoryError as error:
                # Python names the file that is moved
                raise OSError(error.errno, error.strerror, str(new)) from error
            return
        if _appears_whole(fs, new):
            self._copy(fs, old, new)
            fs.delete(old, False)
            return
        hadoop = self._jvm.org.apache.hadoop.fs
        # of its own class: Java would not take an array of objects
        overwrite = self._gateway.new_array(getattr(hadoop, "Options$Rename"), 1)
        overwrite[0] = getattr(hadoop, "Options$Rename").OVERWRITE
        hadoop.FileContext.getFileContext(new.toUri(), self._conf).rename(old, new, overwrite)

    def _copy(self, fs: Any, old: Any, new: Any) -> None:
        with closing(fs.open(old)) as source, _whole(fs.create(new, True)) as stream:
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(source, stream, _COPY_BUFFER_BYTES, False)

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
        fs, at, draft = self._at(path, f"{path}.draft")
        if fs is None:
            _write_draft(draft, content)
        elif _appears_whole(fs, at):
            _write_whole(fs.create(at, True), content)
            return
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
        if _appears_whole(fs, at):
            return self._write_if(path, text, _IF_NONE, True)
        try:
            stream = fs.create(at, False)
        except Exception:
            if fs.exists(at):
                return False
            raise
        _write_to(stream, text.encode())
        return True

    def exchange_text(self, path: str, old: str, new: str) -> bool:
        """Replace a small text file if it still holds ``old``; whether this call did."""
        fs, at = self._at(path)
        if fs is not None and _appears_whole(fs, at):
            try:
                version = str(fs.getFileStatus(at).getEtag())
                held = self.read_text(path)
            except Exception:
                if fs.exists(at):
                    raise
                return False
            return held == old and self._write_if(path, new, _IF_VERSION, version)
        # of two processes that move it away, only one succeeds
        aside = f"{path}.{uuid.uuid4().hex[:8]}"
        try:
            self.move(path, aside)
        except Exception:
            if self.exists(path):
                raise
            return False
        if (moved := self.read_text(aside)) != old:
            # another process was faster, and this is what it wrote: put it back
            self.create_text(path, moved)
        self.delete(aside)
        return moved == old and self.create_text(path, new)

    def _write_if(self, path: str, text: str, condition: str, value: str | bool) -> bool:
        """Write a small text file on a condition that the file system checks; whether this call wrote it."""
        fs, at = self._at(path)
        if not fs.hasPathCapability(at, condition):
            raise SetupError(
                f"{path}: without conditional writes, two runs could use one checkpoint; "
                "enable fs.s3a.create.conditional.enabled, or choose another file system"
            )
        try:
            builder = fs.createFile(at).create().recursive().overwrite(condition != _IF_NONE)
            _write_whole(builder.must(condition, value).build(), text.encode())
        except Exception:
            if not fs.exists(at):
                raise
            # a request that was repeated, because its answer was lost, finds what it wrote itself
            return self.read_text(path) == text
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
    with _named_in_errors(draft), draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _named_in_errors(place: Path) -> Iterator[None]:
    """Where a disk is full or does not answer, Python does not say which file it was."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(place)) from error


def _write_to(stream: Any, content: bytes) -> None:
    with closing(stream):
        stream.write(content)
        stream.hsync()


def _appears_whole(fs: Any, at: Any) -> bool:
    """Whether a file appears when its stream is closed, in place of one that has its name."""
    return bool(fs.hasPathCapability(at, _APPEARS_WHOLE))


def _write_whole(stream: Any, content: bytes) -> None:
    with _whole(stream) as file:
        file.write(content)


@contextmanager
def _whole(stream: Any) -> Iterator[Any]:
    """Close a stream after all was written; otherwise abort it, since closing would show what there is."""
    try:
        yield stream
    except BaseException:
        stream.abort()
        raise
    stream.close()


def _companion(place: Path) -> Path:
    return place.with_name(f".{place.name}.crc")
