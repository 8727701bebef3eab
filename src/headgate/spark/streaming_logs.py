"""The logs that Structured Streaming keeps below a checkpoint: whether its last entries are as written.

``offsets/`` has an entry for each micro-batch that was planned, ``commits/`` for each that was executed,
``sources/`` for each group of files that a source has found. Spark reads the last entries at a restart: one
that is lost or another one would make it read files twice, or never.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headgate.spark.file_system import Files
from headgate.spark.source_files import offset_entry

# a number above that of any entry
_ALL = 1 << 62
METADATA = "spark/metadata"
_ENTRY = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True)
class BrokenEntry:
    """An entry that cannot be read, or is missing; ``path`` is relative to the checkpoint."""

    path: str
    reason: str


@dataclass(frozen=True)
class StreamingLogs:
    """The logs below ``root``/spark."""

    _files: Files
    root: str

    def batches(self, kind: str) -> list[int]:
        """Micro-batches of one of the logs, oldest first: ``offsets`` or ``commits``."""
        return sorted(int(n) for n in self._files.names(f"{self.root}/spark/{kind}") if n.isdigit())

    def needed(self, tick: int) -> list[str]:
        """The entries from which Spark goes on after a tick: its offsets, and the files that it knows of.

        Paths relative to the checkpoint. Raises ``ValueError`` if the offsets cannot be read.
        """
        offsets = f"spark/offsets/{tick}"
        if not self._files.exists(f"{self.root}/{offsets}"):
            return []
        sources = [
            path
            for source, last in self._source_ends(offsets).items()
            for number, path in self._source_entries(source)
            if number <= last
        ]
        return [offsets, *sources]

    def broken(self, tick: int) -> list[BrokenEntry]:
        """The first of the entries that a tick needs which is missing or cannot be read."""
        offsets = f"spark/offsets/{tick}"
        if not self._files.exists(f"{self.root}/{offsets}"):
            reason = f"has no entry {tick}, which the manifest of that tick goes with"
            return [BrokenEntry("spark/offsets", reason)]
        if (why := self._unreadable(offsets)) is not None:
            return [BrokenEntry(offsets, why)]
        for source, last in self._source_ends(offsets).items():
            entries = self._source_entries(source)
            # one that merges all before it may be of a later number
            newest = max((number for number, _ in self._all_entries(source)), default=-1)
            if newest < last < _ALL:
                return [BrokenEntry(source, f"has no entry {last}, which the offsets of tick {tick} name")]
            for number, path in entries:
                is_known = last < _ALL
                if number <= last and (why := self._unreadable(path, is_known)) is not None:
                    return [BrokenEntry(path, why)]
        return []

    def broken_ahead(self, tick: int) -> list[BrokenEntry]:
        """Entries that cannot be read, and that Spark does without: it writes them again after the tick."""
        return [
            BrokenEntry(path, reason)
            for path in self._ahead(tick)
            if (reason := self._unreadable(path)) is not None
        ]

    def repairable(self, tick: int, changed: Collection[str] = ()) -> list[str]:
        """What to repair so that Spark can go on after a tick: such entries, and those that build on them.

        ``changed`` are entries that can be read, but are not what was written.
        """
        broken = [entry.path for entry in self.broken_ahead(tick)]
        broken += [path for path in self._ahead(tick) if path in changed]
        later = [
            path
            for first in broken
            if first.startswith("spark/sources/")
            for _, path in self._all_entries(first.rpartition("/")[0])
            if _number(path) > _number(first)
        ]
        return list(dict.fromkeys([*broken, *later]))

    def repair(self, path: str) -> None:
        """Remove an entry, which Spark writes again, or write the one that it would miss."""
        self._files.delete(f"{self.root}/{path}")
        if path == METADATA:
            # the id of the streaming query, which nothing else refers to
            self._files.write_text(f"{self.root}/{path}", json.dumps({"id": str(uuid.uuid4())}))

    def _ahead(self, tick: int) -> Iterator[str]:
        if self.batches("offsets"):
            yield METADATA
        # of commits, Spark reads the last one
        yield from (f"spark/commits/{batch}" for batch in self.batches("commits")[-1:])
        yield from (f"spark/offsets/{batch}" for batch in self.batches("offsets") if batch > tick)
        try:
            ends = self._source_ends(f"spark/offsets/{tick}") if tick >= 0 else {}
        except (ValueError, OSError):
            return
        for source, last in ends.items():
            yield from (path for number, path in self._source_entries(source) if number > last)

    def _source_ends(self, offsets: str) -> dict[str, int]:
        """By folder of a source, the last entry of its log that an entry of offsets includes.

        Sources other than files write one when they begin, and need it ever after.
        """
        version, lines = offset_entry(self._files.read_text(f"{self.root}/{offsets}"))
        named = (line.partition(":")[::2] for line in lines) if version == "v2" else enumerate(lines)
        found = {}
        for name, text in named:
            offset: Any = None if text == "-" else json.loads(text)
            last = offset.get("logOffset", _ALL) if isinstance(offset, dict) else _ALL
            if offset is not None:
                found[f"spark/sources/{name}"] = last
        return found

    def _all_entries(self, source: str) -> list[tuple[int, str]]:
        names = self._files.names(f"{self.root}/{source}")
        return sorted((_number(name), f"{source}/{name}") for name in names if _ENTRY.fullmatch(name))

    def _source_entries(self, source: str) -> list[tuple[int, str]]:
        """The entries that Spark reads: the last one that merges those before it, and those after it."""
        entries = self._all_entries(source)
        merged = max((number for number, path in entries if path.endswith(".compact")), default=-1)
        return [(number, path) for number, path in entries if number >= merged]

    def is_merged(self, path: str) -> bool:
        """Whether an entry of a source is gone because a later one has its content."""
        source, _, name = path.rpartition("/")
        if not source.startswith("spark/sources/"):
            return False
        later = [path for number, path in self._all_entries(source) if number > _number(name)]
        return any(entry.endswith(".compact") for entry in later)

    def _unreadable(self, path: str, is_known: bool = True) -> str | None:
        """Why an entry cannot be read; None if it can, as far as its format ``is_known``."""
        try:
            content = self._files.read_bytes(f"{self.root}/{path}")
            if not self._files.matches_checksum(f"{self.root}/{path}"):
                raise ValueError("it does not match Hadoop's checksum beside it")
            if path.startswith("spark/offsets/"):
                offset_entry(content.decode())
            elif is_known:
                _check_entry(content.decode(), has_version=path != METADATA)
        except FileNotFoundError:
            return "is missing"
        except Exception as error:
            # every file system raises its own kind of error
            return f"is damaged: {(str(error).strip().splitlines() or [type(error).__name__])[0]}"
        return None


def _number(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


def _check_entry(text: str, has_version: bool) -> None:
    """Raise ``ValueError`` unless a text is a version, and lines of JSON below it."""
    lines = text.splitlines()
    if has_version and not (lines and re.fullmatch(r"v\d+", lines.pop(0))):
        raise ValueError(f"it begins with {text[:20]!r}")
    if not any(lines):
        raise ValueError("it ends too early")
    for line in filter(None, lines):
        json.loads(line)


def recorded(found: Mapping[str, Any]) -> list[str]:
    """The entries among paths that a manifest has fingerprints of."""
    return sorted(path for path in found if path.startswith("spark/"))
