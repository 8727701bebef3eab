"""``headgate reproduce``: what a paper shows, computed anew and compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, JSON
from headgate.errors import SetupError

if TYPE_CHECKING:
    from headgate.experiments.check import Study
    from headgate.experiments.eddy_runs import Case, Measured

EXAMPLE = "Example: headgate reproduce chain --out figures --trace arrivals.parquet"


# headgate.experiments.studies has the studies themselves; a list of their names needs no import of them
_STUDIES = ("chain", "segments", "findings", "eddies", "optimizer", "queueing")
# the study that can go on with a real run, and the one whose runs can be spread
_ON_SPARK = ("queueing", "eddies")
_OVER_ARRIVALS = ("chain", "segments", "findings", "queueing")


def reproduce(
    study: str = typer.Argument(
        ..., metavar="STUDY", help=f"One of {', '.join(_STUDIES)}.", show_default=False
    ),
    trace: Path | None = typer.Option(
        None, metavar="FILE", help="Recorded arrivals, a Parquet or CSV column of times; synthetic otherwise."
    ),
    out: Path = typer.Option(Path("reproduced"), metavar="DIR", help="Folder for the figures."),
    on_spark: bool = typer.Option(
        False,
        "--spark",
        help="queueing: run the join on Spark too, some minutes; eddies: spread runs over it.",
    ),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Compute every worked example, table and figure of a paper, draw it, and compare.

    The exit code is 1 if a check fails.
    """
    del debug
    from headgate.cli.studies import check_study, progress, show_study

    check_study(study, _STUDIES)
    if on_spark and study not in _ON_SPARK:
        raise SetupError(f"--spark goes with {' and '.join(_ON_SPARK)}, not with {study}")
    if trace is not None and not trace.is_file():
        raise SetupError(f"--trace: there is no file {trace}")
    if trace is None and study in _OVER_ARRIVALS:
        print("no --trace given: arrivals are synthetic", file=sys.stderr)
    if on_spark and study == "eddies":
        from headgate.experiments.eddies import study_eddies

        done = study_eddies(out / study, progress, fan=_over_spark)
    else:
        from headgate.experiments.studies import STUDIES

        done = STUDIES[study](trace, out / study, progress)
    if on_spark and study == "queueing":
        _go_on_with_spark(done)
    show_study(done, as_json)


def _go_on_with_spark(study: Study) -> None:
    # Spark is slow to import; help and errors come without it
    from headgate.experiments.queueing_spark import on_spark
    from headgate.spark.cluster import own_session

    spark = own_session()
    try:
        on_spark(study, spark)
    finally:
        spark.stop()


def _over_spark(work: Callable[[Case], Measured], cases: Sequence[Case]) -> Iterable[Measured]:
    from headgate.spark.fanout import over_spark

    return over_spark("local[*]", work, cases)
