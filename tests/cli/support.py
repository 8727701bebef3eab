"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from headgate.cli.app import app

CQL = """\
CREATE STREAM readings (ts BIGINT, sensor STRING, value INT)
  FROM csv OPTIONS (path '{folder}', timestamp 'ts');
CREATE QUERY high AS SELECT sensor, value FROM readings WHERE value > 10;
CREATE QUERY none AS SELECT sensor FROM readings WHERE value > 1000 AND sensor = 'nobody';
"""
ROWS = "1,a,5\n2,b,20\n3,a,30\n1,late,99\nnot,a,row\n4,c,12\n"


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
