"""Merging small blocks of a log, so that a long window over many short ticks is not a thousand files.

Blocks in a row become one when enough of them are small and all have the same readers. Tuples are copied a
few times at most: a block that has grown large is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headgate.spark.manifest import BlockRef
from headgate.spark.spread import merged_quantiles

Input = tuple[str, int]
"""An operator by name, and the number of one of its inputs."""

SMALL_ROWS = 50_000
FEWEST_MERGED = 16
"""Merging costs a job, so it waits until it is worth one."""


def groups_to_merge(kept: Mapping[Input, Sequence[BlockRef]]) -> list[tuple[BlockRef, ...]]:
    """Runs of small blocks of one log, by the blocks that each of its readers keeps."""
    readers: dict[str, set[Input]] = {}
    blocks: dict[str, BlockRef] = {}
    for reader, own in kept.items():
        for block in own:
            readers.setdefault(block.path, set()).add(reader)
            blocks[block.path] = block
    in_order = sorted(blocks.values(), key=lambda block: (block.min_ts, block.max_ts, block.path))
    runs = _runs(in_order, readers)
    return [tuple(run) for run in runs if len(run) >= FEWEST_MERGED]


def _runs(blocks: Iterable[BlockRef], readers: Mapping[str, set[Input]]) -> Iterator[list[BlockRef]]:
    run: list[BlockRef] = []
    for block in blocks:
        if run and not (_follows(run[-1], block) and readers[run[-1].path] == readers[block.path]):
            yield run
            run = []
        if block.rows >= SMALL_ROWS:
            if run:
                yield run
            run = []
            continue
        run.append(block)
    yield run


def _follows(before: BlockRef, block: BlockRef) -> bool:
    """Whether numbers go on without a gap; blocks without numbers have none to keep."""
    if before.first_seq is None or block.first_seq is None:
        return before.first_seq is None and block.first_seq is None
    return before.end_seq == block.first_seq


def merged_block(blocks: Sequence[BlockRef], path: str) -> BlockRef:
    """What is known of several blocks as one."""
    min_ts, max_ts = min(b.min_ts for b in blocks), max(b.max_ts for b in blocks)
    return replace(
        blocks[0],
        path=path,
        rows=sum(block.rows for block in blocks),
        bytes=sum(block.bytes for block in blocks),
        min_ts=min_ts,
        max_ts=max_ts,
        arrived_us=min(block.arrived_us for block in blocks),
        quantiles=merged_quantiles([block.spread for block in blocks], min_ts, max_ts),
        files=(),
        is_in_order=False,
    )
