"""Results INTO jdbc: a row for each key, every tick once; databases are real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cached_jars import cached_jars

pytestmark = pytest.mark.spark

TIMEOUT_S = 300
SCRIPT = """
CREATE STREAM s (ts BIGINT, k INT, n INT) FROM csv '{folder}/in'
  OPTIONS (timestamp 'ts', maxFilesPerTrigger '1');
CREATE QUERY latest AS SELECT k, n FROM s
  INTO jdbc OPTIONS (url '{url}', {login}dbtable 'latest', key 'k', timestamp 'none');
CREATE QUERY every AS SELECT k, n FROM s WHERE n % 2 = 0
  INTO jdbc OPTIONS (url '{url}', {login}dbtable 'every_row', timestamp 'none');
"""
TABLES = (
    "CREATE TABLE latest (k INT PRIMARY KEY, n INT)",
    "CREATE TABLE every_row (k INT, n INT)",
    # the row of a key that was there before is replaced
    "INSERT INTO latest VALUES (0, -1)",
)
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
POSTGRES = PROGRAMS[-1].parent if PROGRAMS else None


def write_input(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(3):
        rows = range(file * 40, file * 40 + 40)
        (folder / "in" / f"{file}.csv").write_text("".join(f"{n},{n % 7},{n}\n" for n in rows))


def run(folder: Path, url: str, login: str = "") -> None:
    jars = ",".join(map(str, cached_jars("jdbc")))
    (folder / "q.sql").write_text(SCRIPT.format(folder=folder, url=url, login=login))
    command = [sys.executable, "-m", "headgate", "run", str(folder / "q.sql"), "--until-done", "--jars", jars]
    done = subprocess.run(
        [*command, "--checkpoint", str(folder / "checkpoint")],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]


EXPECTED = sorted((k, max(n for n in range(120) if n % 7 == k)) for k in range(7))
EVEN = [n for n in range(120) if n % 2 == 0]


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[tuple[int, Callable[[str], str]]]:
    """The port of a server, and a function that sends it a statement."""
    if POSTGRES is None or shutil.which("psql") is None:
        pytest.skip("PostgreSQL is not installed")
    folder = tmp_path / "pg"
    folder.mkdir()
    as_user: list[str] = []
    if os.getuid() == 0:
        # it refuses to run as root
        for path in (folder, *tmp_path.parents, tmp_path):
            if str(path).startswith("/tmp/"):
                path.chmod(0o755)
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    from tests.kafka.broker import free_ports

    [port] = free_ports(1)
    subprocess.run(
        [*as_user, str(POSTGRES / "initdb"), "-D", f"{folder}/data", "-U", "postgres", "-A", "trust"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    settings = ["-c", f"port={port}", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
    server = subprocess.Popen(
        [*as_user, str(POSTGRES / "postgres"), "-D", f"{folder}/data", *settings],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )

    def execute(statement: str) -> str:
        client = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-At", "-c", statement]
        return subprocess.run(client, check=True, capture_output=True, text=True).stdout

    try:
        yield port, execute
    finally:
        server.terminate()
        server.wait()


def test_postgresql_has_the_last_row_of_every_key_and_each_tick_once(
    postgres: tuple[int, Callable[[str], str]],
    tmp_path: Path,
    eventually: Callable[[Callable[[], bool], float], None],
) -> None:
    port, execute = postgres

    def answers() -> bool:
        try:
            return execute("SELECT 1") == "1\n"
        except subprocess.CalledProcessError:
            return False

    eventually(answers, 60)
    write_input(tmp_path)
    for statement in TABLES:
        execute(statement)
    run(tmp_path, f"jdbc:postgresql://127.0.0.1:{port}/postgres", "user 'postgres', ")
    rows = execute("SELECT k, n FROM latest ORDER BY k").split()
    assert [tuple(map(int, row.split("|"))) for row in rows] == EXPECTED
    assert [int(n) for n in execute("SELECT n FROM every_row ORDER BY n").split()] == EVEN
