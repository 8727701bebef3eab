"""A cluster: a standalone master with two workers, with and without a disk that all share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest
from tests.spark.processes import free_ports, java, started

pytestmark = [pytest.mark.spark, pytest.mark.long]

Eventually = Callable[[Callable[[], bool], float], None]
TIMEOUT_S = 900.0
SCRIPT = """
CREATE STREAM s (ts BIGINT, n INT) FROM csv '{folder}/in' OPTIONS (timestamp 'ts');
CREATE QUERY all_rows AS SELECT n FROM s INTO parquet '{folder}/out';
CREATE QUERY counted AS SELECT n % 3 AS k, count(*) AS c FROM s [TUMBLE 10 SECONDS] GROUP BY n % 3
  INTO parquet '{folder}/counted';
"""


@contextmanager
def cluster(folder: Path, eventually: Eventually, apart: Path | None = None) -> Iterator[str]:
    """The address of a master with two workers; one has a disk of its own in place of ``apart``."""
    [port], log = free_ports(1), folder / "cluster.log"
    name = "org.apache.spark.deploy"
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        ports = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(started(java(f"{name}.master.Master", *ports), log))
        for number in range(2):
            own = ("--host", "127.0.0.1", "-c", "1", "-m", "1g", "-d", f"{folder}/work{number}")
            command = java(f"{name}.worker.Worker", *own, "--webui-port", "0", master)
            if apart is not None and number:
                mounted = f'mount -t tmpfs none {apart} && exec "$@"'
                command = ["unshare", "--mount", "sh", "-c", mounted, "sh", *command]
            stack.enter_context(started(command, log))
        eventually(lambda: log.read_text().count("Registering worker") == 2, TIMEOUT_S)
        yield master


def run(folder: Path, master: str) -> subprocess.CompletedProcess[str]:
    (folder / "q.sql").write_text(SCRIPT.format(folder=folder))
    command = [sys.executable, "-m", "headgate", "run", str(folder / "q.sql"), "--until-done"]
    settings = ("--conf", "spark.executor.memory=512m", "--conf", "spark.cores.max=2")
    return subprocess.run(
        [*command, "--master", master, *settings, "--checkpoint", str(folder / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
    )


def write_input(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(4):
        rows = range(file * 50, file * 50 + 50)
        (folder / "in" / f"{file}.csv").write_text("".join(f"{number},{number}\n" for number in rows))


def test_two_workers_that_share_a_disk_give_exact_results(tmp_path: Path, eventually: Eventually) -> None:
    write_input(tmp_path)
    with cluster(tmp_path, eventually) as master:
        done = run(tmp_path, master)
    assert done.returncode == 0, done.stderr[-2000:]
    numbers = duckdb.sql(f"SELECT n FROM read_parquet('{tmp_path}/out/part-*')").fetchall()
    assert sorted(n for (n,) in numbers) == list(range(200))
    [(total,)] = duckdb.sql(f"SELECT sum(c) FROM read_parquet('{tmp_path}/counted/part-*')").fetchall()
    assert total == 200


def test_a_disk_that_a_worker_does_not_share_is_refused(tmp_path: Path, eventually: Eventually) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here: unshare --mount fails")
    data = tmp_path / "data"
    data.mkdir()
    write_input(data)
    with cluster(tmp_path, eventually, apart=data) as master:
        done = run(data, master)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "choose a folder that all machines share" in done.stderr.replace("\n", " ")
    assert not (data / "out").exists() or not list((data / "out").glob("part-*"))
