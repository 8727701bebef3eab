"""Checkpoint, input and results on HDFS and S3: runs that are killed give every result once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from tests.spark.processes import process_group
from tests.spark.stores import Eventually, Store, hdfs, s3

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.takes_minutes]

TIMEOUT_S = 900.0
FILES, ROWS_A_FILE = 10, 40
SCRIPT = """
CREATE STREAM s (ts BIGINT, n INT) FROM csv '{address}/in' OPTIONS (timestamp 'ts', maxFilesPerTrigger '1');
CREATE QUERY all_rows AS SELECT n FROM s INTO parquet '{address}/out/all_rows';
CREATE QUERY counted AS SELECT n % 3 AS k, count(*) AS c FROM s [TUMBLE 10 SECONDS] GROUP BY n % 3
  INTO parquet '{address}/out/counted';
CREATE QUERY totals AS SELECT n % 3 AS k, count(*) AS c FROM s GROUP BY n % 3
  INTO parquet '{address}/out/totals' OPTIONS (mode 'latest', timestamp 'none');
"""
STORES = {"hdfs": hdfs, "s3": s3}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, eventually: Eventually) -> Iterator[Store]:
    with STORES[request.param](tmp_path, eventually) as found:
        yield found


def command(store: Store, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate", *arguments, *store.options]


def run_command(store: Store, folder: Path, *more: str) -> list[str]:
    (folder / "q.sql").write_text(SCRIPT.format(address=store.address))
    given = ("--master", "local[2]", "--checkpoint", f"{store.address}/checkpoint", *more)
    return command(store, "run", str(folder / "q.sql"), *given)


@contextmanager
def killed_at_the_end(store: Store, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that the end of the block kills."""
    with process_group(run_command(store, folder), folder / "run.log") as process:
        yield process


def finished(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)


def write_input(store: Store, files: range) -> None:
    for file in files:
        rows = range(file * ROWS_A_FILE, (file + 1) * ROWS_A_FILE)
        store.write(f"in/{file:02d}.csv", "".join(f"{n},{n}\n" for n in rows).encode())


def results(store: Store, folder: Path, query: str) -> Counter[tuple[int, ...]]:
    """What readers of the results find: no hidden files or folders."""
    local = folder / "read" / query
    local.mkdir(parents=True)
    for name in store.names(f"out/{query}"):
        if not any(part.startswith(("_", ".")) for part in name.split("/")):
            (local / name.rpartition("/")[2]).write_bytes(store.read(name))
    columns = "n" if query == "all_rows" else "k, c"
    return Counter(duckdb.sql(f"SELECT {columns} FROM read_parquet('{local}/*.parquet')").fetchall())


def expected_counts() -> Counter[tuple[int, ...]]:
    windows = range(0, FILES * ROWS_A_FILE, 10)
    groups = (Counter(n % 3 for n in range(start, start + 10)) for start in windows)
    return Counter(item for group in groups for item in group.items())


def new_one(store: Store, folder: str) -> Callable[[], bool]:
    """A condition: there is a file below a folder that is not there now."""
    seen = set(store.names(folder))
    return lambda: bool(set(store.names(folder)) - seen)


def test_runs_that_are_killed_give_every_result_once(
    store: Store, tmp_path: Path, eventually: Eventually
) -> None:
    def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        eventually(lambda: process.poll() is not None or condition(), TIMEOUT_S)
        assert process.poll() is None, (tmp_path / "run.log").read_text()[-3000:]

    write_input(store, range(FILES // 2))
    with killed_at_the_end(store, tmp_path) as process:
        wait_for(lambda: len(store.names("checkpoint/manifests")) >= 2, process)
        # the next tick has its input, and executes
        wait_for(new_one(store, "checkpoint/spark/offsets"), process)

    with killed_at_the_end(store, tmp_path) as process:
        wait_for(new_one(store, "checkpoint/manifests"), process)
        second = finished(run_command(store, tmp_path, "--until-done"))
        assert second.returncode == 2, second.stderr[-2000:]
        refusal = f"checkpoint {store.address}/checkpoint is in use by process {process.pid} on this host"
        assert refusal in second.stderr.replace("\n", " ")
        # results show, and the tick may be committed or not
        shown = new_one(store, "out/all_rows")
        write_input(store, range(FILES // 2, FILES))
        wait_for(shown, process)

    last = finished(run_command(store, tmp_path, "--until-done"))
    assert last.returncode == 0, last.stderr[-2000:]
    assert results(store, tmp_path, "all_rows") == Counter((n,) for n in range(FILES * ROWS_A_FILE))
    assert results(store, tmp_path, "counted") == expected_counts()
    totals = Counter(n % 3 for n in range(FILES * ROWS_A_FILE))
    assert results(store, tmp_path, "totals") == Counter(totals.items())

    verified = finished(command(store, "checkpoint", "verify", f"{store.address}/checkpoint"))
    assert verified.returncode == 0, verified.stdout + verified.stderr[-2000:]
