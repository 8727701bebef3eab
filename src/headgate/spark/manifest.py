"""The state of the engine after a tick, as one durable document.

A manifest lists every block that is still needed. Writing it commits the tick: a tick without a manifest is
re-executed and overwrites its partial output.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headgate.model.event import StreamCounts
from headgate.model.shedding import TickSettings
from headgate.spark.rows import Spread
from headgate.spark.sealed_document import decode, fields_of, seal, unseal
from headgate.spark.sql import BEGINNING_US


@dataclass(frozen=True)
class BlockRef:
    """An immutable block of tuples: files below the checkpoint, or source files in place.

    ``path`` is relative to the checkpoint, or absolute where the files are not ours. ``number`` is that of
    its first tuple in the queue of an eddy. ``step`` is the probe that its tuples go to next; the same files
    may hold others.
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
    """Sequence number of its first tuple in the stream, where the order of the stream matters."""
    files: tuple[str, ...] = ()
    """Source files that are read in place; ``path`` is then only a name."""
    is_in_order: bool = False
    """Whether its tuples are in timestamp order, and its quantiles at evenly spaced places."""

    @property
    def stored_at(self) -> tuple[str, ...]:
        """Its folder below the checkpoint, or the source files that it consists of."""
        return self.files or (self.path,)

    @property
    def spread(self) -> Spread:
        return Spread.over(self.rows, self.quantiles or (self.min_ts, self.max_ts))

    @property
    def end_seq(self) -> int:
        return (self.first_seq or 0) + self.rows

    def first_seq_from(self, ts: int) -> int:
        """A lower bound of the sequence number of its first tuple with a timestamp of at least ``ts``."""
        first = self.first_seq or 0
        if not self.is_in_order or len(self.quantiles) < 2:
            return first
        # the tuples at these quantiles, and all before them, are older
        older = bisect_left(self.quantiles, ts)
        return first + (max(0, older - 1) * (self.rows - 1)) // (len(self.quantiles) - 1)

    def rows_from(self, ts: int) -> float:
        """Approximate number of its tuples with a timestamp of at least ``ts``; 0 only if there is none."""
        if ts > self.max_ts:
            return 0.0
        # quantiles are approximate, but the last tuple is not below its own timestamp
        return max(1.0, self.rows - self.spread.rows_below(ts))


@dataclass(frozen=True)
class PartitionState:
    """How far a partition of a stream has come, and for how long it has brought nothing."""

    max_ts: int = BEGINNING_US
    silent_us: int = 0


@dataclass(frozen=True)
class StreamState:
    """How far a stream has come.

    Tuples below ``floor_ts`` are late; those below ``watermark_ts`` are complete. ``next_seq`` is the number
    of the next tuple in timestamp order, ``next_position`` in order of arrival. ``tail`` holds tuples that
    have arrived but are not sequenced yet, since earlier ones may still arrive.
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
    """Quantiles of its tuples' utilities, where a query defines one."""
    partitions: dict[str, PartitionState] = field(default_factory=dict)
    """Where partitions have progress of their own: all of them, by topic and number."""
    seen_us: int = 0
    """When the last tick took from a stream with partitions."""
    whole_from_ts: int = BEGINNING_US
    """The log holds all tuples from this timestamp on, with all its columns."""
    columns: tuple[str, ...] = ()
    """The columns of its log, in lower case."""
    is_numbered: bool = False
    """Whether tuples have numbers: once they have, they keep them, as some may wait for theirs."""
    identity: str = ""
    source: str = ""
    """The name of its source in Spark's logs."""

    def held(self, blocks: Iterable[BlockRef], kept: Collection[str]) -> StreamState:
        """Its log holds only those of its blocks that are kept: from after the others on, all tuples."""
        released = (block.max_ts + 1 for block in blocks if block.path not in kept)
        return replace(self, whole_from_ts=max([self.whole_from_ts, *released]))


@dataclass(frozen=True)
class OperatorState:
    """An operator has processed every tuple with a timestamp below ``progress_ts``.

    ``blocks`` hold, for each input, waiting tuples and tuples still inside a window; blocks of a stream's log
    are shared by all operators that read the stream. ``groups`` are partial aggregates: of all tuples so far,
    or of the panes of a window.
    """

    progress_ts: int = BEGINNING_US
    blocks: tuple[tuple[BlockRef, ...], ...] = ((),)
    groups: tuple[BlockRef, ...] = ()
    pushing: tuple[tuple[BlockRef, ...], ...] = ()
    """For row windows over a queue: blocks of the log whose tuples expire others, by input."""
    identity: str = ""
    """What the operator computes, whatever its name is."""
    reads: tuple[str, ...] = ()
    """By input, the stream whose log ``blocks`` are part of; empty if they are a queue."""
    pushes: tuple[str, ...] = ()
    """The same of ``pushing``."""

    def log_blocks(self) -> Iterator[tuple[str, BlockRef]]:
        """Its blocks that are part of logs, each with the stream."""
        for streams, sides in ((self.reads, self.blocks), (self.pushes, self.pushing)):
            for stream, blocks in zip(streams, sides, strict=False):
                yield from ((stream, block) for block in blocks if stream)


