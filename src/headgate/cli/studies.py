"""The work of ``reproduce``, ``bench`` and ``demo``: studies behind the claims, computed or measured anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.table import Table

from headgate.cli.progress import Progress
from headgate.cli.signals import Interrupted, interruptible
from headgate.errors import SetupError
from headgate.experiments.page import write_page
from headgate.experiments.study import Study, records_of, shown
from headgate.formats.plain_json import json_text
from headgate.report.plots import plot_runs
from headgate.report.screen import screen


def reproduced(
    study: str,
    out: Path,
    trace: Path | None = None,
    on_spark: bool = False,
    in_real_time: bool = False,
    is_full: bool = False,
) -> Study:
    """Run a study of a paper: on Spark too if wanted, with its runs spread over Spark, or in real time.

    ``is_full``: at the size that the paper has.
    """
    settings: dict[str, Any] = {}
    if in_real_time:
        settings["measured"] = True
    if is_full:
        settings["is_full"] = True
    if on_spark and study == "eddies":
        from headgate.spark.application.cluster import over_spark

        settings["fan"] = partial(over_spark, "local[*]")
    module = import_module(f"headgate.experiments.{study}")
    with Progress(f"computing {study}") as progress:
        done: Study = module.reproduce(trace, out, progress.announce, **settings)
        if on_spark and study == "queueing":
            from headgate.experiments.predict import compare_joins

            compare_joins(done, _application())
    return done


def measured_bursts(out: Path, seed: int, queries: str, master: str) -> Study:
    """Run the burst of one query, of eight, or both, on a Spark application of its own."""
    from headgate.experiments.burst import BurstBench, predict_burst
    from headgate.experiments.shared_burst import REPETITIONS, compare, repeat

    with Progress("starting Spark") as progress:
        spark = _application(master)
        study = Study("burst", out, progress.announce)
        if queries != "eight":
            predict_burst(study, BurstBench(spark, "burst.sql", seed, progress.announce))
        if queries != "one":
            bench = BurstBench(spark, "shared_burst.sql", seed, progress.announce)
            bench.calibrate()
            compare(study, [repeat(bench, number) for number in range(REPETITIONS)])
        return study


def measured_eddies(out: Path, seconds: float, policies: list[str], cpu_bound: bool, master: str) -> Study:
    """Run the study of eddies under some policies, or with CPU-bound predicates, on a Spark of its own."""
    from headgate.routing import router_named, router_names

    if policies == ["all"]:
        policies = list(router_names())
    for name in policies:
        router_named(name)
    from headgate.experiments.eddy_bench import POLICIES, POOL_TASKS, cpu_bound_study, pools_study

    with Progress("starting Spark") as progress:
        spark = _application(master, POOL_TASKS)
        if cpu_bound:
            return cpu_bound_study(spark, out, seconds, progress.announce)
        return pools_study(spark, out, seconds, policies or POLICIES, progress.announce)


def measured(study: str, out: Path, master: str) -> Study:
    """Run a study on a Spark application of its own."""
    from headgate.experiments.overload import overload_study
    from headgate.experiments.percentiles import percentiles_study
    from headgate.experiments.predict import predict_study

    with Progress("starting Spark") as progress:
        spark = _application(master)
        studies = {"overload": overload_study, "percentiles": percentiles_study, "predict": predict_study}
        return studies[study](spark, out, progress.announce)


def measured_nexmark(out: Path, events: int, queries: list[str], seed: int, master: str) -> Study:
    """Run queries of NEXMark on a Spark application of its own."""
    from headgate.experiments.nexmark_bench import nexmark_study, query_numbers

    numbers = query_numbers(queries)
    try:
        import_module("duckdb")
    except ImportError:
        message = "answers are compared with those of DuckDB, which is missing"
        raise SetupError(f"{message}; run pip install duckdb") from None
    with Progress("starting Spark") as progress:
        spark = _application(master)
        return nexmark_study(spark, out, events, numbers, seed, progress.announce)


def _application(master: str = "local[*]", pool_tasks: int = 0) -> Any:
    """A Spark application that ends with the process.

    What Spark prints then has no reader. Stopped before, it could print that background work is rejected.
    """
    from headgate.spark.application.cluster import own_session

    return own_session(master, pool_tasks)


def show(study: Study, as_json: bool) -> None:
    """Print checks and figures; the exit code is 1 if a check does not come out as it is known to."""
    if as_json:
        print(json_text(study.to_json()))
    else:
        _print(study)
    if not study.ok:
        raise typer.Exit(1)


def show_all(studies: Sequence[Study], page: Path, as_json: bool) -> None:
    """Write one page of all studies, and print their checks; the exit code is that of ``show``."""
    write_page(studies, page)
    if as_json:
        print(json_text({"studies": [study.to_json() for study in studies], "page": str(page)}))
    else:
        for study in studies:
            screen().rule(study.name)
            _print(study)
        screen().print(f"all tables and figures on one page: {page}", soft_wrap=True)
    if not all(study.ok for study in studies):
        raise typer.Exit(1)


def _print(study: Study) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "check", "expected", "got"):
        table.add_column(heading, overflow="fold")
    for check in study.checks:
        table.add_row(check.verdict, check.name, str(check.expected), shown(check.got))
    console = screen()
    console.print(table)
    holding = sum(check.ok for check in study.checks)
    console.print(f"{holding} of {len(study.checks)} checks hold")
    for check in study.checks:
        if check.disagreement:
            line = f"{check.verdict}: {check.name}: {check.disagreement}"
            console.print(line, markup=False, soft_wrap=True)
    for table in _tables(study):
        console.print(table)
    console.print(f"{len(study.figures)} figures: {study.out}", soft_wrap=True)


def _tables(study: Study) -> Iterator[Table]:
    """Numbers that are reported but not checked, where they make up a table."""
    for title, rows in study.tables.items():
        records, columns = records_of(rows)
        if not records:
            continue
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for heading in ("", *columns):
            table.add_column(heading.replace("_", " "), justify="right" if heading else "left")
        for name, row in records.items():
            table.add_row(name, *("" if row.get(column) is None else str(row[column]) for column in columns))
        yield table


def demonstrate(seconds: int, plot: Path, as_json: bool) -> None:
    """Run one flood three times, plot it, and print memory and latency of each run."""
    from headgate.cli.execution import watch
    from headgate.experiments.flood import LATENCY_BOUND_S, QUERY, Flood
    from headgate.session.handle import Run
    from headgate.spark.application.cluster import own_session

    with Progress("starting Spark") as progress:

        def watch_to_the_end(run: Run) -> None:
            with interruptible() as interrupt:
                watch(run, None, progress, interrupt)
            if interrupt.number is not None:
                raise Interrupted(interrupt.number)

        flood = Flood(own_session("local[*]"), seconds, progress.enter, watch_to_the_end, [progress])
        flood.warm_up()
        choice, predicted = flood.choose()
        # Java gets faster all the time: whatever is compared with fifo runs before it
        shedding, chosen, fifo = flood.run_shedding(), flood.run(choice), flood.run("fifo")
    titles = {"fifo": fifo, f"{choice}, as Headgate chooses": chosen, "with shedding": shedding}
    plot_runs(plot, "One flood, three times (shaded: while it lasts)", titles, flood.flood_s)
    runs = {"fifo": fifo, "chosen": chosen, "shedding": shedding}
    if as_json:
        document = {
            "chosen": {"strategy": choice, "predicted_peak_bytes": round(predicted.peak_bytes)},
            "runs": {name: run.to_json() for name, run in runs.items()},
            "plot": str(plot),
        }
        print(json_text(document))
        return
    peaks = {name: f"up to {run.peak_backlog_bytes / 1e6:.1f} MB" for name, run in runs.items()}
    queries = {name: run.queries[QUERY] for name, run in runs.items()}
    slowest = {
        name: f"the slowest result takes {query.latency_s.max or 0.0:.1f} s"
        for name, query in queries.items()
    }
    is_same = queries["fifo"].rows_out == queries["chosen"].rows_out
    shed = queries["shedding"]
    print(flood.script())
    print(f"First come first served (fifo): {peaks['fifo']} of tuples wait, and {slowest['fifo']}.")
    print(
        f"Under {choice}, which Headgate chooses because it predicts the least memory for it "
        f"({predicted.peak_bytes / 1e6:.1f} MB): {peaks['chosen']} wait, {slowest['chosen']}, "
        + ("and the results are the same." if is_same else "but the results differ.")
    )
    print(
        f"With shedding under a latency bound of {LATENCY_BOUND_S:g} s: {shed.shed:,} of {shed.rows_in:,} "
        f"tuples ({shed.shed / shed.rows_in:.0%}) are dropped, {peaks['shedding']} wait, "
        f"and {slowest['shedding']}."
    )
    print(f"memory and latency over time: {plot}")
