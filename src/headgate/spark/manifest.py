"""The state of the engine after a tick, as one durable document.

A manifest lists every block that is still needed. Once it is written the tick has happened;
without it, it has not.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, fields

from headgate.model.event import StreamCounts
from headgate.model.shedding import Course
from headgate.spark.columns import BEGINNING_US
from headgate.spark.documents import decode, decode_all, seal, unseal
from headgate.spark.fingerprint import Fingerprint
from headgate.spark.spread import Spread

FORMAT_VERSION = 3
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
    first_seq: int | None = None
    """Number of its first tuple in the stream, where the order of the stream matters."""
    files: tuple[str, ...] = ()
    """Source files that are read where they lie; ``path`` is then a name and nothing more."""
    is_in_order: bool = False
    """Whether its tuples are in timestamp order, and its quantiles those at evenly spaced places."""

    @property
    def stored_at(self) -> tuple[str, ...]:
        """Its folder below the checkpoint, or the source files that it consists of."""
        return self.files or (self.path,)

    @property
    def spread(self) -> Spread:
        """How its tuples lie over time."""
        return Spread.over(self.rows, self.quantiles or (self.min_ts, self.max_ts))

    @property
    def end_seq(self) -> int:
        """The number behind that of its last tuple."""
        return (self.first_seq or 0) + self.rows

    def first_seq_from(self, ts: int) -> int:
        """At most the number of its first tuple with a timestamp from ``ts`` on."""
        first = self.first_seq or 0
        if not self.is_in_order or len(self.quantiles) < 2:
            return first
        # the tuples at these places, and all before them, are older
        older = bisect_left(self.quantiles, ts)
        return first + (max(0, older - 1) * (self.rows - 1)) // (len(self.quantiles) - 1)

    def rows_from(self, ts: int) -> float:
        """About how many of its tuples have a timestamp from ``ts`` on; 0 only if there is none."""
        if ts > self.max_ts:
            return 0.0
        # whatever the quantiles say, the last tuple is not below its own timestamp
        return max(1.0, self.rows - self.spread.rows_below(ts))


@dataclass(frozen=True)
class StreamState:
    """How far a stream has come.

    Tuples below ``floor_ts`` are late; those below ``watermark_ts`` are complete. ``next_seq`` is the number
    of the next tuple in timestamp order, ``next_position`` in order of arrival. ``tail`` holds tuples that
    have arrived, but not been numbered, since others may still come before them.
    """

    max_ts: int = BEGINNING_US
    floor_ts: int = BEGINNING_US
    watermark_ts: int = BEGINNING_US
    next_seq: int = 0
    next_position: int = 0
    tail: tuple[BlockRef, ...] = ()
    silent_since_us: int | None = None
    totals: StreamCounts = field(default_factory=StreamCounts)
    utilities: tuple[float, ...] = ()
    """Quantiles of how much its tuples matter, where a query says."""


@dataclass(frozen=True)
class OperatorState:
    """An operator has processed every tuple with a timestamp below ``progress_ts``.

    ``blocks`` hold, for each input, tuples that wait and tuples still inside a window; blocks of a stream's
    log are shared by all operators that read the stream. ``groups`` are partial aggregates: of all tuples so
    far, or of the panes of a window.
    """

    progress_ts: int = BEGINNING_US
    blocks: tuple[tuple[BlockRef, ...], ...] = ((),)
    groups: tuple[BlockRef, ...] = ()
    pushing: tuple[tuple[BlockRef, ...], ...] = ()
    """For row windows over a queue: blocks of the log whose tuples push others out, by input."""


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
        """Every block that must be kept; one that several operators need comes several times."""
        refs = [ref for stream in self.streams.values() for ref in stream.tail]
        for operator in self.operators.values():
            refs += [ref for side in (*operator.blocks, operator.groups, *operator.pushing) for ref in side]
        return refs

    def block_paths(self) -> set[str]:
        """Where they are stored: below the checkpoint, or at an address of their own."""
        return {path for ref in self.block_refs() for path in ref.stored_at}

    def to_json(self) -> str:
        """One JSON document, in which a block that many operators read stands once."""
        places: dict[int, int] = {}
        table: list[BlockRef] = []

        def place(ref: BlockRef) -> int:
            if id(ref) not in places:
                places[id(ref)] = len(table)
                table.append(ref)
            return places[id(ref)]

        operators = {
            name: {
                "progress_ts": state.progress_ts,
                "blocks": [[place(ref) for ref in side] for side in state.blocks],
                "groups": [place(ref) for ref in state.groups],
                "pushing": [[place(ref) for ref in side] for side in state.pushing],
            }
            for name, state in self.operators.items()
        }
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return seal({**own, "operators": operators, "blocks": table}, FORMAT_VERSION)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The inverse of ``to_json``; raises if the text is damaged or of another version."""
        document = unseal(text, FORMAT_VERSION)
        table = decode_all(BlockRef, document.pop("blocks", []))
        for state in document.get("operators", {}).values():
            for side in (*state.get("blocks", ()), state.get("groups", []), *state.get("pushing", ())):
                # documents of the second format have blocks themselves in place of their numbers
                side[:] = [table[ref] if isinstance(ref, int) else ref for ref in side]
        return decode(Manifest, document)
