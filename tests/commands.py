"""Commands, one after another, in a process of its own, whose JVM has the options that users' JVMs have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# the JVM of the tests has others: see tests/conftest.py
_OPTIONS_OF_TESTS = "HEADGATE_JAVA_OPTIONS"


@dataclass(frozen=True)
class Printed:
    """The outcome of a command."""

    exit_code: int
    stdout: str
    stderr: str


class Commands:
    """Passes commands to the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, arguments: Sequence[str]) -> Printed:
        """Run ``headgate`` with some arguments in a folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), *arguments]) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        assert reply, f"the process ended during headgate {' '.join(arguments)}"
        return Printed(**json.loads(reply))


@contextmanager
def commands() -> Iterator[Commands]:
    """The process; it ends after the commands."""
    environ = {key: value for key, value in os.environ.items() if key != _OPTIONS_OF_TESTS}
    environ |= {"COLUMNS": "200", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "tests.commands"]
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Commands(process)


def main() -> None:
    """Run what comes on standard input until its end."""
    from typer.testing import CliRunner

    from headgate.cli.app import app

    # the JVM may print too: replies go where nothing else does
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        folder, *arguments = json.loads(line)
        os.chdir(folder)
        result = CliRunner().invoke(app, arguments)
        printed = {"exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}
        replies.write(json.dumps(printed) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
