"""A run that is killed at any moment and started again gives every result once.

Its last life is on two executors, each a process of its own: operators of all kinds run there,
in ``make long`` compiled.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.lengths import short_or_long
from tests.oracle.brute_force import SECOND, Results
from tests.spark.child import (
    KEEP,
    SEED,
    child,
    differences,
    inside_of_eddy,
    log_of,
    shed_results,
    streams,
    write_input,
)

from headgate.model.shedding import BITS, DropBox

pytestmark = pytest.mark.spark

KILLS = short_or_long(2, 10)
LIFE_TIMEOUT_S = 300
END_TIMEOUT_S = 300

# what a tick leaves behind, in this order: its input is known, it executes, results show, it has happened;
# and beside the ticks, a job of the eddy writes what it has settled
MOMENTS = {
    "arrive": "checkpoint/spark/offsets/*",
    "execute": "checkpoint/blocks/*/*",
    "stage": "out/*/_staging-*/*/*",
    "publish": "out/*/*.parquet",
    "manifest": "checkpoint/manifests/*.json",
    "commit": "checkpoint/spark/commits/*",
    "job": "checkpoint/eddies/*/*",
}


def lives_until(folder: Path, process: subprocess.Popen[bytes], moment: str, delay_s: float) -> bool:
    """Wait for the moment to come, and a little longer; whether the process still lives then."""
    seen = left_behind(folder, moment)
    end = time.monotonic() + LIFE_TIMEOUT_S
    while not left_behind(folder, moment) - seen:
        assert time.monotonic() < end, f"no {moment} within {LIFE_TIMEOUT_S} s"
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    time.sleep(delay_s)
    return process.poll() is None


def left_behind(folder: Path, moment: str) -> set[Path]:
    """What there is of a moment; nothing if the run removes a folder while it is listed."""
    with suppress(FileNotFoundError):
        return set(folder.glob(MOMENTS[moment]))
    return set()


def last_tick(folder: Path) -> int:
    """The last tick that has happened; -1 if none has."""
    return max((int(path.stem) for path in left_behind(folder, "manifest")), default=-1)


@pytest.mark.takes_minutes
def test_kills_and_a_move_to_two_executors_lose_nothing_and_repeat_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng = Random(11)
    write_input(tmp_path)
    # each moment once, before any comes twice
    moments = rng.sample(list(MOMENTS), len(MOMENTS))
    moments = [*moments, *rng.choices(moments, k=KILLS)][:KILLS]
    inside = []
    for life, moment in enumerate(moments):
        # other turns in every life: a tick that is tried again need not go the same way
        with child(tmp_path, seed=life, wild_ticks=1000) as process:
            lived = lives_until(tmp_path, process, moment, rng.choice((0.0, rng.uniform(0, 0.5))))
        assert lived, f"the run ended before kill {life}: {log_of(tmp_path).read_text()[-2000:]}"
        inside.append(inside_of_eddy(tmp_path))
    # most kills should find tuples on their way through the pools
    assert 2 * sum(rows > 0 for rows in inside) >= KILLS, inside
    ticks_before = last_tick(tmp_path)
    # a session with another master needs another process
    with child(tmp_path, wild_ticks=2, files_a_tick=6, master="local-cluster[2,1,1024]") as process:
        assert process.wait(END_TIMEOUT_S) == 0, log_of(tmp_path).read_text()[-2000:]
    assert last_tick(tmp_path) >= ticks_before + 2, "the executors had hardly anything to do"
    assert not (wrong := differences(tmp_path)), "\n".join(wrong)
    assert shed_results(tmp_path) == kept_tuples(spark)


def kept_tuples(spark: SparkSession) -> Results:
    """Those that the drop box keeps, hashed by Spark and judged by the box."""
    [near, _] = streams()
    tuples = [(t.ts // SECOND, t.row["k"], t.row["v"], t.row["s"]) for t in near.on_time()]
    frame = spark.createDataFrame(tuples, "ts BIGINT, k INT, v INT, s STRING")
    hashes = [h for (h,) in frame.selectExpr(f"xxhash64({SEED}L, ts, k, v, s)").collect()]
    box = DropBox("some", KEEP, SEED)
    return Counter(
        (t[0] * SECOND, *t[1:]) for t, h in zip(tuples, hashes, strict=True) if h % 2**BITS < box.threshold
    )
