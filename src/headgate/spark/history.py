"""The manifests of a checkpoint, and whether the blocks that each of them needs are intact.

The fingerprint of a block records enough of its files to detect that one is lost, truncated, replaced or
changed.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headgate.errors import DamagedStateError, SetupError
from headgate.spark.file_system import Files, FileStatus
from headgate.spark.manifest import FilePart, Fingerprint, Manifest
from headgate.spark.streaming_logs import StreamingLogs, recorded

KEPT_MANIFESTS = 5
"""A run can step back to any of these."""

# smaller files are read whole; of larger ones the end, where Parquet keeps its footer: lengths and places of
# all pages, row counts and statistics
_WHOLE_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16


def is_in_place(path: str) -> bool:
    """Whether a block is a source file, which is read in place and never removed."""
    return path.startswith(("/", "file:")) or "://" in path


def located(root: str, path: str) -> str:
    return path if is_in_place(path) else f"{root}/{path}"


@dataclass(frozen=True)
class Damage:
    """A fault in one file of the state; ``path`` is relative to the checkpoint, or absolute.

    ``is_ahead``: a rollback to this very tick removes what is damaged, and Spark writes it anew.
    """

    path: str
    reason: str
    is_ahead: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


def take_fingerprint(files: Files, path: str, ours: bool) -> Fingerprint:
    return tuple(
        FilePart(s.name, s.size_bytes, _crc32(files, path, s), None if ours else s.modified_ms)
        for s in files.data_files(path)
    )


def compare(
    files: Files, full_path: str, shown: str, known: Fingerprint, content: bool = True
) -> list[Damage]:
    """What has changed since a fingerprint was taken; without ``content``, judged by the listing alone."""
    present = {status.name: status for status in files.data_files(full_path)}
    if not present:
        return [Damage(shown, "is missing")]
    found = [
        Damage(_joined(shown, part.name), reason)
        for part in known
        if (reason := _change(files, full_path, part, present.get(part.name), content))
    ]
    # Spark reads every file in the folder
    strange = sorted(present.keys() - {part.name for part in known})
    return [*found, *(Damage(_joined(shown, name), "does not belong there") for name in strange)]


def _change(files: Files, path: str, part: FilePart, status: FileStatus | None, content: bool) -> str | None:
    if status is None:
        return "is missing"
    if status.size_bytes != part.size_bytes:
        return f"has {status.size_bytes:,} bytes instead of {part.size_bytes:,}"
    if part.modified_ms is not None and status.modified_ms != part.modified_ms:
        return "was modified"
    try:
        if content and _crc32(files, path, status) != part.crc32:
            return "has other content"
        is_small = status.size_bytes <= _WHOLE_BYTES
        if content and is_small and not files.matches_checksum(_joined(path, status.name)):
            return "does not match Hadoop's checksum beside it"
        return None
    except Exception as error:
        # every file system raises its own kind of error
        return f"cannot be read ({str(error).strip().splitlines()[0]})"


def _crc32(files: Files, path: str, status: FileStatus) -> int:
    start = 0 if status.size_bytes <= _WHOLE_BYTES else status.size_bytes - _TAIL_BYTES
    return zlib.crc32(files.read_bytes(_joined(path, status.name), start))


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if name else path


def verify_blocks(files: Files, root: str, manifest: Manifest) -> list[Damage]:
    found: list[Damage] = []
    for path in sorted(manifest.block_paths()):
        known, full = manifest.files.get(path), located(root, path)
        if known is not None:
            found += compare(files, full, path, known)
        elif not files.data_files(full):
            # manifests of the first format have no fingerprints
            found.append(Damage(path, "is missing"))
    return found


@dataclass(frozen=True)
class TickState:
    """A manifest, None if it cannot be read, and the damages to it or to its blocks."""

    tick: int
    manifest: Manifest | None
    damages: tuple[Damage, ...]

    @property
    def is_good(self) -> bool:
        """Whether a run can continue from it."""
        return not self.damages


@dataclass(frozen=True)
class History:
    """Manifests of one checkpoint, by tick."""

    _files: Files
    root: str

    @property
    def logs(self) -> StreamingLogs:
        """The logs of the streaming query."""
        return StreamingLogs(self._files, self.root)

    def ticks(self) -> list[int]:
        """Ticks with a manifest, oldest first; -1 is the state before the first tick."""
        found = (re.fullmatch(r"(-?\d+)\.json", name) for name in self._files.names(f"{self.root}/manifests"))
        return sorted(int(match[1]) for match in found if match)

    def _path(self, tick: int) -> str:
        return f"{self.root}/manifests/{tick:09d}.json"

    def write(self, manifest: Manifest) -> None:
        """Commit a tick: from here on, it has happened."""
        self._files.write_text(self._path(manifest.batch_id), manifest.to_json())

    def read(self, tick: int) -> Manifest:
        """The manifest of a tick; raises ``DamagedStateError`` with the reason but not the path."""
        try:
            manifest = Manifest.from_json(self._files.read_text(self._path(tick)))
        except DamagedStateError:
            raise
        except SetupError as error:
            # written by another version, which is no damage
            raise SetupError(f"{self._path(tick)}: {error}") from error
        except Exception as error:
            raise DamagedStateError(str(error).strip().splitlines()[0]) from error
        if manifest.batch_id != tick:
            raise DamagedStateError(f"it is of tick {manifest.batch_id}")
        return manifest

    def remove(self, tick: int) -> None:
        self._files.delete(self._path(tick))

    def state(self, tick: int) -> TickState:
        """A manifest checked against its blocks, and the entries of Spark's logs that it goes with."""
        try:
            manifest = self.read(tick)
        except DamagedStateError as error:
            return TickState(tick, None, (Damage(f"manifests/{tick:09d}.json", f"is damaged: {error}"),))
        damages = [*verify_blocks(self._files, self.root, manifest), *self._spark_damages(tick, manifest)]
        return TickState(tick, manifest, tuple(damages))

    def states(self) -> Iterator[TickState]:
        """All manifests, newest first."""
        # in this order, so that a run that continues meanwhile does not look damaged
        ahead, ticks = self._ahead(), self.ticks()
        for tick in reversed(ticks):
            state = self.state(tick)
            if tick == ticks[-1]:
                state = replace(state, damages=(*state.damages, *self._damages_ahead(tick, ahead)))
            # a run that continues may have removed the oldest ones meanwhile
            if state.is_good or tick in self.ticks():
                yield state

    def current(self) -> Manifest | None:
        """The manifest that a run continues from, verified; None before the first tick. Raises if damaged."""
        ahead, ticks = self._ahead(), self.ticks()
        if not ticks:
            if damages := self._damages_ahead(-1, ahead):
                raise DamagedStateError(f"{self.root}/{damages[0]}; remove {self.root} to start anew")
            return None
        state = self.state(ticks[-1])
        state = replace(state, damages=(*state.damages, *self._damages_ahead(ticks[-1], ahead)))
        if not state.is_good or state.manifest is None:
            raise self._refusal(state)
        return state.manifest

    def script(self) -> str:
        """The statements that the last manifest names; empty if there is none. Raises if it is damaged."""
        ticks = self.ticks()
        try:
            return self.read(ticks[-1]).script if ticks else ""
        except DamagedStateError:
            raise self._refusal(self.state(ticks[-1])) from None

    def _refusal(self, state: TickState) -> DamagedStateError:
        """One line: what is damaged, which tick is good, and how to roll back to it."""
        first, more = state.damages[0], len(state.damages) - 1
        also = f" (and {more} more)" if more else ""
        what = f"{located(self.root, first.path)} {first.reason}{also}"
        only_ahead = all(damage.is_ahead for damage in state.damages)
        earlier = [tick for tick in reversed(self.ticks()) if tick < state.tick]
        good = (tick for tick in earlier if self.state(tick).is_good)
        last_good = state.tick if only_ahead else next(good, None)
        if last_good is None:
            return DamagedStateError(f"{what}; no earlier tick is good: remove {self.root} to start anew")
        return DamagedStateError(
            f"{what}; tick {last_good} is good: step back to it with headgate checkpoint rollback {self.root}"
        )

    def _spark_damages(self, tick: int, manifest: Manifest) -> list[Damage]:
        """Spark logs the offsets of a tick before it runs, and the files of its sources before that."""
        if tick < 0:
            return []
        if broken := self.logs.broken(tick):
            return [Damage(entry.path, entry.reason) for entry in broken]
        return [
            damage
            for path in recorded(manifest.files)
            # once it is merged, Spark removes it in its own time
            if not self.logs.is_merged(path)
            for damage in compare(self._files, f"{self.root}/{path}", path, manifest.files[path])
        ]

    def _ahead(self) -> dict[str, int]:
        """The last entry of the logs of offsets and commits."""
        return {kind: max(self.logs.batches(kind), default=-1) for kind in ("commits", "offsets")}

    def _damages_ahead(self, tick: int, last: Mapping[str, int]) -> list[Damage]:
        """Faults in what Spark logs after a tick.

        The last manifest must cover what is committed, and all that is planned but for one tick: Spark would
        continue with the last one that is planned, and leave out those before it.
        """
        found = [Damage(entry.path, entry.reason, is_ahead=True) for entry in self.logs.broken_ahead(tick)]
        known = f"the last manifest is of tick {tick}" if tick >= 0 else "there is no manifest"
        for kind, most in (("commits", tick), ("offsets", tick + 1)):
            if last[kind] > most:
                reason = f"has an entry {last[kind]}, but {known}"
                return [Damage(f"spark/{kind}", reason, is_ahead=True), *found]
        return found
