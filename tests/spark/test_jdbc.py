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
from tests.spark.processes import free_ports

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


def command(folder: Path, script: str, port: int) -> list[str]:
    """What runs a script that has access to a database."""
    jars = ",".join(map(str, cached_jars("jdbc")))
    url, login = f"jdbc:postgresql://127.0.0.1:{port}/postgres", "user 'postgres', "
    (folder / "q.sql").write_text(script.format(folder=folder, url=url, login=login))
    run = [sys.executable, "-m", "headgate", "run", str(folder / "q.sql"), "--jars", jars]
    return [*run, "--checkpoint", str(folder / "checkpoint")]


Execute = Callable[[str], str]
Eventually = Callable[[Callable[[], bool], float], None]
EXPECTED = sorted((k, max(n for n in range(120) if n % 7 == k)) for k in range(7))
EVEN = [n for n in range(120) if n % 2 == 0]


@pytest.fixture
def postgres(tmp_path: Path, eventually: Eventually) -> Iterator[tuple[int, Execute]]:
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

    def answers() -> bool:
        try:
            return execute("SELECT 1") == "1\n"
        except subprocess.CalledProcessError:
            return False

    try:
        eventually(answers, 60)
        yield port, execute
    finally:
        server.terminate()
        server.wait()


def test_postgresql_has_the_last_row_of_every_key_and_each_tick_once(
    postgres: tuple[int, Execute], tmp_path: Path
) -> None:
    port, execute = postgres
    write_input(tmp_path)
    for statement in TABLES:
        execute(statement)
    run = [*command(tmp_path, SCRIPT, port), "--until-done"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = execute("SELECT k, n FROM latest ORDER BY k").split()
    assert [tuple(map(int, row.split("|"))) for row in rows] == EXPECTED
    assert [int(n) for n in execute("SELECT n FROM every_row ORDER BY n").split()] == EVEN


NAMED = """
CREATE STREAM s (ts BIGINT, k INT) FROM csv '{folder}/in' OPTIONS (timestamp 'ts');
CREATE RELATION names FROM jdbc
  OPTIONS (url '{url}', {login}dbtable 'names', refresh '100 ms');
CREATE QUERY named AS SELECT s.ts AS at, name FROM s JOIN names ON s.k = names.k
  INTO jdbc OPTIONS (url '{url}', {login}dbtable 'named', timestamp 'none');
"""


def test_a_relation_of_a_database_is_refreshed_while_a_run_goes_on(
    postgres: tuple[int, Execute], tmp_path: Path, eventually: Eventually
) -> None:
    port, execute = postgres
    execute("CREATE TABLE names (k INT, name TEXT)")
    execute("CREATE TABLE named (at BIGINT, name TEXT)")
    execute("INSERT INTO names VALUES (1, 'old')")
    (tmp_path / "in").mkdir()

    def found() -> list[str]:
        # a row that arrives before the relation has been read again has the name of before
        number = len(list((tmp_path / "in").iterdir()))
        draft = tmp_path / f"{number}.csv"
        draft.write_text(f"{number},1\n")
        draft.rename(tmp_path / "in" / draft.name)
        return execute("SELECT name FROM named ORDER BY at").split()

    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command(tmp_path, NAMED, port), stdout=log, stderr=log)
    try:
        eventually(lambda: process.poll() is not None or "old" in found(), TIMEOUT_S)
        execute("UPDATE names SET name = 'new'")
        eventually(lambda: process.poll() is not None or "new" in found(), TIMEOUT_S)
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
    finally:
        process.kill()
        process.wait()
    names = execute("SELECT name FROM named ORDER BY at").split()
    assert names == sorted(names, key=["old", "new"].index)
