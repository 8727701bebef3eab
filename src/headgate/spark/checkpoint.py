"""A checkpoint folder: its owner, lock, manifests and blocks, and rollback to an earlier tick."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from headgate.errors import DamagedStateError, HeadgateError, SetupError, known_names
from headgate.model.network import Network
from headgate.model.shedding import TickSettings
from headgate.spark.file_system import Files
from headgate.spark.history import KEPT_MANIFESTS, History, compare, is_in_place, located, take_fingerprint
from headgate.spark.lock import RunLock
from headgate.spark.manifest import BlockRef, Fingerprint, Manifest, Owner

EDDIES = "eddies"
# where a listing is a request over the network, a block is verified again only after this time
_VERIFY_REMOTE_EVERY_S = 60.0


class Checkpoint:
    """Durable state below one folder.

    ``spark/`` is Structured Streaming's checkpoint, ``manifests/`` has one document per tick, ``blocks/``
    holds tuples, ``eddies/`` the output of pool jobs, ``dead-letters/`` rows set aside, ``results/`` those of
    queries INTO memory, ``outbox/`` results that wait to be delivered. ``headgate.json`` names the owner,
    ``headgate.lock`` the process that uses it.
    """

    def __init__(self, files: Files, root: str) -> None:
        self.root = root.rstrip("/")
        self._files = files
        self._owner_path = f"{self.root}/headgate.json"
        self.spark_folder = f"{self.root}/spark"
        self.dead_letters = f"{self.root}/dead-letters"
        self.lock = RunLock(files, self.root)
        self.history = History(files, self.root)
        self.epochs: Mapping[str, int] = {}
        """By query, the change of the network that brought it."""
        self._owner: Owner | None = None
        self._fingerprints: dict[str, Fingerprint] = {}
        self._verified_s: dict[str, float] = {}
        self._needed_by: dict[int, set[str]] = {}
        self._condemned: set[str] = set()

    @property
    def uid(self) -> str:
        """Id in the file names of this checkpoint's results; empty until it is open."""
        return "" if self._owner is None else self._owner.uid

    @property
    def is_local(self) -> bool:
        return self._files.is_local(self.root)

    def open(self, network: Network, may_change: bool = False) -> None:
        """Take the lock, then claim a new folder, or verify that an old one belongs to these queries.

        With ``may_change``, it may have belonged to others: ``adopt`` decides what becomes of them.
        """
        self.lock.acquire()
        try:
            # another run may have used it since the first check
            self._owner = self.check(network, may_change)
            if self._owner is None:
                self._owner = Owner(uuid.uuid4().hex[:8], network.fingerprint, tuple(network.queries))
                self._files.write_text(self._owner_path, self._owner.to_json())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.lock.release()

    def adopt(self, network: Network, manifest: Manifest) -> None:
        """Belong to other queries from now on, as the manifest of the last tick has them."""
        assert self._owner is not None
        self._owner = Owner(self._owner.uid, network.fingerprint, tuple(network.queries))
        self.commit(manifest)
        self._files.write_text(self._owner_path, self._owner.to_json())

    def check(self, network: Network, may_change: bool = False) -> Owner | None:
        """The owner; raises if the folder belongs to something else. Changes nothing."""
        found = self.check_owner()
        if found is None:
            # a run that ended before it could claim the folder leaves a lock or a draft
            if not all(name.startswith("headgate.") for name in self._files.names(self.root)):
                raise SetupError(
                    f"checkpoint {self.root} is not empty and not Headgate's; choose an empty or new folder"
                )
        elif found.fingerprint != network.fingerprint and not may_change:
            raise SetupError(
                f"checkpoint {self.root} belongs to other queries ({', '.join(found.queries)}, or an "
                "earlier version of them); choose another folder, or remove it to start anew"
            )
        return found

    def check_owner(self) -> Owner | None:
        """The owner; None if there is none. Raises if ``headgate.json`` is damaged."""
        restored = f"headgate checkpoint rollback {self.root} restores it from the last good manifest"
        if not self._files.exists(self._owner_path):
            if self.history.ticks():
                raise DamagedStateError(f"{self._owner_path} is missing; {restored}")
            return None
        try:
            found = Owner.from_json(self._files.read_text(self._owner_path))
        except SetupError as error:
            raise SetupError(f"{self._owner_path}: {error}") from error
        except (DamagedStateError, ValueError, OSError) as error:
            raise DamagedStateError(f"{self._owner_path} is damaged: {error}; {restored}") from error
        # results are known by this id: under another one, those of a repeated tick would be there twice
        if (last := self._owner_of_last_tick()) is not None and last.uid != found.uid:
            raise DamagedStateError(f"{self._owner_path} is of another checkpoint; {restored}")
        return found

    def _owner_of_last_tick(self) -> Owner | None:
        """As the last manifest names it; None if it is damaged, or of a version that wrote none."""
        with suppress(HeadgateError):
            for tick in self.history.ticks()[-1:]:
                return self.history.read(tick).owner
        return None

    def restore_owner(self, manifest: Manifest) -> bool:
        """Rewrite ``headgate.json`` if it is damaged, and return whether it was."""
        with suppress(DamagedStateError):
            if self.check_owner() is not None:
                return False
        if manifest.owner is None:
            raise SetupError(f"{self._owner_path} is lost, and no manifest says whose it is; start anew")
        # whatever is there instead
        self._files.delete(self._owner_path)
        self._files.write_text(self._owner_path, manifest.owner.to_json())
        return True

    def results(self, query: str) -> str:
        """The folder of results in memory; a query that came later does not mix with an earlier one."""
        return self._of_query("results", query)

    def outbox(self, query: str) -> str:
        """The folder of results that wait to be delivered."""
        return self._of_query("outbox", query)

    def _of_query(self, folder: str, query: str) -> str:
        epoch = self.epochs.get(query, 0)
        return f"{self.root}/{folder}/{query}.{epoch}" if epoch else f"{self.root}/{folder}/{query}"

    def block(self, batch_id: int, name: str) -> str:
        return f"blocks/{batch_id:09d}/{name}"

    def eddy_block(self, name: str) -> str:
        return f"{EDDIES}/{name}"

    def full(self, path: str) -> str:
        """A block's path as Spark reads it."""
        return located(self.root, path)

    def last_manifest(self, settings: TickSettings) -> Manifest:
        """State after the last tick, verified with its blocks; before the first, one with ``settings``."""
        found = self.history.current()
        if found is None:
            beginning = Manifest(settings=settings)
            if settings.keep:
                # tuples that the first tick sheds must be the same when it is tried again
                self.commit(beginning)
            return beginning
        self._remember(found.batch_id, self._taken(found.block_paths(), found.files))
        return found

    def check_block(self, block: BlockRef) -> None:
        """Raise if a block's files are not those that were written; called before every read.

        Content is compared once per run, after that the listing alone: of local files each time, of others
        from time to time. Blocks of the current tick are not known yet.
        """
        for path in block.stored_at:
            known, verified_s = self._fingerprints.get(path), self._verified_s.get(path)
            full, now_s = self.full(path), time.monotonic()
            is_recent = verified_s is not None and now_s - verified_s <= _VERIFY_REMOTE_EVERY_S
            if known is None or (is_recent and not self._files.is_local(full)):
                continue
            if damages := compare(self._files, full, full, known, content=verified_s is None):
                rollback = f"headgate checkpoint rollback {self.root}"
                raise DamagedStateError(f"{damages[0]}; step back to the last good tick with {rollback}")
            self._verified_s[path] = now_s

    def begin(self, batch_id: int) -> None:
        """Remove the output of an interrupted attempt at this tick."""
        self._files.delete(f"{self.root}/blocks/{batch_id:09d}")

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest, with fingerprints of all blocks: from then on, the tick has happened."""
        files = self._taken([*manifest.block_paths(), *self._log_entries(manifest)], self._fingerprints)
        self._remember(manifest.batch_id, files)
        self.history.write(replace(manifest, files=files, owner=self._owner, written_s=time.time()))

    def _log_entries(self, manifest: Manifest) -> list[str]:
        """The entries of Spark's logs that a manifest goes with; object stores look after theirs."""
        if manifest.batch_id < 0 or not self.is_local:
            return []
        return self.history.logs.needed(manifest.batch_id)

    def _taken(self, paths: Iterable[str], known: dict[str, Fingerprint]) -> dict[str, Fingerprint]:
        """Fingerprints of blocks; those of new blocks are taken now."""
        found = {}
        for path in paths:
            ours = not is_in_place(path)
            found[path] = known.get(path) or take_fingerprint(self._files, self.full(path), ours)
            if not found[path]:
                raise DamagedStateError(f"{self.full(path)} is missing, though it has just been written")
        return found

    def _remember(self, tick: int, files: dict[str, Fingerprint]) -> None:
        now_s = time.monotonic()
        # blocks that were verified, or written by this run, need not be read again
        self._verified_s = {path: self._verified_s.get(path, now_s) for path in files}
        self._fingerprints = files
        self._needed_by[tick] = set(files)

    def sweep_eddies(self, needed: set[str]) -> None:
        """Delete pool output of an earlier run that no manifest names."""
        for name in self._files.names(f"{self.root}/{EDDIES}"):
            if self.eddy_block(name) not in needed:
                self.drop(self.eddy_block(name))
        self._remove_condemned(self._needed(self.history.ticks()))

    def drop(self, path: str) -> None:
        """Delete a block of ours, once none of the retained manifests names it."""
        if not is_in_place(path):
            self._condemned.add(path)

    def sweep(self, manifest: Manifest) -> None:
        """Delete old manifests, and blocks that none of the retained ones names."""
        ticks = self.history.ticks()
        for tick in ticks[:-KEPT_MANIFESTS]:
            self.history.remove(tick)
            self._needed_by.pop(tick, None)
        needed = manifest.block_paths() | self._needed(ticks[-KEPT_MANIFESTS:])
        self._remove_condemned(needed)
        for batch in self._files.names(f"{self.root}/blocks"):
            # later ones belong to the current tick, and other names are not ours
            if batch.isdigit() and int(batch) <= manifest.batch_id:
                folder = self.full(f"blocks/{batch}")
                paths = [f"blocks/{batch}/{name}" for name in self._files.names(folder)]
                unneeded = [self.full(path) for path in paths if path not in needed]
                for path in [folder] if len(unneeded) == len(paths) else unneeded:
                    self._files.delete(path)

    def _remove_condemned(self, needed: set[str]) -> None:
        # a copy: ticks add blocks while an earlier tick is swept
        for path in list(self._condemned):
            if path not in needed:
                self._files.delete(self.full(path))
                self._condemned.discard(path)

    def _needed(self, ticks: Iterable[int]) -> set[str]:
        """Blocks that the manifests of some ticks name."""
        found: set[str] = set()
        for tick in ticks:
            if tick not in self._needed_by:
                named: set[str] = set()
                # no rollback to a manifest that cannot be read
                with suppress(HeadgateError):
                    named = self.history.read(tick).block_paths()
                self._needed_by[tick] = named
            found |= self._needed_by[tick]
        return found


