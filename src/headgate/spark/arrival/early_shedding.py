"""Shedding before rows are held: of a flood, rows that are not kept cost no more than their hash.

What is in a micro-batch is held in memory, since several jobs read it. If most of it is to be dropped, it is
cheaper to read the source twice: to count what goes, and to hold what stays.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from headgate.model.network import StreamDefinition
from headgate.spark import sql
from headgate.spark.arrival.late_rows import RawRows
from headgate.spark.manifest import StreamState
from headgate.spark.sql import TS
from headgate.spark.stream_log import StreamLogs

# smaller micro-batches are not worth a job
_LEAST_ROWS = 50_000
_MOST_KEPT = 0.5


def pays(raw: RawRows, rows_before: int) -> bool:
    """Whether to shed early; ``rows_before`` are those of the tick before.

    Lateness in files depends on all rows before, and a utility on the distribution over all rows. A DataFrame
    of the user's may give other rows when it is read again.
    """
    if raw.is_file or raw.box is None or raw.utility is not None or raw.definition.format == "dataframe":
        return False
    return raw.box.keep < _MOST_KEPT and rows_before >= _LEAST_ROWS


def may_be_flood(definition: StreamDefinition, keep: float, rows_before: int | None) -> bool:
    """Whether to count the rows of a micro-batch before they are read; none are known of a first tick.

    Other sources are held back, or may take long to count.
    """
    is_cheap_to_count = definition.format in ("rate", "socket")
    is_large = rows_before is None or rows_before >= _LEAST_ROWS
    return is_cheap_to_count and is_large and keep >= _MOST_KEPT


def shed_early(
    spark: SparkSession, logs: StreamLogs, raw: RawRows, placed: DataFrame, state: StreamState
) -> tuple[RawRows, DataFrame]:
    """The rows that are kept, late or bad; the others are counted."""
    own = sql.name(TS)
    late = "FALSE"
    if raw.definition.timestamp is not None:
        late = f"{own} < {max(state.max_ts - raw.definition.watermark_delay_us, state.floor_ts)}L"
    goes = f"(NOT {raw.is_bad} AND NOT {late} AND NOT {raw.is_kept})"
    view = logs.views.define(f"flood of {raw.definition.name}", placed)
    measures = [f"count_if({goes})", f"max(CASE WHEN {goes} THEN {own} END)"]
    [(rows, max_ts)] = spark.sql(sql.select(measures, view)).collect()
    stays = spark.sql(sql.select(["*"], view, [f"NOT {goes}"]))
    return replace(raw, shed_early=rows, shed_until=max_ts), stays
