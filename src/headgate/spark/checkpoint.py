"""A checkpoint folder: whose it is, its lock, its manifests, its blocks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from dataclasses import replace

from headgate.errors import DamagedStateError, HeadgateError, SetupError
from headgate.model.network import Network
from headgate.model.shedding import Course
from headgate.spark.fingerprint import Fingerprint, compare, take_fingerprint
from headgate.spark.history import KEPT_MANIFESTS, History, is_in_place, located
from headgate.spark.localfiles import FileSystem
from headgate.spark.lock import RunLock
from headgate.spark.manifest import BlockRef, Manifest, Owner

EDDIES = "eddies"
# where a listing is a request over the network, a block is looked at again after this time only
_REMOTE_LOOK_EVERY_S = 60.0


class Checkpoint:
    """Durable state below one folder.

    ``spark/`` is Structured Streaming's own checkpoint, ``manifests/`` one document a tick,
    ``blocks/`` tuples, ``eddies/`` what jobs of pools wrote, ``dead-letters/`` rows set aside,
    ``results/`` of queries INTO memory. ``headgate.json`` says whose it is, ``headgate.lock`` who uses it.
    """

    def __init__(self, files: FileSystem, root: str) -> None:
        self.root = root.rstrip("/")
        self._files = files
        self._owner_path = f"{self.root}/headgate.json"
        self.lock = RunLock(files, self.root)
        self.history = History(files, self.root)
        self._owner: Owner | None = None
        self._fingerprints: dict[str, Fingerprint] = {}
        self._looked_s: dict[str, float] = {}
        self._needed_by: dict[int, set[str]] = {}
        self._condemned: set[str] = set()

    @property
    def uid(self) -> str:
        """Names the files of this checkpoint's results; empty until it is open."""
        return "" if self._owner is None else self._owner.uid

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk of this machine."""
        return self._files.is_local(self.root)

    def open(self, network: Network) -> None:
        """Take the lock, then claim a new folder, or make sure that an old one is of these very queries."""
        self._files.make_folder(self.root)
        self.lock.acquire()
        try:
            # another run may have come and gone since the first look
            self.check(network)
            self._owner = self._read_owner()
            if self._owner is None:
                self._owner = Owner(uuid.uuid4().hex[:8], network.fingerprint, tuple(network.queries))
                self._files.write_text(self._owner_path, self._owner.to_json())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another run have it."""
        self.lock.release()

    def check(self, network: Network) -> None:
        """Refuse a folder that belongs to something else, without touching it."""
        found = self._read_owner()
        if found is None:
            # a run that ended before it could claim the folder leaves a lock, or a draft
            if not all(name.startswith("headgate.") for name in self._files.names(self.root)):
                raise SetupError(
                    f"checkpoint {self.root} is not empty and not Headgate's; choose an empty or new folder"
                )
        elif found.fingerprint != network.fingerprint:
            raise SetupError(
                f"checkpoint {self.root} belongs to other queries ({', '.join(found.queries)}, or an "
                "earlier version of them); choose another folder, or remove it to start anew"
            )

    def check_owner(self) -> None:
        """Raise if ``headgate.json`` is damaged."""
        self._read_owner()

    def belongs_to(self, network: Network) -> bool:
        """Whether these very operators have left it."""
        found = self._read_owner()
        return found is not None and found.fingerprint == network.fingerprint

    def _read_owner(self) -> Owner | None:
        """Who has left it; None if nobody has."""
        if not self._files.exists(self._owner_path):
            if self.history.ticks():
                raise self._owner_damaged("is missing")
            return None
        try:
            return Owner.from_json(self._files.read_text(self._owner_path))
        except SetupError as error:
            raise SetupError(f"{self._owner_path}: {error}") from error
        except (DamagedStateError, ValueError, OSError) as error:
            raise self._owner_damaged(f"is damaged: {error}") from error

    def _owner_damaged(self, reason: str) -> DamagedStateError:
        way = f"headgate checkpoint rollback {self.root} restores it from the last good manifest"
        return DamagedStateError(f"{self._owner_path} {reason}; {way}")

    def restore_owner(self, manifest: Manifest) -> bool:
        """Write ``headgate.json`` anew if it is damaged; whether it was."""
        try:
            if self._read_owner() is not None:
                return False
        except DamagedStateError:
            pass
        if manifest.owner is None:
            raise SetupError(f"{self._owner_path} is lost, and no manifest says whose it is; start anew")
        self._files.write_text(self._owner_path, manifest.owner.to_json())
        return True

    @property
    def spark_folder(self) -> str:
        """Structured Streaming's part."""
        return f"{self.root}/spark"

    @property
    def dead_letters(self) -> str:
        """Rows that were late or did not parse."""
        return f"{self.root}/dead-letters"

    def results(self, query: str) -> str:
        """Results of a query INTO memory."""
        return f"{self.root}/results/{query}"

    def block(self, batch_id: int, name: str) -> str:
        """Path of a new block, relative to the checkpoint."""
        return f"blocks/{batch_id:09d}/{name}"

    def eddy_block(self, name: str) -> str:
        """Path of what a job of a pool writes, relative to the checkpoint."""
        return f"{EDDIES}/{name}"

    def full(self, path: str) -> str:
        """A block's path as Spark reads it."""
        return located(self.root, path)

    def last_manifest(self, course: Course) -> Manifest:
        """State after the last tick, verified; before the first, ``course`` is what it will go by.

        Raises ``DamagedStateError`` if the manifest or a block that it names is not what was written.
        """
        found = self.history.current()
        if found is None:
            beginning = Manifest(course=course)
            if course.keep:
                # tuples that the first tick sheds must be the same when it is tried again
                self.commit(beginning)
            return beginning
        self._remember(found.batch_id, self._taken(found.block_paths(), found.files))
        return found

    def check_block(self, block: BlockRef) -> None:
        """Raise if a block's files are not those that were written; called before every read.

        Content is compared once a run. After that a listing must do: of local files each time, of others from
        time to time. Blocks of the tick under way are not known yet.
        """
        for path in block.stored_at:
            self._check_path(path)

    def _check_path(self, path: str) -> None:
        known = self._fingerprints.get(path)
        if known is None or not self._is_due(path):
            return
        full = self.full(path)
        damages = compare(self._files, full, full, known, content=path not in self._looked_s)
        if damages:
            raise DamagedStateError(
                f"{damages[0]}; step back to the last good tick with headgate checkpoint rollback {self.root}"
            )
        self._looked_s[path] = time.monotonic()

    def _is_due(self, path: str) -> bool:
        looked_s = self._looked_s.get(path)
        if looked_s is None or self._files.is_local(self.full(path)):
            return True
        return time.monotonic() - looked_s > _REMOTE_LOOK_EVERY_S

    def begin(self, batch_id: int) -> None:
        """Remove what an interrupted attempt at this tick has left behind."""
        self._files.delete(f"{self.root}/blocks/{batch_id:09d}")

    def commit(self, manifest: Manifest) -> None:
        """The tick has happened."""
        files = self._taken(manifest.block_paths(), self._fingerprints)
        self._remember(manifest.batch_id, files)
        self.history.write(replace(manifest, files=files, owner=self._owner, written_s=time.time()))

    def _taken(self, paths: Iterable[str], known: dict[str, Fingerprint]) -> dict[str, Fingerprint]:
        """Fingerprints of blocks; of new ones, of their files as they are now."""
        found = {path: known[path] if path in known else self._take(path) for path in paths}
        if lost := [path for path, parts in found.items() if not parts]:
            raise DamagedStateError(f"{self.full(lost[0])} is missing, though it has just been written")
        return found

    def _take(self, path: str) -> Fingerprint:
        return take_fingerprint(self._files, self.full(path), ours=not is_in_place(path))

    def _remember(self, tick: int, files: dict[str, Fingerprint]) -> None:
        now_s = time.monotonic()
        # what was verified, or written by this run, need not be read once more
        self._looked_s = {path: self._looked_s.get(path, now_s) for path in files}
        self._fingerprints = files
        self._needed_by[tick] = set(files)

    def sweep_eddies(self, needed: set[str]) -> None:
        """Drop what jobs of an earlier run wrote that no manifest knows of."""
        for name in self._files.names(f"{self.root}/{EDDIES}"):
            if self.eddy_block(name) not in needed:
                self.drop(self.eddy_block(name))
        self._remove_condemned(self._needed(self.history.ticks()))

    def drop(self, path: str) -> None:
        """Remove a block of ours, once no manifest that is kept names it."""
        if not is_in_place(path):
            self._condemned.add(path)

    def sweep(self, manifest: Manifest) -> None:
        """Drop manifests that are too old, and blocks that none of the others names."""
        ticks = self.history.ticks()
        for tick in ticks[:-KEPT_MANIFESTS]:
            self.history.remove(tick)
            self._needed_by.pop(tick, None)
        needed = manifest.block_paths() | self._needed(ticks[-KEPT_MANIFESTS:])
        self._remove_condemned(needed)
        for batch in self._files.names(f"{self.root}/blocks"):
            # later ones are of the tick under way
            if int(batch) <= manifest.batch_id:
                self._sweep_blocks(f"blocks/{batch}", needed)

    def _remove_condemned(self, needed: set[str]) -> None:
        # a copy: ticks condemn blocks while an earlier one is swept
        for path in list(self._condemned):
            if path not in needed:
                self._files.delete(self.full(path))
                self._condemned.discard(path)

    def _sweep_blocks(self, folder: str, needed: set[str]) -> None:
        paths = [f"{folder}/{name}" for name in self._files.names(self.full(folder))]
        if not any(path in needed for path in paths):
            self._files.delete(self.full(folder))
            return
        for path in paths:
            if path not in needed:
                self._files.delete(self.full(path))

    def _needed(self, ticks: Iterable[int]) -> set[str]:
        """Blocks that the manifests of some ticks name."""
        found: set[str] = set()
        for tick in ticks:
            if tick not in self._needed_by:
                self._needed_by[tick] = self._read_needed(tick)
            found |= self._needed_by[tick]
        return found

    def _read_needed(self, tick: int) -> set[str]:
        try:
            return self.history.read(tick).block_paths()
        except HeadgateError:
            # nobody can go back to what cannot be read
            return set()
