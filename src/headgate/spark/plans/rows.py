"""Row windows: when a tuple leaves, told by the tuple that pushes it out."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headgate.model.window import RowWindow
from headgate.spark.columns import SEQ, TS, WINDOW_SEQ, seq_of_key, window_key

EXPIRY = "$exp"
EXPIRY_SEQ = "$exp_seq"

# up to this many tuples are sent to every task rather than shuffled
BROADCAST_ROWS = 20_000


def timeline(landed: DataFrame, window: RowWindow) -> DataFrame:
    """For each tuple of a stream: the number of the tuple that it pushes out, and when."""
    victim = F.col(f"`{seq_of_key(window.keys)}`") - window.rows
    keys = [F.col(f"`{key}`").alias(f"$t{position}") for position, key in enumerate(window.keys)]
    return landed.select(
        victim.alias("$victim"), *keys, F.col(TS).alias(EXPIRY), F.col(SEQ).alias(EXPIRY_SEQ)
    )


def with_expiry(
    tuples: DataFrame, window: RowWindow, pushing: DataFrame | None, pushing_rows: float
) -> DataFrame:
    """Add when each tuple left its row window; NULL while it is inside."""
    if pushing is None:
        nothing = F.lit(None).cast("bigint")
        return tuples.withColumn(EXPIRY, nothing).withColumn(EXPIRY_SEQ, nothing)
    hint = "broadcast" if pushing_rows <= BROADCAST_ROWS else "shuffle_hash"
    same: Column = F.col(WINDOW_SEQ) == F.col("$victim")
    keys = range(len(window.keys))
    for position in keys:
        same = same & F.col(window_key(position)).eqNullSafe(F.col(f"$t{position}"))
    joined = tuples.join(pushing.hint(hint), same, "left")
    return joined.drop("$victim", *[f"$t{position}" for position in keys])
