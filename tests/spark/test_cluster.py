"""A cluster: a standalone master with two workers, with and without a disk or a network that all share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest
from tests.spark.machines import HERE, Machine, Network, network
from tests.spark.processes import free_ports, java, started

pytestmark = [pytest.mark.spark, pytest.mark.long]

Eventually = Callable[[Callable[[], bool], float], None]
TIMEOUT_S = 900.0
ROWS_PER_FILE = 50
SCRIPT = """
CREATE STREAM s (ts BIGINT, n INT) FROM csv '{folder}/in' OPTIONS (timestamp 'ts', maxFilesPerTrigger '2');
CREATE QUERY all_rows AS SELECT n FROM s INTO parquet '{folder}/out';
CREATE QUERY counted AS SELECT n % 3 AS k, count(*) AS c FROM s [TUMBLE 10 SECONDS] GROUP BY n % 3
  INTO parquet '{folder}/counted';
"""
SETTINGS = {"spark.executor.memory": "512m", "spark.cores.max": "2"}
# an executor that is not heard of for so long is lost
HEARTBEATS = {
    "spark.executor.heartbeatInterval": "3s",
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
}
EXECUTOR = "CoarseGrainedExecutorBackend"


@contextmanager
def cluster(
    folder: Path,
    eventually: Eventually,
    head: Machine = HERE,
    workers: Sequence[Machine] = (HERE, HERE),
) -> Iterator[str]:
    """The address of a master with workers of one processor each."""
    [port], log = free_ports(1), folder / "cluster.log"
    name = "org.apache.spark.deploy"
    master = f"spark://{head.address}:{port}"
    with ExitStack() as stack:
        ports = ("--host", head.address, "--port", str(port), "--webui-port", "0")
        stack.enter_context(started([*head.prefix, *java(f"{name}.master.Master", *ports)], log))
        for number, machine in enumerate(workers):
            own = ("--host", machine.address, "-c", "1", "-m", "1g", "-d", f"{folder}/work{number}")
            command = java(f"{name}.worker.Worker", *own, "--webui-port", "0", master)
            stack.enter_context(started([*machine.prefix, *command], log))
        eventually(lambda: log.read_text().count("Registering worker") == len(workers), TIMEOUT_S)
        yield master


def command_of(folder: Path, master: str, head: Machine = HERE, **settings: str) -> list[str]:
    """A command that runs the script on a machine to the end of its input."""
    (folder / "q.sql").write_text(SCRIPT.format(folder=folder))
    command = [sys.executable, "-m", "headgate", "run", str(folder / "q.sql"), "--until-done"]
    given = [f"--conf={key}={value}" for key, value in (SETTINGS | settings).items()]
    return [*head.prefix, *command, "--master", master, *given, "--checkpoint", str(folder / "checkpoint")]


def run(folder: Path, master: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command_of(folder, master), capture_output=True, text=True, timeout=2 * TIMEOUT_S)


def write_input(folder: Path, files: int = 4) -> None:
    (folder / "in").mkdir()
    for file in range(files):
        rows = range(file * ROWS_PER_FILE, (file + 1) * ROWS_PER_FILE)
        path = folder / "in" / f"{file}.csv"
        path.write_text("".join(f"{number},{number}\n" for number in rows))
        # Spark takes the oldest files first
        os.utime(path, (1.7e9 + file, 1.7e9 + file))


def assert_exact(folder: Path, files: int = 4) -> None:
    """The results of all input, each once."""
    numbers = range(files * ROWS_PER_FILE)
    found = duckdb.sql(f"SELECT n FROM read_parquet('{folder}/out/part-*')").fetchall()
    assert sorted(n for (n,) in found) == list(numbers)
    counts = Counter((n // 10, n % 3) for n in numbers)
    found = duckdb.sql(f"SELECT k, c FROM read_parquet('{folder}/counted/part-*')").fetchall()
    assert Counter(found) == Counter((k, count) for (_, k), count in counts.items())


def test_two_workers_that_share_a_disk_give_exact_results(tmp_path: Path, eventually: Eventually) -> None:
    write_input(tmp_path)
    with cluster(tmp_path, eventually) as master:
        done = run(tmp_path, master)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_exact(tmp_path)


def test_a_disk_that_a_worker_does_not_share_is_refused(tmp_path: Path, eventually: Eventually) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here: unshare --mount fails")
    data = tmp_path / "data"
    data.mkdir()
    write_input(data)
    mounted = f'mount -t tmpfs none {data} && exec "$@"'
    apart = Machine(prefix=("unshare", "--mount", "sh", "-c", mounted, "sh"))
    with cluster(tmp_path, eventually, workers=(HERE, apart)) as master:
        done = run(data, master)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "choose a folder that all machines share" in done.stderr.replace("\n", " ")
    assert not (data / "out").exists() or not list((data / "out").glob("part-*"))


def kill_executor(lan: Network, eventually: Eventually) -> None:
    """Kill the executor of a worker, and wait until the worker has started another one."""
    [killed] = lan.kill(2, EXECUTOR)
    eventually(lambda: bool(set(lan.processes(2, EXECUTOR)) - {killed}), TIMEOUT_S)


def unplug_worker(lan: Network, eventually: Eventually) -> None:
    """Cut a worker off: it has not ended, and may still write to the disk that all share."""
    lan.unplug(2)


@pytest.mark.parametrize("lose", [kill_executor, unplug_worker])
def test_workers_on_machines_of_their_own_give_exact_results_though_an_executor_is_lost(
    tmp_path: Path, eventually: Eventually, lose: Callable[[Network, Eventually], None]
) -> None:
    files = 30
    write_input(tmp_path, files)
    log, manifests = tmp_path / "run.log", tmp_path / "checkpoint" / "manifests"
    with network(3) as lan:
        head, *workers = lan.machines
        with (
            cluster(tmp_path, eventually, head, workers) as master,
            started(command_of(tmp_path, master, head, **HEARTBEATS), log) as process,
        ):
            eventually(lambda: process.poll() is not None or any(manifests.glob("*.json")), TIMEOUT_S)
            assert [len(lan.processes(place, EXECUTOR)) for place in (1, 2)] == [1, 1], log.read_text()
            lose(lan, eventually)
            assert process.poll() is None, "the executor was lost after the last tick"
            assert process.wait(2 * TIMEOUT_S) == 0, log.read_text()[-2000:]
    assert_exact(tmp_path, files)
