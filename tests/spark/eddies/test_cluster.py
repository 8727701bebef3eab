"""Eddies on two executors: both work, pools keep their slots, and a lost executor changes no result.

An executor makes no more calls in processes at a time than it has processors.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.eddies.cluster_child import ROWS, SLOTS, parent_of
from tests.spark.processes import process_group

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.takes_minutes]

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 600
# the clocks of processes on one machine agree, and a call ends before its slot is released
RESOLUTION_S = 1e-4

Call = tuple[str, float, float, int, int]


def calls_of(folder: Path) -> list[Call]:
    path = folder / "calls.txt"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(pool, float(b), float(e), int(worker), int(daemon)) for pool, b, e, worker, daemon in lines]


def most_at_a_time(calls: list[Call], pool: str) -> int:
    own = [call for call in calls if call[0] == pool]
    changes = sorted([(call[1] + RESOLUTION_S, 1) for call in own] + [(call[2], -1) for call in own])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def test_a_lost_executor_changes_neither_results_nor_slots(
    tmp_path: Path, eventually: Callable[[Callable[[], bool], float], None]
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": range(ROWS), "v": range(ROWS)}), tmp_path / "in" / "0.parquet")
    module = "tests.spark.eddies.cluster_child"
    command = [sys.executable, "-m", module, str(tmp_path), "local-cluster[2,1,1024]"]
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    log = tmp_path / "log.txt"
    with process_group(command, log, environment, ROOT) as process:
        # two executors with a processor each have no use for more slots of computing pools
        eventually(
            lambda: process.poll() is not None or most_at_a_time(calls_of(tmp_path), "cores") == 2,
            TIMEOUT_S,
        )
        # the JVM that has started a daemon of Python workers
        killed = parent_of(calls_of(tmp_path)[-1][4])
        assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{killed}/cmdline").read_text()
        killed_s = time.time()
        os.kill(killed, signal.SIGKILL)
        assert process.wait(TIMEOUT_S) == 0, log.read_text()[-2000:]
    calls = calls_of(tmp_path)
    assert any(call[1] > killed_s for call in calls), "the executor was killed after the last call"
    assert {pool: most_at_a_time(calls, pool) for pool in SLOTS} == SLOTS | {"cores": 2}
    for daemon in {call[4] for call in calls}:
        assert most_at_a_time([call for call in calls if call[4] == daemon], "cores") == 1
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT v FROM '{tmp_path}/out/*.parquet'").fetchall()
    assert Counter(rows) == Counter((v,) for v in range(ROWS) if v % 2 == 1 and v % 5 < 3 and v % 7 > 0)
