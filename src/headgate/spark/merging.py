"""Merging small blocks: windows over many short ticks would otherwise be as many files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headgate.model.joins import WindowJoin
from headgate.model.operator import Aggregate
from headgate.spark import sql
from headgate.spark.blocks import BlockStore, Input, groups_to_merge, merged_block
from headgate.spark.manifest import BlockRef
from headgate.spark.prepared import Prepared
from headgate.spark.stream_log import StreamLogs
from headgate.spark.tick_plan import Merged, TickPlan


@dataclass(frozen=True)
class BlockMerger:
    """Plans which blocks of logs and queues become one."""

    _prepared: Prepared
    _logs: StreamLogs
    _store: BlockStore

    def merge(self, batch_id: int, plan: TickPlan) -> None:
        """Merge small blocks of logs and queues, in everything retained after the tick."""
        self._merge_queues(batch_id, plan)
        self._merge_logs(batch_id, plan)

    def _merge_logs(self, batch_id: int, plan: TickPlan) -> None:
        kept: dict[str, dict[Input, list[BlockRef]]] = {}
        for name, sides in plan.retained.items():
            pushing = plan.pushing.get(name) or [[]] * len(sides)
            for number, (own, below) in enumerate(zip(sides, pushing, strict=True)):
                reads_log = self._prepared.through(name, number) is not None
                if blocks := own if reads_log else below:
                    stream = self._prepared.stream_input(name, number).stream
                    kept.setdefault(stream, {})[name, number] = blocks
        for stream, lists in kept.items():
            for place, group in enumerate(groups_to_merge(lists)):
                block = merged_block(group, f"blocks/{batch_id:09d}/{stream}-merged{place}")
                parts = frozenset(part.path for part in group)
                plan.merged.append(Merged(block, self._merged_tuples(stream, group, block), parts))
                for blocks in lists.values():
                    if group[0] in blocks:
                        at = blocks.index(group[0])
                        blocks[:] = [b for b in blocks if b not in group]
                        blocks.insert(at, block)

    def _merge_queues(self, batch_id: int, plan: TickPlan) -> None:
        """Merge blocks of the queues below windows, which no other operator reads."""
        for name, sides in plan.retained.items():
            settings = self._prepared.network.operators[name]
            if not isinstance(settings, (Aggregate, WindowJoin)):
                continue
            for number, blocks in enumerate(sides):
                if self._prepared.through(name, number) is not None:
                    continue
                for place, group in enumerate(groups_to_merge({(name, number): blocks})):
                    path = self._store.path(batch_id, f"{name}-in{number}-merged{place}")
                    tuples = self._store.read(group, self._prepared.operators[name].inputs[number])
                    plan.merged.append(Merged(merged_block(group, path), tuples))
                    blocks[:] = [block for block in blocks if block not in group]
                    blocks.append(plan.merged[-1].block)

    def _merged_tuples(self, stream: str, group: Sequence[BlockRef], block: BlockRef) -> DataFrame:
        names = self._logs.schemas[stream].struct.names
        tuples = self._store.spark.sql(sql.as_query(self._logs.view(stream, group))).select(*names)
        if not self._logs.memory.is_lasting:
            return tuples
        held = self._logs.memory.hold(tuples)
        self._logs.memory.put(block.path, held, block.rows)
        return held.frame