@dataclass(frozen=True)
class Rollback:
    """The outcome: manifests and Spark's entries of ticks after ``to_tick`` are deleted."""

    from_tick: int
    to_tick: int
    batches_again: tuple[int, ...]
    restored_owner: bool
    repaired: tuple[str, ...] = ()
    """Entries of Spark's logs that were damaged, and are not state of their own."""

    @property
    def changed(self) -> bool:
        is_other = self.from_tick != self.to_tick or bool(self.batches_again)
        return is_other or self.restored_owner or bool(self.repaired)


def roll_back(files: Files, root: str, to_tick: int | None = None) -> Rollback:
    """Roll back to the last good tick, or to ``to_tick``; refused while a run uses the checkpoint."""
    checkpoint = Checkpoint(files, root)
    if not checkpoint.history.ticks():
        raise SetupError(f"{root} has no manifests: it is not a checkpoint, or its first tick never ended")
    checkpoint.lock.acquire()
    try:
        return _step_back(files, checkpoint, _target(checkpoint.history, to_tick))
    finally:
        checkpoint.lock.release()


def _target(history: History, to_tick: int | None) -> int:
    ticks = history.ticks()
    if to_tick is not None and to_tick not in ticks:
        kept = known_names([str(tick) for tick in ticks])
        raise SetupError(f"{history.root} keeps no manifest of tick {to_tick}; it has {kept}")
    # Spark may be further ahead: its entries are about to be deleted
    states = [history.state(tick) for tick in (reversed(ticks) if to_tick is None else [to_tick])]
    for state in states:
        if state.is_good:
            return state.tick
    first = states[0].damages[0]
    if to_tick is None:
        raise SetupError(f"no tick of {history.root} is good ({first}); remove it to start anew")
    raise SetupError(f"tick {to_tick} of {history.root} is damaged: {first}; choose another one")


