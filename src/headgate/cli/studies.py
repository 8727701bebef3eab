"""Studies behind the claims: computed or measured anew, their checks printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.table import Table

from headgate.experiments.study import Study
from headgate.report.tables import screen


def reproduced(study: str, trace: Path | None, out: Path, on_spark: bool) -> Study:
    """Run a study of a paper: on Spark too if wanted, or with its runs spread over Spark."""
    settings = {}
    if on_spark and study == "eddies":
        from headgate.spark.application.cluster import over_spark

        settings["fan"] = partial(over_spark, "local[*]")
    module = import_module(f"headgate.experiments.{study}")
    done: Study = module.reproduce(trace, out, _print_progress, **settings)
    if on_spark and study == "queueing":
        from headgate.experiments.predict import compare_joins

        with _application() as spark:
            compare_joins(done, spark)
    return done


def measured(study: str, out: Path, seed: int, seconds: float, policies: list[str], master: str) -> Study:
    """Run a study on a Spark application of its own."""
    from headgate.routing import router_named

    for name in policies:
        router_named(name)
    from headgate.experiments.burst_bench import burst_study
    from headgate.experiments.eddy_bench import POLICIES, POOL_TASKS, pools_study
    from headgate.experiments.overload import overload_study
    from headgate.experiments.predict import predict_study

    with _application(master, POOL_TASKS if study == "eddies" else 0) as spark:
        if study == "burst":
            return burst_study(spark, out, seed, _print_progress)
        if study == "eddies":
            return pools_study(spark, out, seconds, policies or POLICIES, _print_progress)
        run = overload_study if study == "overload" else predict_study
        return run(spark, out, _print_progress)


@contextmanager
def _application(master: str = "local[*]", pool_tasks: int = 0) -> Iterator[Any]:
    from headgate.spark.application.cluster import own_session

    spark = own_session(master, pool_tasks)
    try:
        yield spark
    finally:
        spark.stop()


def _print_progress(what: str) -> None:
    print(what, file=sys.stderr)


def show(study: Study, as_json: bool) -> None:
    """Print checks and figures; the exit code is 1 if a check fails."""
    if as_json:
        print(json.dumps(study.to_json(), indent=2))
    else:
        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("", "check", "expected", "got"):
            table.add_column(heading, overflow="fold")
        for check in study.checks:
            table.add_row("ok" if check.ok else "FAILED", check.name, str(check.expected), _shown(check.got))
        console = screen()
        console.print(table)
        holding = sum(check.ok for check in study.checks)
        console.print(f"{holding} of {len(study.checks)} checks hold")
        console.print(f"{len(study.figures)} figures: {study.out}", soft_wrap=True)
    if not study.ok:
        raise typer.Exit(1)


def _shown(got: object) -> str:
    if isinstance(got, dict):
        return ", ".join(f"{name}: {value:g}" for name, value in got.items())
    return str(got)
