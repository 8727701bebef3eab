"""What the commands that run studies share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import typer
from rich import box
from rich.table import Table

from headgate.cli.summary import screen
from headgate.errors import SetupError, known_names
from headgate.experiments.check import Study


def check_study(name: str, known: Iterable[str]) -> None:
    """Refuse a study that there is not."""
    if name not in known:
        raise SetupError(f"unknown study {name}; known: {known_names(tuple(known))}")


def progress(what: str) -> None:
    """Say what is being done, beside the results."""
    print(what, file=sys.stderr)


def show_study(study: Study, as_json: bool) -> None:
    """Print checks and figures; the exit code is 1 if a check fails."""
    if as_json:
        print(json.dumps(study.to_json(), indent=2))
    else:
        _print(study)
    if not study.ok:
        raise typer.Exit(1)


def _print(study: Study) -> None:
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
