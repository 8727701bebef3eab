"""``headgate reproduce``: what a paper shows, computed anew and compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer
from rich import box
from rich.table import Table

from headgate.cli.options import DEBUG, JSON
from headgate.cli.summary import screen
from headgate.errors import SetupError, known_names
from headgate.experiments.check import Study
from headgate.experiments.studies import STUDIES

EXAMPLE = "Example: headgate reproduce chain --out figures --trace arrivals.parquet"


def reproduce(
    study: str = typer.Argument(
        ..., metavar="STUDY", help=f"One of {', '.join(STUDIES)}.", show_default=False
    ),
    trace: Path | None = typer.Option(
        None, metavar="FILE", help="Recorded arrivals, a Parquet or CSV column of times; synthetic otherwise."
    ),
    out: Path = typer.Option(Path("reproduced"), metavar="DIR", help="Folder for the figures."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Compute every worked example, table and figure of a paper, draw it, and compare.

    The exit code is 1 if a check fails.
    """
    del debug
    if study not in STUDIES:
        raise SetupError(f"unknown study {study}; known: {known_names(tuple(STUDIES))}")
    if trace is not None and not trace.is_file():
        raise SetupError(f"--trace: there is no file {trace}")
    if trace is None:
        print("no --trace given: arrivals are synthetic", file=sys.stderr)
    done = STUDIES[study](trace, out / study, lambda what: print(what, file=sys.stderr))
    if as_json:
        print(json.dumps(done.to_json(), indent=2))
    else:
        print_study(done)
    if not done.ok:
        raise typer.Exit(1)


def print_study(study: Study) -> None:
    """Checks as a table, and where the figures are."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "check", "expected", "got"):
        table.add_column(heading, overflow="fold")
    for check in study.checks:
        table.add_row("ok" if check.ok else "FAILED", check.name, str(check.expected), _shown(check.got))
    console = screen()
    console.print(table)
    failed = sum(not check.ok for check in study.checks)
    console.print(f"{len(study.checks) - failed} of {len(study.checks)} checks hold")
    console.print(f"{len(study.figures)} figures: {study.out}", soft_wrap=True)


def _shown(got: object) -> str:
    if isinstance(got, dict):
        return ", ".join(f"{name}: {value:g}" for name, value in got.items())
    return str(got)
