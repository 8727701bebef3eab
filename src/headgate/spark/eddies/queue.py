"""The queue of an eddy: blocks that wait, blocks that jobs work on, blocks that are finished."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.model.network import Network
from headgate.model.operator import JoinEddy
from headgate.spark.manifest import BlockRef


@dataclass(frozen=True)
class JobInput:
    """Input of a job: blocks handed back by earlier jobs, and a range of numbers of new blocks."""

    blocks: tuple[BlockRef, ...]

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def files(self) -> list[BlockRef]:
        """Its blocks, each path once."""
        return list({block.path: block for block in self.blocks}.values())

    @property
    def bytes_per_tuple(self) -> float:
        return sum(block.bytes for block in self.blocks) / self.rows

    @property
    def arrived_us(self) -> int:
        return min(block.arrived_us for block in self.blocks)

    @property
    def numbers(self) -> tuple[int, int]:
        """First number of the new blocks, and one past the last."""
        new = [(b.number, b.number + b.rows) for b in self.blocks if b.number is not None]
        return (min(new)[0], max(new)[1]) if new else (0, 0)


@dataclass(frozen=True)
class EddySnapshot:
    """An eddy at the beginning of a tick: blocks inside, and blocks finished since the last tick."""

    inside: tuple[BlockRef, ...] = ()
    finished: tuple[BlockRef, ...] = ()


class EddyQueue:
    """Keeps track of blocks; a block is in one place at a time.

    There is a lane for tuples whose next operator calls a function, and one per probe.
    """

    def __init__(self, blocks: Iterable[BlockRef] = ()) -> None:
        """``blocks`` were inside when an earlier run ended."""
        known = JobInput(tuple(sorted(blocks, key=lambda b: -1 if b.number is None else b.number)))
        self._lanes: defaultdict[int | None, deque[BlockRef]] = defaultdict(deque)
        for block in known.blocks:
            self._lanes[block.step].append(block)
        self._working: list[JobInput] = []
        self._finished: list[BlockRef] = []
        self.next_number = known.numbers[1]
        """Number of the next tuple that enters."""

    @property
    def rows(self) -> int:
        """Tuples that no job works on."""
        return sum(map(self.rows_in_lane, self._lanes))

    def rows_in_lane(self, step: int | None) -> int:
        return sum(block.rows for block in self._lanes[step])

    def enter(self, block: BlockRef) -> BlockRef:
        """Append a new block, and return it with its number."""
        numbered = replace(block, number=self.next_number)
        self.next_number += block.rows
        self._lanes[None].append(numbered)
        return numbered

    def enter_routed(self, blocks: Sequence[BlockRef]) -> None:
        """Append the parts of a new block whose tuples have been routed to probes."""
        self.next_number += sum(block.rows for block in blocks)
        for block in blocks:
            self._lanes[block.step].append(block)

    def take(self, most_rows: int, step: int | None = None) -> JobInput | None:
        """Take the head of a lane for a job; a block may be split, and numbers have no gap."""
        waiting = self._lanes[step]
        taken: list[BlockRef] = []
        left, follows = most_rows, None
        while waiting and left > 0:
            if follows is not None and waiting[0].number not in (None, follows):
                break
            head = waiting.popleft()
            number = head.number
            if number is not None:
                if head.rows > left:
                    waiting.appendleft(_slice(head, left, head.rows - left))
                    head = _slice(head, 0, left)
                follows = number + head.rows
            left -= head.rows
            taken.append(head)
        if not taken:
            return None
        self._working.append(JobInput(tuple(taken)))
        return self._working[-1]

    def finish_job(self, taken: JobInput, finished: BlockRef | None, unfinished: Iterable[BlockRef]) -> None:
        """Add the output of a job; what it hands back goes to the front."""
        self._working.remove(taken)
        self._finished += [finished] if finished else []
        for block in unfinished:
            self._lanes[block.step].appendleft(block)

    def snapshot(self) -> EddySnapshot:
        working = [block for taken in self._working for block in taken.blocks]
        waiting = [block for lane in self._lanes.values() for block in lane]
        return EddySnapshot((*working, *waiting), tuple(self._finished))

    def remove_finished(self, snapshot: EddySnapshot) -> None:
        """Forget the finished blocks of a snapshot: a tick has read them."""
        self._finished = [block for block in self._finished if block not in snapshot.finished]


def _slice(block: BlockRef, skipped: int, rows: int) -> BlockRef:
    assert block.number is not None
    size = round(block.bytes * rows / block.rows)
    return replace(block, number=block.number + skipped, rows=rows, bytes=size)


def probing_timestamps(
    network: Network, name: str, first_ts: int, snapshots: Mapping[str, EddySnapshot]
) -> list[int]:
    """Least timestamps of tuples that may still probe the windows of an operator; none without placed probes.

    ``first_ts`` is that of tuples which leave the operator from now on.
    """
    eddies = [reader for reader in network.readers(name) if isinstance(network.operators[reader], JoinEddy)]
    inside = [block.min_ts for eddy in eddies for block in snapshots[eddy].inside]
    return [first_ts, *inside] if eddies else []
