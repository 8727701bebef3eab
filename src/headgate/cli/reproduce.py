"""``headgate reproduce``: what a paper shows, computed anew and compared."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from headgate.cli.options import DEBUG, JSON
from headgate.cli.studies import check_study, progress, show_study
from headgate.errors import SetupError
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
    check_study(study, STUDIES)
    if trace is not None and not trace.is_file():
        raise SetupError(f"--trace: there is no file {trace}")
    if trace is None:
        print("no --trace given: arrivals are synthetic", file=sys.stderr)
    done = STUDIES[study](trace, out / study, progress)
    show_study(done, as_json)
