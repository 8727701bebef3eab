"""Help comes at once: nothing heavy is imported before a command is called."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

from tests.cli.support import COMMANDS

from headgate.cli import commands, study_commands
from headgate.queueing.advice import DEFAULT_PERCENTILE

HEAVY = ("matplotlib", "numba", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "scipy", "sqlglot")

PRINT_WHAT_IS_IMPORTED = """
import sys
from headgate.cli.app import main
for arguments in {commands!r}:
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    print("imported:", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def imported_by(argument_lists: list[list[str]]) -> list[set[str]]:
    """Top-level names of all that a process has imported after each of some commands."""
    code = PRINT_WHAT_IS_IMPORTED.format(commands=argument_lists)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [set(names) for kind, *names in filter(None, lines) if kind == "imported:"]


def test_help_imports_nothing_heavy() -> None:
    helped = [["--version"], *([*path.split(), "--help"] for path in COMMANDS)]
    found = imported_by(helped)
    assert len(found) == len(helped)
    for arguments, imported in zip(helped, found, strict=True):
        assert "headgate" in imported and imported.isdisjoint(HEAVY), arguments


def test_what_help_states_without_an_import_is_what_there_is() -> None:
    for name in study_commands._REPRODUCIBLE:
        assert callable(import_module(f"headgate.experiments.{name}").reproduce)
    assert commands.PERCENTILE == DEFAULT_PERCENTILE
