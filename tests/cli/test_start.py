"""Help comes at once: nothing heavy is imported before a command is called."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from headgate.cli import commands
from headgate.cli.app import app
from headgate.queueing.advice import DEFAULT_PERCENTILE

HEAVY = ("matplotlib", "numba", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "scipy", "sqlglot")

PRINT_WHAT_IS_IMPORTED = """
import sys
from headgate.cli.app import main
sys.argv[1:] = {arguments!r}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("imported:", *sorted({{name.partition(".")[0] for name in sys.modules}}), sep="\\n")
"""


def imported_by(*arguments: str) -> set[str]:
    """Top-level names of all that a process has imported once the command is through."""
    code = PRINT_WHAT_IS_IMPORTED.format(arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.partition("imported:\n")[2].splitlines())


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], *([command.name, "--help"] for command in app.registered_commands)],
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    imported = imported_by(*arguments)
    assert "headgate" in imported
    assert imported.isdisjoint(HEAVY)


def test_what_help_states_without_an_import_is_what_there_is() -> None:
    for name in commands._STUDIES:
        assert callable(import_module(f"headgate.experiments.{name}").reproduce)
    assert commands.PERCENTILE == DEFAULT_PERCENTILE
