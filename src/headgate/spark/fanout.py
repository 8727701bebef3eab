"""Independent pieces of work over the tasks of a Spark application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headgate.spark.cluster import own_session, processors

Case = TypeVar("Case")
Found = TypeVar("Found")

# some pieces take longer than others: more slices than processors keep all of them busy to the end
_SLICES_A_PROCESSOR = 8


def over_spark(master: str, work: Callable[[Case], Found], cases: Sequence[Case]) -> list[Found]:
    """What ``work`` makes of every case, in their order; both must be importable where tasks run."""
    spark = own_session(master)
    try:
        slices = min(len(cases), _SLICES_A_PROCESSOR * processors(spark))
        return spark.sparkContext.parallelize(cases, max(1, slices)).map(work).collect()
    finally:
        spark.stop()
