"""Eddies on two executors: both work, pools keep their slots, and a lost executor changes no result."""

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
from tests.spark.eddies.cluster_child import ROWS, SLOTS
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


def executor_of(daemon: int) -> int:
    """The JVM that has started a daemon of Python workers."""
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


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
        eventually(
            lambda: process.poll() is not None or len({call[4] for call in calls_of(tmp_path)}) == 2,
            TIMEOUT_S,
        )
        killed = executor_of(calls_of(tmp_path)[-1][4])
        assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{killed}/cmdline").read_text()
        killed_s = time.time()
        os.kill(killed, signal.SIGKILL)
        assert process.wait(TIMEOUT_S) == 0, log.read_text()[-2000:]
    calls = calls_of(tmp_path)
    assert any(call[1] > killed_s for call in calls), "the executor was killed after the last call"
    assert {pool: most_at_a_time(calls, pool) for pool in SLOTS} == SLOTS
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT v FROM '{tmp_path}/out/*.parquet'").fetchall()
    assert Counter(rows) == Counter((v,) for v in range(ROWS) if v % 2 == 1 and v % 5 < 3)
