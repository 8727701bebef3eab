"""Landing: the tuples of a stream whose order matters are numbered and kept as they arrive.

Row windows count tuples of the stream as declared, before any selection. So their numbers have to be
given once, in timestamp order, below the stream's frontier: what may still be overtaken waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from headgate.model.network import Network
from headgate.model.operator import Aggregate, StreamInput, WindowUpdate
from headgate.model.window import RowWindow, TimeWindow, Window
from headgate.spark.arrive import BLOCK, FILE, PLACE, Arrival
from headgate.spark.blocks import BlockStore
from headgate.spark.columns import ARRIVED, FINAL, SEQ, TS, seq_of_key, tick_constant
from headgate.spark.manifest import BlockRef, StreamState

_TICK, _RANK, _COUNT = "$tick", "$rank", "$count"


@dataclass(frozen=True)
class LandingPlan:
    """What a landed stream has to keep: its columns, and the key sets of its row windows."""

    columns: tuple[str, ...]
    key_sets: tuple[tuple[str, ...], ...]


def landing_plans(network: Network) -> dict[str, LandingPlan]:
    """The streams whose order matters: under row windows, and aggregates that emit per tuple."""
    windows: dict[str, list[Window]] = {}
    for operator in network.operators.values():
        if isinstance(operator, WindowUpdate):
            for side in operator.sides:
                if isinstance(side.window, RowWindow):
                    windows.setdefault(side.stream, []).append(side.window)
        elif isinstance(operator, Aggregate):
            slides = isinstance(operator.window, TimeWindow) and operator.window.slide_us
            if not slides:
                windows.setdefault(operator.stream, []).append(operator.window)
    return {stream: _plan(network, stream, found) for stream, found in windows.items()}


def _plan(network: Network, stream: str, windows: list[Window]) -> LandingPlan:
    key_sets = {w.keys for w in windows if isinstance(w, RowWindow) and w.keys}
    needed = {key for keys in key_sets for key in keys}
    for operator in network.operators.values():
        for source in operator.inputs:
            if isinstance(source, StreamInput) and source.stream == stream:
                needed.update(source.columns)
    return LandingPlan(tuple(sorted(needed)), tuple(sorted(key_sets)))


def landed_schema(raw: StructType, plan: LandingPlan) -> StructType:
    """Columns of a landed block: the stream's own, its timestamps, order of arrival and numbers."""
    by_name = {f.name.lower(): f for f in raw.fields}
    kept = [by_name[column.lower()] for column in plan.columns]
    numbers = [seq_of_key(keys) for keys in ((), *plan.key_sets)]
    system = [TS, ARRIVED, _TICK, _RANK, BLOCK, PLACE, *numbers]
    longs = [StructField(name, LongType()) for name in system]
    return StructType([*kept, *longs, StructField(FINAL, BooleanType())])


