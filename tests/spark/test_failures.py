"""Failures of Spark in one line."""

from __future__ import annotations

import pytest

from headgate.spark.failures import spark_reason

TRACE = """An error occurred while calling o7.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: {outer} SQLSTATE: KD001
\tat org.apache.spark.scheduler.DAGScheduler
Caused by: org.apache.spark.SparkException: {outer} SQLSTATE: KD001
Caused by: java.io.IOException: {inner}
\tat org.apache.parquet
"""
OUTER = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
    "file:/state/blocks/000000007/q/part-0.parquet."
)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("bad page", "/state/blocks/000000007/q/part-0.parquet: IOException: bad page"),
        # it names the file itself
        (
            "bad page of /state/blocks/000000007/q/part-0.parquet",
            "IOException: bad page of /state/blocks/000000007/q/part-0.parquet",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(inner: str, reason: str) -> None:
    assert spark_reason(RuntimeError(TRACE.format(outer=OUTER, inner=inner))) == reason
