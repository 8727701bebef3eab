"""Fingerprints of blocks: enough of their files to notice that one is lost, cut, replaced or changed."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.spark.localfiles import FileStatus, FileSystem

# smaller files are read whole; of larger ones the end, where Parquet keeps its footer: lengths and places of
# all pages, row counts and statistics
_WHOLE_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class FilePart:
    """A file of a block.

    ``modified_ms`` is stated of files that are not ours: their owner may write them anew.
    """

    name: str
    size_bytes: int
    crc32: int
    modified_ms: int | None = None


Fingerprint = tuple[FilePart, ...]


@dataclass(frozen=True)
class Damage:
    """What is wrong with one file of the state; ``path`` is relative to the checkpoint, or absolute."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


def take_fingerprint(files: FileSystem, path: str, ours: bool) -> Fingerprint:
    """Of the files at a path, as they are now."""
    return tuple(
        FilePart(s.name, s.size_bytes, _crc32(files, path, s), None if ours else s.modified_ms)
        for s in files.data_files(path)
    )


def compare(
    files: FileSystem, full_path: str, shown: str, known: Fingerprint, content: bool = True
) -> list[Damage]:
    """What has changed since a fingerprint was taken; without ``content``, as far as a listing tells."""
    present = {status.name: status for status in files.data_files(full_path)}
    if not present:
        return [Damage(shown, "is missing")]
    found = [
        Damage(_joined(shown, part.name), reason)
        for part in known
        if (reason := _change(files, full_path, part, present.get(part.name), content))
    ]
    # Spark reads whatever lies in the folder
    strange = sorted(present.keys() - {part.name for part in known})
    return [*found, *(Damage(_joined(shown, name), "does not belong there") for name in strange)]


def _change(
    files: FileSystem, path: str, part: FilePart, status: FileStatus | None, content: bool
) -> str | None:
    if status is None:
        return "is missing"
    if status.size_bytes != part.size_bytes:
        return f"has {status.size_bytes:,} bytes instead of {part.size_bytes:,}"
    if part.modified_ms is not None and status.modified_ms != part.modified_ms:
        return "was modified"
    return _content_change(files, path, part, status) if content else None


def _content_change(files: FileSystem, path: str, part: FilePart, status: FileStatus) -> str | None:
    try:
        return None if _crc32(files, path, status) == part.crc32 else "has other content"
    except Exception as error:
        # each file system raises its own
        return f"cannot be read ({str(error).strip().splitlines()[0]})"


def _crc32(files: FileSystem, path: str, status: FileStatus) -> int:
    start = 0 if status.size_bytes <= _WHOLE_BYTES else status.size_bytes - _TAIL_BYTES
    return files.crc32(_joined(path, status.name), start)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if name else path