def kept_paths(operators: Mapping[str, OperatorState]) -> set[str]:
    """The blocks of logs that operators need, by path."""
    return {block.path for state in operators.values() for _, block in state.log_blocks()}


@dataclass(frozen=True)
class RelationState:
    """The version of a stored relation that is refreshed: when it was read, and its rows, if it has any."""

    read_us: int
    block: BlockRef | None = None


@dataclass(frozen=True)
class FilePart:
    """A file of a block; ``modified_ms`` is recorded for files that their owner may overwrite."""

    name: str
    size_bytes: int
    crc32: int
    modified_ms: int | None = None


Fingerprint = tuple[FilePart, ...]


@dataclass(frozen=True)
class Owner:
    """The run that a checkpoint belongs to: its id, and the queries by name and fingerprint."""

    uid: str
    fingerprint: str
    queries: tuple[str, ...]

    def to_json(self) -> str:
        return seal(self)

    @staticmethod
    def from_json(text: str) -> Owner:
        return decode(Owner, unseal(text))


@dataclass(frozen=True)
class Registration:
    """A query or derived stream that runs: what it computes, and the tuples that it sees.

    It sees those from ``start_us`` on, all if that is None. ``epoch`` is the change that brought it.
    """

    definition: str
    start_us: int | None = None
    epoch: int = 0
    is_stream: bool = False


@dataclass(frozen=True)
class Manifest:
    """Everything a restarted engine has to know; ``settings`` and ``relations`` are those of the next tick.

    ``files`` are the fingerprints of all blocks by path. These, ``owner`` and ``written_s`` are filled in
    when the manifest is committed.
    """

    batch_id: int = -1
    flushed: bool = False
    streams: dict[str, StreamState] = field(default_factory=dict)
    operators: dict[str, OperatorState] = field(default_factory=dict)
    rows_out: dict[str, int] = field(default_factory=dict)
    settings: TickSettings = field(default_factory=TickSettings)
    files: dict[str, Fingerprint] = field(default_factory=dict)
    owner: Owner | None = None
    written_s: float = 0.0
    relations: dict[str, RelationState] = field(default_factory=dict)
    registered: dict[str, Registration] = field(default_factory=dict)
    """Queries and derived streams by name; manifests up to the fifth format have none."""
    epoch: int = 0
    """How often queries have come or gone."""
    paused: tuple[str, ...] = ()
    shares: bool = True
    """Whether equal operators are shared, which earlier versions did not do."""
    script: str = ""
    """The statements that declare what runs."""

    def block_refs(self) -> list[BlockRef]:
        """Every retained block of tuples; one that several operators need is listed several times."""
        refs = [ref for stream in self.streams.values() for ref in stream.tail]
        for operator in self.operators.values():
            refs += [ref for side in (*operator.blocks, operator.groups, *operator.pushing) for ref in side]
        return refs

    def logs(self) -> dict[str, dict[str, BlockRef]]:
        """The blocks of the log of every stream, by path."""
        found: dict[str, dict[str, BlockRef]] = {name: {} for name in self.streams}
        for state in self.operators.values():
            for stream, block in state.log_blocks():
                found.setdefault(stream, {})[block.path] = block
        return found

    def block_paths(self) -> set[str]:
        """Where all blocks are stored: below the checkpoint, or at a path of their own."""
        stored = [state.block for state in self.relations.values() if state.block is not None]
        return {path for ref in (*self.block_refs(), *stored) for path in ref.stored_at}

    def to_json(self) -> str:
        """One JSON document, in which a block that many operators read occurs once."""
        places: dict[int, int] = {}
        table: list[BlockRef] = []

        def numbered(refs: tuple[BlockRef, ...]) -> list[int]:
            for ref in refs:
                if id(ref) not in places:
                    places[id(ref)] = len(table)
                    table.append(ref)
            return [places[id(ref)] for ref in refs]

        operators = {
            name: {
                "progress_ts": state.progress_ts,
                "blocks": [numbered(side) for side in state.blocks],
                "groups": numbered(state.groups),
                "pushing": [numbered(side) for side in state.pushing],
                "identity": state.identity,
                "reads": state.reads,
                "pushes": state.pushes,
            }
            for name, state in self.operators.items()
        }
        document = {**fields_of(self), "operators": operators, "blocks": table}
        if not self.relations:
            # earlier versions can go on from a checkpoint without them
            del document["relations"]
        return seal(document)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The inverse of ``to_json``; raises if the text is damaged or of another version."""
        document = unseal(text)
        if "course" in document:
            # the name up to the third format
            document["settings"] = document.pop("course")
        table = [decode(BlockRef, raw) for raw in document.pop("blocks", [])]
        for state in document.get("operators", {}).values():
            for side in (*state.get("blocks", ()), state.get("groups", []), *state.get("pushing", ())):
                # the second format has blocks in place of their numbers
                side[:] = [table[ref] if isinstance(ref, int) else ref for ref in side]
        return decode(Manifest, document)
