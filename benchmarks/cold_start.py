"""From a cold shell to the results: ``headgate`` against a PySpark script of the same job.

    python benchmarks/cold_start.py [--repeat 5] [--json FILE]

The job is ``examples/sensors.sql``. By hand means: one Structured Streaming query with a checkpoint takes
all files (``availableNow``), sets bad and late rows aside, and writes the results of both queries
as Parquet; then both are read and printed. Every run is a process of its own, in turn with the others, and
all must print the same rows. ``first run`` is ``headgate`` without its archive of Spark's classes, which it
makes in the background after the first run on a machine; here it is made before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headgate.spark.application import archive, jvm
from headgate.spark.application.java import find_java

ROOT = Path(__file__).parents[1]
HEADGATE = [sys.executable, "-m", "headgate"]
RUN = [*HEADGATE, "run", "examples/sensors.sql", "--until-done"]
WITHOUT_ARCHIVE = {archive.SWITCH: "off"}

BY_HAND = """
import tempfile
from pyspark.sql import SparkSession, Window, functions as F

spark = SparkSession.builder.master("local[*]").appName("sensors").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
sensors = spark.read.schema("sensor STRING, room STRING, most DOUBLE").csv("examples/sensors.csv")
readings = (
    spark.readStream.schema("ts TIMESTAMP, sensor STRING, celsius DOUBLE, bad STRING")
    .option("columnNameOfCorruptRecord", "bad")
    .csv("examples/readings")
    .select("*", "_metadata.file_path")
)
out = tempfile.mkdtemp(prefix="by-hand-")


def process(batch, number):
    # late: more than a minute below the highest timestamp that came before
    before = Window.orderBy("file_path", "row").rowsBetween(Window.unboundedPreceding, -1)
    rows = (
        batch.where("bad IS NULL")
        .withColumn("row", F.monotonically_increasing_id())
        .withColumn("highest", F.max("ts").over(before))
        .where("highest IS NULL OR ts >= highest - INTERVAL 1 MINUTE")
        .cache()
    )
    warm = rows.join(F.broadcast(sensors), "sensor").where("celsius > most")
    warm.select("ts", "room", "celsius", "most").write.mode("append").parquet(out + "/too_warm")
    last = Window.partitionBy("sensor").orderBy("ts").rowsBetween(-2, 0)
    smooth = rows.select("ts", "sensor", F.round(F.avg("celsius").over(last), 2).alias("celsius"))
    smooth.write.mode("append").parquet(out + "/smooth")
    rows.unpersist()


query = readings.writeStream.foreachBatch(process).option("checkpointLocation", out + "/checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
for name in ("too_warm", "smooth"):
    print(name)
    spark.read.parquet(f"{out}/{name}").orderBy("ts").show(truncate=False)
spark.stop()
"""


@dataclass(frozen=True)
class Contender:
    """A command, and what to add to its environment."""

    name: str
    command: list[str]
    more: dict[str, str]


CONTENDERS = (
    Contender("headgate --help", [*HEADGATE, "--help"], {}),
    Contender("headgate run --help", [*HEADGATE, "run", "--help"], {}),
    Contender("headgate run", RUN, {}),
    Contender("headgate run, first run", RUN, WITHOUT_ARCHIVE),
    Contender("by hand", [sys.executable, "-c", BY_HAND], {}),
)


@dataclass(frozen=True)
class Measurement:
    """One run: how long it took, and the rows it printed."""

    seconds: float
    rows: tuple[str, ...]


def measure(contender: Contender) -> Measurement:
    """Run a contender in a process of its own."""
    started = time.perf_counter()
    done = subprocess.run(
        contender.command,
        cwd=ROOT,
        env={**os.environ, **contender.more},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{contender.name} failed:\n{done.stderr}")
    return Measurement(seconds, printed_rows(done.stdout))


def printed_rows(text: str) -> tuple[str, ...]:
    """The lines that begin with a timestamp, however a table is drawn around them."""
    found = []
    for line in text.splitlines():
        cells = [cell for cell in re.split(r"[|\s]+", line) if cell]
        if cells and re.fullmatch(r"\d{4}-\d\d-\d\d", cells[0]):
            found.append(" ".join([cells[0], cells[1].split(".")[0], *map(_plain, cells[2:])]))
    return tuple(sorted(found))


def _plain(cell: str) -> str:
    try:
        return f"{float(cell):g}"
    except ValueError:
        return cell


def main() -> None:
    """Run all in turn, and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    arguments = parser.parse_args()
    java, spark_home = find_java(os.environ), jvm.pyspark_folder()
    assert spark_home is not None
    made = archive.make(java, jvm.class_path(spark_home))
    print(f"Java {java.version}; archive of classes: {made or 'cannot be made here'}\n")
    runs: dict[str, list[Measurement]] = {contender.name: [] for contender in CONTENDERS}
    for _ in range(arguments.repeat):
        for contender in CONTENDERS:
            runs[contender.name].append(measure(contender))
    report(runs, arguments.json)


def report(runs: dict[str, list[Measurement]], file: Path | None) -> None:
    """Print the table."""
    wall_s = {name: statistics.median(run.seconds for run in of_it) for name, of_it in runs.items()}
    print(f"{'command':24s} {'median (s)':>10s} {'least (s)':>10s} {'most (s)':>10s} {'of by hand':>10s}")
    for name, of_it in runs.items():
        spread = [run.seconds for run in of_it]
        ratio = f"{wall_s[name] / wall_s['by hand']:10.2f}" if any(run.rows for run in of_it) else ""
        print(f"{name:24s} {wall_s[name]:10.2f} {min(spread):10.2f} {max(spread):10.2f} {ratio}")
    rows = {run.rows for of_it in runs.values() for run in of_it if run.rows}
    print(f"\nsame rows: {len(rows) == 1} ({len(next(iter(rows)))} rows)")
    if file is not None:
        seconds = {name: [run.seconds for run in of_it] for name, of_it in runs.items()}
        ratio = wall_s["headgate run"] / wall_s["by hand"]
        file.write_text(json.dumps({"seconds": seconds, "median": wall_s, "ratio": ratio}))


if __name__ == "__main__":
    main()
