"""Stepping back to an earlier tick of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import SetupError, known_names
from headgate.spark.checkpoint import Checkpoint
from headgate.spark.history import History
from headgate.spark.localfiles import FileSystem


@dataclass(frozen=True)
class Rollback:
    """What was done: manifests and Spark's entries of ticks after ``to_tick`` are gone."""

    from_tick: int
    to_tick: int
    batches_again: tuple[int, ...]
    restored_owner: bool

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.from_tick != self.to_tick or bool(self.batches_again) or self.restored_owner


def roll_back(files: FileSystem, root: str, to_tick: int | None = None) -> Rollback:
    """Step back to the last good tick, or to ``to_tick``; refused while a run uses the checkpoint."""
    checkpoint = Checkpoint(files, root)
    history = checkpoint.history
    if not history.ticks():
        raise SetupError(f"{root} has no manifests: it is not a checkpoint, or its first tick never ended")
    checkpoint.lock.acquire()
    try:
        target = _target(history, to_tick)
        return _step_back(files, checkpoint, target)
    finally:
        checkpoint.lock.release()


def _target(history: History, to_tick: int | None) -> int:
    ticks = history.ticks()
    if to_tick is not None and to_tick not in ticks:
        kept = known_names([str(tick) for tick in ticks])
        raise SetupError(f"{history.root} keeps no manifest of tick {to_tick}; it has {kept}")
    # whether Spark is further does not matter: its entries are about to go
    wanted = reversed(ticks) if to_tick is None else [to_tick]
    states = [history.state(tick) for tick in wanted]
    good = next((state.tick for state in states if state.is_good), None)
    if good is None:
        first = f"{states[0].damages[0]}"
        if to_tick is None:
            raise SetupError(f"no tick of {history.root} is good ({first}); remove it to start anew")
        raise SetupError(f"tick {to_tick} of {history.root} is damaged: {first}; choose another one")
    return good


def _step_back(files: FileSystem, checkpoint: Checkpoint, target: int) -> Rollback:
    """Manifests go first: interrupted, it leaves a state that a run refuses, and a second call mends."""
    history, root = checkpoint.history, checkpoint.root
    ticks = history.ticks()
    for tick in reversed(ticks):
        if tick > target:
            history.remove(tick)
    again = [n for n in history.spark_entries("offsets") if n > target]
    # entries of sources/ stay: a source is allowed to know of more than has been handed out, and its log of
    # files then brings them again in the same order
    for kind in ("commits", "offsets"):
        for batch in reversed(history.spark_entries(kind)):
            if batch > target:
                files.delete(f"{root}/spark/{kind}/{batch}")
    for name in files.names(f"{root}/blocks"):
        if int(name) > target:
            files.delete(f"{root}/blocks/{name}")
    restored = checkpoint.restore_owner(history.read(target))
    return Rollback(ticks[-1], target, tuple(again), restored)
