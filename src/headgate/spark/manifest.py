"""The state of the engine after a tick, as one durable document.

A manifest lists every block that is still needed. Once it is written the tick has happened;
without it, it has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.model.event import StreamCounts
from headgate.model.shedding import Course
from headgate.spark.columns import BEGINNING_US
from headgate.spark.documents import decode, seal, unseal
from headgate.spark.fingerprint import Fingerprint
from headgate.spark.spread import Spread

FORMAT_VERSION = 2
"""Of manifests; one higher whenever a document can no longer be read by the version before."""


@dataclass(frozen=True)
class BlockRef:
    """An immutable block of tuples: files below the checkpoint, or a file of the user's in place.

    ``path`` is relative to the checkpoint, or absolute where the files are not ours.
    ``number`` is that of its first tuple in the line before an eddy, of which it may be a part. ``step`` is
    the probe that its tuples are on their way to; others may be in the same files.
    """

    path: str
    rows: int
    bytes: int
    min_ts: int
    max_ts: int
    arrived_us: int = 0
    quantiles: tuple[int, ...] = ()
    number: int | None = None
    step: int | None = None

    @property
    def spread(self) -> Spread:
        """How its tuples lie over time."""
        return Spread.over(self.rows, self.quantiles or (self.min_ts, self.max_ts))

    def rows_from(self, ts: int) -> float:
        """About how many of its tuples have a timestamp from ``ts`` on; 0 only if there is none."""
        if ts > self.max_ts:
            return 0.0
        # whatever the quantiles say, the last tuple is not below its own timestamp
        return max(1.0, self.rows - self.spread.rows_below(ts))


@dataclass(frozen=True)
class StreamState:
    """How far a stream has come.

    Tuples below ``floor_ts`` are late; those below ``frontier_ts`` are complete. ``landed`` are the
    numbered blocks of a stream whose order matters; ``key_counts`` the tuples per key so far.
    """

    max_ts: int = BEGINNING_US
    floor_ts: int = BEGINNING_US
    frontier_ts: int = BEGINNING_US
    next_seq: int = 0
    waiting_rows: int = 0
    landed: tuple[BlockRef, ...] = ()
    key_counts: dict[str, BlockRef] = field(default_factory=dict)
    silent_since_us: int | None = None
    totals: StreamCounts = field(default_factory=StreamCounts)
    utilities: tuple[float, ...] = ()
    """Quantiles of how much its tuples matter, where a query says."""


@dataclass(frozen=True)
class OperatorState:
    """An operator has processed every tuple with a timestamp below ``frontier_ts``.

    ``blocks`` hold, for each input, tuples that wait and tuples still inside of a window.
    ``groups`` is the running state of an aggregate over all time.
    """

    frontier_ts: int = BEGINNING_US
    blocks: tuple[tuple[BlockRef, ...], ...] = ((),)
    groups: BlockRef | None = None


@dataclass(frozen=True)
class Owner:
    """The run that a checkpoint belongs to: its id, and the queries by name and fingerprint."""

    uid: str
    fingerprint: str
    queries: tuple[str, ...]

    def to_json(self) -> str:
        """One JSON document."""
        return seal(self, FORMAT_VERSION)

    @staticmethod
    def from_json(text: str) -> Owner:
        """The inverse of ``to_json``."""
        return decode(Owner, unseal(text, FORMAT_VERSION))


@dataclass(frozen=True)
class Manifest:
    """Everything a restarted engine has to know; ``course`` is what the next tick goes by.

    ``files`` are the fingerprints of all blocks by path. These, ``owner`` and ``written_s`` are filled in
    when the manifest is committed.
    """

    batch_id: int = -1
    flushed: bool = False
    streams: dict[str, StreamState] = field(default_factory=dict)
    operators: dict[str, OperatorState] = field(default_factory=dict)
    rows_out: dict[str, int] = field(default_factory=dict)
    course: Course = field(default_factory=Course)
    files: dict[str, Fingerprint] = field(default_factory=dict)
    owner: Owner | None = None
    written_s: float = 0.0

    def block_refs(self) -> list[BlockRef]:
        """Every block that must be kept; several may share a path."""
        refs = [ref for s in self.streams.values() for ref in (*s.landed, *s.key_counts.values())]
        for operator in self.operators.values():
            refs += [ref for side in operator.blocks for ref in side]
            refs += [operator.groups] if operator.groups else []
        return refs

    def block_paths(self) -> set[str]:
        """Paths of every block that must be kept."""
        return {ref.path for ref in self.block_refs()}

    def to_json(self) -> str:
        """One JSON document."""
        return seal(self, FORMAT_VERSION)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The inverse of ``to_json``; raises if the text is damaged or of another version."""
        return decode(Manifest, unseal(text, FORMAT_VERSION))
