"""Partitions of a stream: each has its own progress in event time, and the slowest holds the watermark.

Partitions may be minutes apart. A row is compared with earlier rows of its own partition alone, and the
watermark of the stream is the lowest of all partitions: so no row is late because another partition is ahead.
A partition that brings nothing for ``idle_after`` holds the watermark no longer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from headgate.model.network import StreamDefinition
from headgate.spark.arrival.dead_letters import notice_letter
from headgate.spark.arrival.split_statistics import SplitStatistics
from headgate.spark.manifest import PartitionState, StreamState

_LOG = logging.getLogger(__name__)


def highest(state: StreamState) -> dict[str, int]:
    """The highest timestamp of each partition so far."""
    return {name: partition.max_ts for name, partition in state.partitions.items()}


def after_tick(
    definition: StreamDefinition,
    state: StreamState,
    names: Iterable[str],
    splits: Sequence[SplitStatistics],
    now_us: int,
) -> dict[str, PartitionState]:
    """All partitions after a tick, those included that are new or have brought nothing yet."""
    arrived: dict[str, int] = {}
    for split in splits:
        if split.rows > split.bad:
            arrived[split.file] = max(split.max_ts, arrived.get(split.file, split.max_ts))
    # while no tick takes from the stream, as when its broker is away, none is known to be silent: such a
    # time must not count as silence of those who come back a little later than others
    passed_us = min(now_us - state.seen_us, definition.idle_after_us // 2) if state.seen_us else 0
    found = {}
    for name in sorted({*names, *state.partitions, *arrived}):
        before = state.partitions.get(name, PartitionState())
        if name in arrived:
            found[name] = PartitionState(max(before.max_ts, arrived[name]))
        else:
            found[name] = PartitionState(before.max_ts, before.silent_us + max(0, passed_us))
    return found


def are_idle(definition: StreamDefinition, partitions: Mapping[str, PartitionState]) -> bool:
    """Whether all partitions have been silent for so long that the stream no longer waits for them."""
    return all(_is_idle(definition, partition) for partition in partitions.values())


def slowest_ts(definition: StreamDefinition, partitions: Mapping[str, PartitionState]) -> int:
    """The highest timestamp of the partition that is furthest behind; idle ones do not count."""
    return min(p.max_ts for p in partitions.values() if not _is_idle(definition, p))


def gap_letters(stream: str, batch_id: int, before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Dead letters for partitions that begin anew: of a topic that was deleted and created again.

    With ``failOnDataLoss 'false'``, Spark goes on at the end of such a partition.
    """
    letters = []
    for name in sorted(before.keys() & after.keys()):
        if after[name] < before[name]:
            reason = (
                f"partition {name} went back from offset {before[name]} to {after[name]}: its topic was "
                f"created again, and {after[name]} of its records were skipped"
            )
            _LOG.warning("stream %s: %s", stream, reason)
            place = {"partition": name, "from_offset": 0, "to_offset": after[name]}
            letters.append(notice_letter(stream, batch_id, reason, place))
    return letters


def _is_idle(definition: StreamDefinition, partition: PartitionState) -> bool:
    return partition.silent_us >= definition.idle_after_us
