"""Which files a micro-batch of Spark's file source consists of.

Inside of ``foreachBatch`` a batch is an opaque RDD: every job on it reads every column of every
stream anew. Spark's own source log names the files, in order of arrival, so that the engine can read
them as plain files, with column pruning and predicate push-down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.errors import InternalError
from headgate.spark.files import Files, normal_path


@dataclass
class _Read:
    """The files of a stream's log up to an entry."""

    files: set[str]
    upto: int


class FileSourceLog:
    """Reads ``offsets/`` and ``sources/`` of a Structured Streaming checkpoint."""

    def __init__(self, files: Files, folder: str, positions: Mapping[str, int] | None = None) -> None:
        """``positions`` of the sources in the plan, where they have no names."""
        self._files = files
        self._folder = folder
        self._positions = positions
        self._offsets: dict[int, dict[str, str]] = {}
        self._read: dict[str, _Read] = {}

    def offsets(self, batch_id: int) -> dict[str, str]:
        """Offset text of every named source at the end of a micro-batch."""
        if batch_id not in self._offsets:
            # a tick asks for its own and the last one's, again and again
            recent = {known: self._offsets[known] for known in self._offsets if known >= batch_id - 1}
            self._offsets = recent | {batch_id: self._read_offsets(batch_id)}
        return self._offsets[batch_id]

    def _read_offsets(self, batch_id: int) -> dict[str, str]:
        path = f"{self._folder}/offsets/{batch_id}"
        if batch_id < 0 or not self._files.exists(path):
            return {}
        lines = self._files.read_text(path).splitlines()
        version = "v2" if self._positions is None else "v1"
        if not lines or lines[0] != version:
            raise InternalError(f"{path}: expected offset log version {version}, found {lines[:1]}")
        if self._positions is not None:
            return {name: lines[2 + at] for name, at in self._positions.items() if lines[2 + at] != "-"}
        named = (line.split(":", 1) for line in lines[2:] if ":" in line)
        return {name: offset for name, offset in named if offset != "-"}

    def files(self, stream: str, batch_id: int) -> list[str]:
        """Files that a stream brings into a micro-batch, in order of arrival."""
        last = _log_offset(self.offsets(batch_id).get(stream))
        first = _log_offset(self.offsets(batch_id - 1).get(stream)) + 1
        return [path for entry in range(first, last + 1) for path in self._entry(stream, entry)]

    def files_until(self, stream: str, batch_id: int) -> set[str]:
        """All files that a stream has brought up to a micro-batch, in their normal spelling."""
        last = _log_offset(self.offsets(batch_id).get(stream))
        read = self._read.get(stream)
        if read is None:
            read = self._read[stream] = self._compacted(stream, last)
        for entry in range(read.upto + 1, last + 1):
            read.files.update(map(normal_path, self._entry(stream, entry)))
        read.upto = max(read.upto, last)
        return read.files

    def _compacted(self, stream: str, last: int) -> _Read:
        """What the newest compact entry holds, so that a restart does not read entry by entry."""
        folder = self._source_folder(stream)
        found = [m for n in self._files.names(folder) if (m := re.fullmatch(r"(\d+)\.compact", n))]
        upto = max((int(m.group(1)) for m in found if int(m.group(1)) <= last), default=-1)
        if upto < 0:
            return _Read(set(), -1)
        return _Read({normal_path(path) for path, _ in self._logged(f"{folder}/{upto}.compact")}, upto)

    def _source_folder(self, stream: str) -> str:
        source = stream if self._positions is None else self._positions[stream]
        return f"{self._folder}/sources/{source}"

    def _logged(self, path: str) -> list[tuple[str, int]]:
        """Files of an entry in order of arrival, each with the number of the entry that brought it."""
        lines = self._files.read_text(path).splitlines()[1:]
        logged = sorted((json.loads(line) for line in lines if line), key=_order_of_arrival)
        return [(str(file["path"]), int(file["batchId"])) for file in logged]

    def _entry(self, stream: str, entry: int) -> list[str]:
        folder = self._source_folder(stream)
        plain, compact = f"{folder}/{entry}", f"{folder}/{entry}.compact"
        path = plain if self._files.exists(plain) else compact
        if not self._files.exists(path):
            path = self._newer_compact(folder, entry)
        return [file for file, number in self._logged(path) if number == entry]

    def _newer_compact(self, folder: str, entry: int) -> str:
        found = [m for n in self._files.names(folder) if (m := re.fullmatch(r"(\d+)\.compact", n))]
        newer = sorted(int(m.group(1)) for m in found if int(m.group(1)) > entry)
        if not newer:
            raise InternalError(f"Spark's source log {folder} has no entry {entry}")
        return f"{folder}/{newer[0]}.compact"


def _order_of_arrival(file: Mapping[str, Any]) -> tuple[int, int, str]:
    """By time of change, and where that is equal by name: Spark leaves those as the folder lists them."""
    return int(file["batchId"]), int(file["timestamp"]), normal_path(str(file["path"]))


def _log_offset(text: str | None) -> int:
    return -1 if text is None else int(json.loads(text)["logOffset"])