def _changed_entries(history: History, target: int) -> set[str]:
    """Entries of Spark's logs that are not those with which the ticks after ``target`` were written."""
    found: set[str] = set()
    for tick in history.ticks():
        # of a manifest that cannot be read, nothing is known
        with suppress(HeadgateError):
            if tick > target:
                found.update(damage.path for damage in history.state(tick).damages)
    return found


def _step_back(files: Files, checkpoint: Checkpoint, target: int) -> Rollback:
    """Delete manifests first, then offsets: if interrupted, runs refuse what is left, by entries ahead of the
    last manifest, until a second call repairs it.
    """
    history, root = checkpoint.history, checkpoint.root
    ticks, offsets = history.ticks(), history.logs.batches("offsets")
    changed = _changed_entries(history, target)
    for tick in reversed(ticks):
        if tick > target:
            history.remove(tick)
    # what can be read of sources/ stays: a source may know of more than has been processed, and its log of
    # files then delivers them again in the same order
    for kind in ("offsets", "commits"):
        for batch in reversed(history.logs.batches(kind)):
            if batch > target:
                files.delete(f"{checkpoint.spark_folder}/{kind}/{batch}")
    repaired: list[str] = []
    # of commits, Spark reads the last one that is there
    while entries := history.logs.repairable(target, changed):
        for path in entries:
            history.logs.repair(path)
        repaired += entries
    for name in files.names(f"{root}/blocks"):
        if name.isdigit() and int(name) > target:
            files.delete(f"{root}/blocks/{name}")
    restored = checkpoint.restore_owner(history.read(target))
    again = tuple(batch for batch in offsets if batch > target)
    return Rollback(ticks[-1], target, again, restored, tuple(repaired))
