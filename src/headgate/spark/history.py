"""The manifests that a checkpoint keeps, and whether what each of them needs is still there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headgate.errors import DamagedStateError, SetupError
from headgate.spark.fingerprint import Damage, compare
from headgate.spark.localfiles import FileSystem, has_scheme
from headgate.spark.manifest import Manifest

KEPT_MANIFESTS = 5
"""A run can step back to any of these."""

_COMMITS = "spark/commits"


def is_in_place(path: str) -> bool:
    """Whether a block is a file of the user's, which is read where it is and never removed."""
    return path.startswith("/") or has_scheme(path)


def located(root: str, path: str) -> str:
    """A block's path as Spark reads it."""
    return path if is_in_place(path) else f"{root}/{path}"


def verify_blocks(files: FileSystem, root: str, manifest: Manifest) -> list[Damage]:
    """Compare all blocks that a manifest names with their fingerprints."""
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
    """A manifest, and what is wrong with it or with what it needs; None if it cannot be read."""

    tick: int
    manifest: Manifest | None
    damages: tuple[Damage, ...]

    @property
    def is_good(self) -> bool:
        """Whether a run can go on from it."""
        return not self.damages


class History:
    """Manifests of one checkpoint, by the tick they were written after."""

    def __init__(self, files: FileSystem, root: str) -> None:
        self._files = files
        self.root = root
        self._folder = f"{root}/manifests"

    def ticks(self) -> list[int]:
        """Ticks that have a manifest, oldest first; -1 is the state before the first tick."""
        names = (name for name in self._files.names(self._folder) if name.endswith(".json"))
        stems = (name.removesuffix(".json") for name in names)
        return sorted(int(stem) for stem in stems if stem.lstrip("-").isdigit())

    def path(self, tick: int) -> str:
        """Where the manifest of a tick is."""
        return f"{self._folder}/{tick:09d}.json"

    def write(self, manifest: Manifest) -> None:
        """From here on, the tick has happened."""
        self._files.write_text(self.path(manifest.batch_id), manifest.to_json())

    def read(self, tick: int) -> Manifest:
        """The manifest of a tick; raises ``DamagedStateError``, which says why but not where."""
        try:
            manifest = Manifest.from_json(self._files.read_text(self.path(tick)))
        except DamagedStateError:
            raise
        except SetupError as error:
            # of another version: no damage, and nothing to step back from
            raise SetupError(f"{self.path(tick)}: {error}") from error
        except Exception as error:
            raise DamagedStateError(str(error).strip().splitlines()[0]) from error
        if manifest.batch_id != tick:
            raise DamagedStateError(f"it is of tick {manifest.batch_id}")
        return manifest

    def remove(self, tick: int) -> None:
        """Forget a tick."""
        self._files.delete(self.path(tick))

    def state(self, tick: int, committed: int = -1) -> TickState:
        """A manifest with its blocks and Spark's notes.

        ``committed`` is the last micro-batch that Spark has noted as done: the newest manifest must cover it.
        """
        try:
            manifest = self.read(tick)
        except DamagedStateError as error:
            return TickState(tick, None, (Damage(f"manifests/{tick:09d}.json", f"is damaged: {error}"),))
        damages = verify_blocks(self._files, self.root, manifest)
        damages += self._spark_damages(tick, committed)
        return TickState(tick, manifest, tuple(damages))

    def states(self) -> Iterator[TickState]:
        """All of them, newest first."""
        # in this order, so that a run that goes on meanwhile does not look damaged
        committed, ticks = self._committed(), self.ticks()
        for tick in reversed(ticks):
            state = self.state(tick, committed if tick == ticks[-1] else -1)
            # a run that goes on may have removed the oldest ones in the meantime
            if state.is_good or tick in self.ticks():
                yield state

    def last_good(self, before: int) -> int | None:
        """The newest tick before another one that a run can go on from."""
        earlier = [tick for tick in reversed(self.ticks()) if tick < before]
        return next((tick for tick in earlier if self.state(tick).is_good), None)

    def current(self) -> Manifest | None:
        """What a run goes on from, verified; None before the first tick. Raises if it is damaged."""
        committed, ticks = self._committed(), self.ticks()
        if not ticks:
            if damages := self._spark_damages(-1, committed):
                raise DamagedStateError(f"{self.root}/{damages[0]}; remove {self.root} to start anew")
            return None
        state = self.state(ticks[-1], committed)
        if not state.is_good or state.manifest is None:
            raise self.refusal(state)
        return state.manifest

    def refusal(self, state: TickState) -> DamagedStateError:
        """One line: what is damaged, which tick is good, and how to step back to it."""
        first, more = state.damages[0], len(state.damages) - 1
        also = f" (and {more} more)" if more else ""
        what = f"{located(self.root, first.path)} {first.reason}{also}"
        only_spark = all(damage.path == _COMMITS for damage in state.damages)
        good = state.tick if only_spark else self.last_good(state.tick)
        if good is None:
            return DamagedStateError(f"{what}; no earlier tick is good: remove {self.root} to start anew")
        return DamagedStateError(
            f"{what}; tick {good} is good: step back to it with headgate checkpoint rollback {self.root}"
        )

    def _spark_damages(self, tick: int, committed: int) -> list[Damage]:
        """Spark notes where a tick begins before it, and that it is over after its manifest."""
        if tick >= 0 and not self._files.exists(f"{self.root}/spark/offsets/{tick}"):
            return [
                Damage("spark/offsets", f"has no entry {tick}, which the manifest of that tick goes with")
            ]
        if committed > tick:
            known = f"the last manifest is of tick {tick}" if tick >= 0 else "there is no manifest"
            return [Damage(_COMMITS, f"has an entry {committed}, but {known}")]
        return []

    def _committed(self) -> int:
        return max(self.spark_entries("commits"), default=-1)

    def spark_entries(self, kind: str) -> list[int]:
        """Micro-batches of one of Spark's logs, oldest first: ``offsets`` or ``commits``."""
        return sorted(int(n) for n in self._files.names(f"{self.root}/spark/{kind}") if n.isdigit())
