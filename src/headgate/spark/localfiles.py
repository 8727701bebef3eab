"""File-system calls on a local disk: atomic, durable, and without a JVM."""

from __future__ import annotations

import os
import shutil
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlparse

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileStatus:
    """A file as its folder lists it; ``name`` is relative to the folder, empty for the path itself."""

    name: str
    size_bytes: int
    modified_ms: int


class FileSystem(Protocol):
    """The calls that checkpoints make, whatever the file system is."""

    def is_local(self, path: str) -> bool:
        """Whether a path is on a disk of this machine, where looking at a file costs microseconds."""

    def exists(self, path: str) -> bool:
        """Whether anything is there."""

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""

    def data_files(self, path: str) -> list[FileStatus]:
        """The files that Spark reads at a path, at any depth, sorted; none if it does not exist."""

    def crc32(self, path: str, start: int = 0) -> int:
        """Checksum of a file's bytes from ``start`` on."""

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""

    def read_text(self, path: str) -> str:
        """The whole of a small text file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small text file so that it is there whole or not at all."""

    def create_text(self, path: str, text: str) -> bool:
        """Write a small text file unless there is one already; whether this call wrote it."""


def has_scheme(path: str) -> bool:
    """Whether an address names its file system."""
    return "://" in path or path.startswith("file:")


def local_path(path: str) -> Path:
    """A path, or an address that begins with ``file:``, as Python opens it."""
    return Path(unquote(urlparse(path).path)) if path.startswith("file:") else Path(path)


def is_hidden(name: str) -> bool:
    """Whether Spark skips a file, by one of the parts of its name."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


class LocalFiles:
    """A disk of this machine.

    Hadoop keeps a checksum beside each local file that it writes (``.name.crc``). Such a companion is never
    listed, and goes when its file goes: left behind, it would accuse the next file of that name.
    """

    def is_local(self, path: str) -> bool:
        """Always."""
        return True

    def exists(self, path: str) -> bool:
        """Whether anything is there."""
        return local_path(path).exists()

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        local_path(path).mkdir(parents=True, exist_ok=True)

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none if it does not exist."""
        try:
            return sorted(name for name in os.listdir(local_path(path)) if not _is_companion(name))
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            return [local_path(path).name]

    def data_files(self, path: str) -> list[FileStatus]:
        """The files that Spark reads at a path, at any depth, sorted; none if it does not exist."""
        place = str(local_path(path)) if path.startswith("file:") else path
        try:
            found = list(_walk(place))
        except NotADirectoryError:
            found = [("", os.stat(place))]
        except FileNotFoundError:
            return []
        statuses = [FileStatus(name, stat.st_size, stat.st_mtime_ns // 1_000_000) for name, stat in found]
        return sorted(statuses, key=lambda status: status.name)

    def crc32(self, path: str, start: int = 0) -> int:
        """Checksum of a file's bytes from ``start`` on."""
        checksum = 0
        with local_path(path).open("rb") as file:
            file.seek(start)
            while chunk := file.read(_CHUNK_BYTES):
                checksum = zlib.crc32(chunk, checksum)
        return checksum

    def move(self, source: str, target: str) -> None:
        """Rename, onto a name that is free."""
        old, new = local_path(source), local_path(target)
        os.rename(old, new)
        _companion(new).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            os.rename(_companion(old), _companion(new))

    def delete(self, path: str) -> None:
        """Remove a file or folder, if it is there."""
        place = local_path(path)
        if place.is_dir() and not place.is_symlink():
            with suppress(FileNotFoundError):
                shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
            _companion(place).unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        """The whole of a small text file."""
        return local_path(path).read_text(encoding="utf-8")

    def write_text(self, path: str, text: str) -> None:
        """Write a small text file so that it is there whole or not at all, after a power cut as well."""
        place = local_path(path)
        draft = _written_draft(place, text, place.with_name(f"{place.name}.draft"))
        os.replace(draft, place)
        _companion(place).unlink(missing_ok=True)

    def create_text(self, path: str, text: str) -> bool:
        """Write a small text file unless there is one already; whether this call wrote it."""
        place = local_path(path)
        # others may try at the same time
        draft = _written_draft(place, text, place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}.draft"))
        try:
            # a link appears at once and whole, and never replaces what is there
            os.link(draft, place)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True


def _walk(folder: str, above: str = "") -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            name = f"{above}{entry.name}"
            if entry.is_dir():
                yield from _walk(entry.path, f"{name}/")
            else:
                yield name, entry.stat()


def _written_draft(place: Path, text: str, draft: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft


def _companion(place: Path) -> Path:
    return place.with_name(f".{place.name}.crc")


def _is_companion(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")
