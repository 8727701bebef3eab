"""The line before an eddy: blocks that wait, blocks that jobs work on, blocks that are through."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headgate.spark.manifest import BlockRef


@dataclass(frozen=True)
class Share:
    """What a job works on: blocks that jobs have handed back, and a stretch of numbers of new ones."""

    blocks: tuple[BlockRef, ...]

    @property
    def rows(self) -> int:
        """Its tuples."""
        return sum(block.rows for block in self.blocks)

    @property
    def files(self) -> list[BlockRef]:
        """Its blocks, every path once."""
        return list({block.path: block for block in self.blocks}.values())

    @property
    def bytes_per_tuple(self) -> float:
        """Of its tuples, on average."""
        return sum(block.bytes for block in self.blocks) / self.rows

    @property
    def arrived_us(self) -> int:
        """When the first of its tuples came."""
        return min(block.arrived_us for block in self.blocks)

    @property
    def numbers(self) -> tuple[int, int]:
        """The stretch of numbers among blocks that no job has worked on; from, up to."""
        new = [block for block in self.blocks if block.number is not None]
        ends = [block.number + block.rows for block in new if block.number is not None]
        return (min(b.number for b in new if b.number is not None), max(ends)) if new else (0, 0)


@dataclass(frozen=True)
class Standing:
    """An eddy at the beginning of a tick: what is inside, and what has come through since the last one."""

    inside: tuple[BlockRef, ...] = ()
    finished: tuple[BlockRef, ...] = ()


class Line:
    """Bookkeeping of blocks; a block is in one place at a time.

    There is a lane for tuples that call functions next, and one for every probe that tuples go to next.
    """

    def __init__(self, blocks: Iterable[BlockRef] = ()) -> None:
        """``blocks`` that were inside when an earlier run ended."""
        known = sorted(blocks, key=lambda block: -1 if block.number is None else block.number)
        self._lanes: defaultdict[int | None, deque[BlockRef]] = defaultdict(deque)
        for block in known:
            self._lanes[block.step].append(block)
        self._working: list[Share] = []
        self._finished: list[BlockRef] = []
        self._next = max((b.number + b.rows for b in known if b.number is not None), default=0)

    @property
    def next_number(self) -> int:
        """Of the next tuple that comes in."""
        return self._next

    @property
    def rows(self) -> int:
        """Tuples that no job works on."""
        return sum(map(self.rows_before, self._lanes))

    def rows_before(self, step: int | None) -> int:
        """Those of one lane."""
        return sum(block.rows for block in self._lanes[step])

    def enter(self, block: BlockRef) -> BlockRef:
        """A new block, numbered; it waits."""
        entered = replace(block, number=self._next)
        self._next += block.rows
        self._lanes[None].append(entered)
        return entered

    def enter_decided(self, blocks: Sequence[BlockRef]) -> None:
        """The parts of a new block whose tuples have been sent to probes."""
        self._next += sum(block.rows for block in blocks)
        for block in blocks:
            self._lanes[block.step].append(block)

    def take(self, most_rows: int, step: int | None = None) -> Share | None:
        """The head of a lane for a job; a block may be cut, and numbers are without a gap."""
        waiting = self._lanes[step]
        taken: list[BlockRef] = []
        rows, follows = 0, None
        while waiting and rows < most_rows:
            head = waiting[0]
            if head.number is not None and follows is not None and head.number != follows:
                break
            waiting.popleft()
            if head.number is not None and head.rows > most_rows - rows:
                part = most_rows - rows
                waiting.appendleft(_slice(head, part, head.rows - part))
                head = _slice(head, 0, part)
            rows += head.rows
            follows = head.number + head.rows if head.number is not None else None
            taken.append(head)
        if not taken:
            return None
        share = Share(tuple(taken))
        self._working.append(share)
        return share

    def harvest(self, share: Share, finished: BlockRef | None, left: Iterable[BlockRef]) -> None:
        """A job has ended: what is through, and what it hands back, which goes first the next time."""
        self._working.remove(share)
        self._finished += [finished] if finished else []
        for block in left:
            self._lanes[block.step].appendleft(block)

    def standing(self) -> Standing:
        """Everything, as it is now."""
        inside = [block for share in self._working for block in share.blocks]
        waiting = [block for lane in self._lanes.values() for block in lane]
        return Standing((*inside, *waiting), tuple(self._finished))

    def passed(self, standing: Standing) -> None:
        """What had come through by then has gone on."""
        self._finished = [block for block in self._finished if block not in standing.finished]


def _slice(block: BlockRef, skipped: int, rows: int) -> BlockRef:
    assert block.number is not None
    size = round(block.bytes * rows / block.rows)
    return replace(block, number=block.number + skipped, rows=rows, bytes=size)
