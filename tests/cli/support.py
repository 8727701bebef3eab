"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from headgate.cli.app import app

CQL = """\
CREATE STREAM readings (ts BIGINT, sensor STRING, value INT)
  FROM csv OPTIONS (path '{folder}', timestamp 'ts');
CREATE QUERY high AS SELECT sensor, value FROM readings WHERE value > 10;
CREATE QUERY none AS SELECT sensor FROM readings WHERE value > 1000 AND sensor = 'nobody';
"""
ROWS = "1,a,5\n2,b,20\n3,a,30\n1,late,99\nnot,a,row\n4,c,12\n"


def is_group(command: Any) -> bool:
    return hasattr(command, "commands")


def _below(path: str, command: Any) -> dict[str, Any]:
    found = {path: command}
    for name, part in getattr(command, "commands", {}).items():
        found |= _below(f"{path} {name}".strip(), part)
    return found


# what is written behind ``headgate`` -> the command or group of commands
COMMANDS = _below("", typer.main.get_command(app))


def invoke(*arguments: object) -> Any:
    """Run ``headgate`` in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def script(folder: Path, text: str = CQL, rows: str = ROWS) -> Path:
    """A CQL file beside a folder with one file of readings."""
    data = folder / "readings"
    data.mkdir(exist_ok=True)
    (data / "1.csv").write_text(rows)
    path = folder / "script.sql"
    path.write_text(text.replace("{folder}", str(data)))
    return path


def headings_without_unit(printed: str) -> set[str]:
    """Headings of all tables that a command has printed, but for those that end in a unit."""
    found = set()
    lines = printed.splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.strip().strip("─"):
            # headings are right above the rule; columns are two blanks apart or more
            first = number
            while lines[first - 1].strip():
                first -= 1
            found |= {heading for heading in columns_of(lines[first:number]) if not heading.endswith(")")}
    return found


def columns_of(lines: list[str]) -> list[str]:
    """The texts of columns whose headings are wrapped over several lines."""
    width = max(map(len, lines))
    padded = [line.ljust(width) for line in lines]
    blank = [all(line[place] == " " for line in padded) for place in range(width)] + [True, True]
    texts, begin = [], None
    for place in range(width + 1):
        is_gap = blank[place] and blank[place + 1]
        if begin is None and not blank[place]:
            begin = place
        elif begin is not None and is_gap:
            texts.append(" ".join(" ".join(line[begin:place] for line in padded).split()))
            begin = None
    return texts
