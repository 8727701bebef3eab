"""Placed functions in processes: slots are parallel work, and no process outlives its run."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.eddies.test_cluster import calls_of, most_at_a_time
from tests.spark.eddies.test_function_process import is_running

from headgate import Session
from headgate.errors import UserCodeError

pytestmark = pytest.mark.spark

TIMEOUT_S = 200
ROWS = 200
CALL_S = 0.01
PLACED = """
import os, time

def crunch(folder: str, v: int) -> int:
    # without a pause
    begin_s, used_s = time.time(), time.thread_time()
    while time.thread_time() - used_s < {call_s}:
        pass
    with open(f"{{folder}}/calls.txt", "a") as file:
        file.write(f"cpu {{begin_s}} {{time.time()}} {{os.getpid()}} {{os.getppid()}}\\n")
    return v * v % 7
"""


def stream_of(folder: Path, rows: int) -> str:
    pq.write_table(pa.table({"ts": range(rows), "v": range(rows)}), folder / "0.parquet")
    return f"CREATE STREAM s (ts BIGINT, v BIGINT) FROM parquet OPTIONS (path '{folder}', timestamp 'ts');"


@pytest.mark.parametrize("slots", [1, 2])
def test_as_many_calls_as_slots_run_in_processes_at_a_time(
    spark: SparkSession, tmp_path: Path, slots: int
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "placed.py").write_text(PLACED.format(call_s=CALL_S))
    session = Session(spark).execute(f"""
        CREATE FUNCTION crunch AS '{tmp_path}/placed.py:crunch' RETURNS INT IN PROCESSES;
        CREATE POOL cpu SLOTS {slots}; PLACE crunch ON cpu;
        {stream_of(tmp_path / "in", ROWS)}
        CREATE QUERY q AS SELECT v FROM s WHERE crunch('{tmp_path}', v) >= 2;""")
    run = session.start(until_done=True)
    assert run.wait(TIMEOUT_S)
    rows = Counter(row.v for row in run.results("q").collect())
    assert rows == Counter(v for v in range(ROWS) if v * v % 7 >= 2)
    calls = calls_of(tmp_path)
    assert len(calls) == ROWS
    assert most_at_a_time(calls, "cpu") == slots
    # two at a time are two processes, whose interpreters do not wait for each other
    processes = {call[3] for call in calls}
    assert {most_at_a_time([c for c in calls if c[3] == own], "cpu") for own in processes} == {1}
    assert len(processes) >= slots


def test_a_function_that_ends_its_process_ends_the_run_in_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = Session(spark).function("leaves", lambda v: os._exit(v), "boolean", in_processes=True)
    session.execute(f"""
        CREATE POOL one SLOTS 1; PLACE leaves ON one;
        {stream_of(tmp_path, 8)}
        CREATE QUERY q AS SELECT v FROM s WHERE v = 7 AND leaves(v);""")
    with pytest.raises(UserCodeError, match=r"^placed function leaves ended its process: exit code 7$"):
        session.start(until_done=True).wait(TIMEOUT_S)


def test_a_function_that_hangs_ends_when_the_run_is_stopped(
    spark: SparkSession, tmp_path: Path, eventually: Callable[[Callable[[], bool], float], None]
) -> None:
    (tmp_path / "in").mkdir()
    noted = tmp_path / "pid"

    def hangs(v: int) -> bool:
        (tmp_path / "new").write_text(str(os.getpid()))
        (tmp_path / "new").rename(noted)
        while True:
            time.thread_time()

    session = Session(spark).function("hangs", hangs, "boolean", in_processes=True)
    session.execute(f"""
        CREATE POOL one SLOTS 1; PLACE hangs ON one;
        {stream_of(tmp_path / "in", 1)}
        CREATE QUERY q AS SELECT v FROM s WHERE hangs(v);""")
    run = session.start()
    eventually(noted.exists, TIMEOUT_S)
    process = int(noted.read_text())
    run.stop()
    eventually(lambda: not is_running(process), TIMEOUT_S)