class Landing:
    """Numbers one stream's tuples."""

    def __init__(self, stream: str, store: BlockStore, plan: LandingPlan, raw: StructType) -> None:
        self._stream = stream
        self._store = store
        self._plan = plan
        self.schema = landed_schema(raw, plan)
        self._kept = [field.name for field in self.schema.fields[: len(plan.columns)]]

    def land(
        self, arrival: Arrival | None, state: StreamState, frontier_ts: int, batch_id: int, now_us: int
    ) -> tuple[StreamState, DataFrame | None]:
        """Number what the frontier has passed; return the new state and the tuples it lets through."""
        waiting = self._waiting(state)
        fresh = None if arrival is None else self._canonical(arrival, state, batch_id, now_us)
        if fresh is None and (waiting is None or frontier_ts <= state.frontier_ts):
            return state, None
        everything = fresh if waiting is None else waiting if fresh is None else waiting.unionByName(fresh)
        assert everything is not None
        numbered = self._numbered(everything, state, frontier_ts)
        rows = state.waiting_rows + (arrival.rows if arrival else 0)
        name = f"landed-{self._stream}"
        written = self._store.write(numbered, batch_id, name, rows, frontier_ts, now_us)
        if written is None:
            return state, None
        block, still_waiting = written
        let_through = self._store.read([block], self.schema).where(F.col(FINAL))
        landed = replace(
            state,
            next_seq=state.next_seq + block.rows - still_waiting,
            waiting_rows=still_waiting,
            landed=(*state.landed, block),
            key_counts=self._key_counts(state, let_through, batch_id, name, now_us),
        )
        return landed, let_through

    def _waiting(self, state: StreamState) -> DataFrame | None:
        if not state.waiting_rows:
            return None
        last = self._store.read(state.landed[-1:], self.schema)
        return last.where(~F.col(FINAL)).drop(
            FINAL, *[seq_of_key(keys) for keys in ((), *self._plan.key_sets)]
        )

    def _canonical(self, arrival: Arrival, state: StreamState, batch_id: int, now_us: int) -> DataFrame:
        frame = arrival.frame
        rank: Column = F.lit(0).cast("bigint")
        block: Column = F.lit(0).cast("bigint")
        if FILE in frame.columns:
            pairs = [F.lit(v) for file, r in arrival.file_ranks.items() for v in (file, r)]
            rank = F.element_at(F.create_map(*pairs), F.col(FILE)).cast("bigint")
            block = F.col(BLOCK).cast("bigint")
        placed = frame.select(
            *[F.col(f"`{c}`") for c in self._kept],
            TS,
            ARRIVED,
            F.lit(batch_id).cast("bigint").alias(_TICK),
            rank.alias(_RANK),
            block.alias(BLOCK),
            F.col(PLACE).cast("bigint").alias(PLACE),
        )
        if arrival.definition.timestamp is not None:
            return placed
        # one microsecond apart, so that tuples stamped on arrival keep their order
        place = F.row_number().over(SparkWindow.orderBy(_RANK, BLOCK, PLACE)) - 1
        return placed.withColumn(TS, tick_constant(arrival.min_ts, ARRIVED) + place)

    def _numbered(self, tuples: DataFrame, state: StreamState, frontier_ts: int) -> DataFrame:
        order = [TS, _TICK, _RANK, BLOCK, PLACE]
        place = F.row_number().over(SparkWindow.orderBy(*order)) - 1
        numbered = tuples.withColumn(SEQ, tick_constant(state.next_seq) + place)
        for keys in self._plan.key_sets:
            number = seq_of_key(keys)
            place = F.row_number().over(SparkWindow.partitionBy(*keys).orderBy(*order)) - 1
            numbered = numbered.withColumn(number, place.cast("bigint"))
            counts = state.key_counts.get(number)
            if counts is not None:
                numbered = self._above(numbered, number, keys, counts)
        final = F.col(TS) < tick_constant(frontier_ts)
        return numbered.withColumn(FINAL, final).select(*self.schema.names)

    def _above(self, numbered: DataFrame, number: str, keys: tuple[str, ...], counts: BlockRef) -> DataFrame:
        before = self._counts(counts, keys)
        for position, key in enumerate(keys):
            before = before.withColumnRenamed(key, f"$old{position}")
        same = F.lit(True)
        for position, key in enumerate(keys):
            same = same & F.col(f"`{key}`").eqNullSafe(F.col(f"$old{position}"))
        joined = numbered.join(before, same, "left")
        total = F.col(f"`{number}`") + F.coalesce(F.col(_COUNT), F.lit(0))
        return joined.withColumn(number, total).drop(_COUNT, *[f"$old{i}" for i in range(len(keys))])

    def _counts(self, counts: BlockRef, keys: tuple[str, ...]) -> DataFrame:
        fields = {f.name.lower(): f for f in self.schema.fields}
        schema = StructType([*[fields[k.lower()] for k in keys], StructField(_COUNT, LongType())])
        return self._store.read([counts], schema)

    def _key_counts(
        self, state: StreamState, let_through: DataFrame, batch_id: int, name: str, now_us: int
    ) -> dict[str, BlockRef]:
        counts: dict[str, BlockRef] = {}
        for keys in self._plan.key_sets:
            number = seq_of_key(keys)
            columns = [F.col(f"`{k}`") for k in keys]
            fresh = let_through.groupBy(*columns).agg(F.count(F.lit(1)).alias(_COUNT))
            old = state.key_counts.get(number)
            if old is not None:
                both = self._counts(old, keys).unionByName(fresh)
                fresh = both.groupBy(*columns).agg(F.sum(_COUNT).alias(_COUNT))
            position = self._plan.key_sets.index(keys)
            written = self._store.write(fresh, batch_id, f"{name}-keys{position}", 0, 0, now_us)
            if written is not None:
                counts[number] = written[0]
            elif old is not None:
                counts[number] = old
        return counts
