"""How long it takes to make 100 rows visible as files: Hadoop's local file system beside ours.

    python benchmarks/small_writes.py

Milliseconds of a warm write, median of 50, in rounds so that other load meets both alike; and processor
time of the JVM and its children, which other load changes less.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.application.cluster import own_session, private_session
from headgate.spark.file_system import Files
from headgate.spark.sinks import FILE_SINKS, FileSink

ROWS, WARM, ROUNDS, PER_ROUND = 100, 20, 10, 5
# what Spark does when it is told nothing
STOCK = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}


def main() -> None:
    spark = private_session(own_session("local[2]"))
    columns = ("id", "id % 7 AS k", "CAST(id AS STRING) AS s", "id * 1.5D AS v")
    frame = spark.range(ROWS).selectExpr(*columns).coalesce(1).localCheckpoint()
    root = tempfile.mkdtemp(prefix="headgate-small-writes-")
    writes = {"noop": _noop(frame)}
    for format in FILE_SINKS:
        writes[f"{format}, Hadoop's"] = _write(spark, frame, format, f"{root}/{format}-stock", STOCK)
        writes[f"{format}, ours"] = _write(spark, frame, format, f"{root}/{format}", {})
    for write in writes.values():
        for number in range(WARM):
            write(number)
    seconds: dict[str, list[float]] = {name: [] for name in writes}
    busy = dict.fromkeys(writes, 0.0)
    for round in range(ROUNDS):
        for name, write in writes.items():
            busy[name] -= _processor_s(spark)
            for number in range(PER_ROUND):
                began = time.perf_counter()
                write(WARM + round * PER_ROUND + number)
                seconds[name].append(time.perf_counter() - began)
            busy[name] += _processor_s(spark)
    for name in writes:
        median, best = statistics.median(seconds[name]), min(seconds[name])
        cpu = busy[name] / (ROUNDS * PER_ROUND)
        print(
            f"{name:20s} median {1e3 * median:6.1f} ms, least {1e3 * best:6.1f} ms, CPU {1e3 * cpu:6.1f} ms"
        )
    spark.stop()
    shutil.rmtree(root)


def _noop(frame: DataFrame) -> Callable[[int], None]:
    return lambda number: frame.write.format("noop").mode("overwrite").save()


def _write(
    spark: SparkSession, frame: DataFrame, format: str, path: str, options: dict[str, str]
) -> Callable[[int], None]:
    sink = FileSink(Files(spark), format, path, options, "uid")

    def write(number: int) -> None:
        sink.write(frame, number, False)
        sink.publish(number, ROWS, False, 1.0)

    return write


def _processor_s(spark: SparkSession) -> float:
    """Processor seconds of the JVM and of processes that it has waited for."""
    jvm = spark._jvm
    assert jvm is not None
    fields = (
        Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/stat")
        .read_text()
        .rpartition(")")[2]
        .split()
    )
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
