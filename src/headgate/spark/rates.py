"""How fast streams that lie in files came, by their own timestamps."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import functions as F

from headgate.model.network import StreamDefinition
from headgate.spark import sql
from headgate.spark.columns import TS
from headgate.spark.sources import Sources
from headgate.spark.stream_log import timestamp_us


def tuples_per_s(sources: Sources, streams: Iterable[StreamDefinition]) -> dict[str, float]:
    """Rates of the streams that can tell, however fast their files are read."""
    found = {}
    for definition in streams:
        if definition.timestamp is None or not sources.is_file_stream(definition):
            continue
        read = sources.read_files(definition, sources.present_files(definition))
        rows = read.selectExpr(f"{timestamp_us(read.schema, definition)} AS {sql.name(TS)}")
        bounds = rows.agg(F.count(TS), (F.max(TS) - F.min(TS)) / 1e6)
        [(tuples, span_s)] = bounds.collect()
        if tuples > 1 and span_s > 0:
            found[definition.name] = tuples / span_s
    return found
