"""The commands of studies: their options and help, and the checks that need no Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from headgate.cli.parameters import DEBUG, JSON, LOCAL, MASTER, SEED_RANGE, argument, flag, value
from headgate.errors import SetupError, known_names
from headgate.formats.outputs import check_folder
from headgate.spark.application.jvm import check_master

# of demonstrations and measurements
_LONGEST_S = 86_400
# each is a module of headgate.experiments with a function `reproduce`
_STUDIES = ("chain", "segments", "findings", "eddies", "optimizer", "queueing")
_ALL = "all"
_BURSTS = ("one", "eight", "both")
_BENCHES = ("burst", "eddies", "overload", "predict", "percentiles", "nexmark")
_MOST_EXECUTORS = 64
_EXECUTOR_MEGABYTES = 1024
# the study that can go on with a real run, and the one whose runs can be spread
_ON_SPARK = ("queueing", "eddies")
# the study that can measure a join, which takes a quiet machine
_IN_REAL_TIME = "queueing"
# the study of random plans, of which the paper has many
_AT_TWO_SIZES = "eddies"
_OVER_ARRIVALS = ("chain", "segments", "findings", "queueing")


def demo(
    seconds: int = typer.Option(
        15, min=6, max=_LONGEST_S, help="Length of the traffic; a third of it is the flood."
    ),
    out: Path = typer.Option(Path("demo-out"), metavar="DIR", help="Folder for the plot."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run the same flood three times on Spark, and plot memory and latency.

    First come first served; by the strategy that Headgate predicts to need the least memory; and with load
    shedding, under a latency bound. The flood brings about twice as much as this machine can process.
    """
    check_folder("--out", out)
    from headgate.spark.application import jvm

    jvm.start_early("local[*]")
    from headgate.cli.studies import demonstrate

    demonstrate(seconds, out / "demo.png", as_json)


def reproduce(
    study: str = argument("STUDY", f"One of {', '.join(_STUDIES)}; or all, on one page."),
    trace: Path | None = value(
        "FILE", "Recorded arrivals, a Parquet or CSV column of times; synthetic otherwise."
    ),
    out: Path = value("DIR", "Folder for the figures.", default=Path("reproduced")),
    on_spark: bool = flag(
        "--spark", "queueing: run the join on Spark too, some minutes; eddies: spread runs over it."
    ),
    measure: bool = flag(
        "--measure", "queueing: run a join in real time too, some minutes of a quiet machine."
    ),
    is_full: bool = flag("--full", "eddies: with as many plans and tuples as the paper's, some hours."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Compute every worked example, table and figure of a paper, draw it, and compare.

    Claims that are known not to hold here are shown as such, with the reason. The exit code is 1 if a check
    comes out otherwise than it is known to.
    """
    _check_name(study, (*_STUDIES, _ALL))
    if on_spark and study not in _ON_SPARK:
        raise SetupError(f"--spark goes with {' and '.join(_ON_SPARK)}, not with {study}")
    if measure and study not in (_IN_REAL_TIME, _ALL):
        raise SetupError(f"--measure goes with {_IN_REAL_TIME}, not with {study}")
    if is_full and study != _AT_TWO_SIZES:
        raise SetupError(f"--full goes with {_AT_TWO_SIZES}, not with {study}")
    if trace is not None and not trace.is_file():
        raise SetupError(f"--trace: there is no file {trace}")
    check_folder("--out", out if study == _ALL else out / study)
    if trace is None and study in (*_OVER_ARRIVALS, _ALL):
        print("no --trace given: arrivals are synthetic", file=sys.stderr)
    if study in (_IN_REAL_TIME, _ALL) and not measure:
        print("no --measure given: joins are simulated only", file=sys.stderr)
    from headgate.cli.studies import reproduced, show, show_all

    if study == _ALL:
        done = [
            reproduced(
                name,
                trace,
                out / name,
                on_spark=False,
                in_real_time=measure and name == _IN_REAL_TIME,
                is_full=False,
            )
            for name in _STUDIES
        ]
        return show_all(done, out / "index.html", as_json)
    show(reproduced(study, trace, out / study, on_spark, measure, is_full), as_json)


def bench(
    study: str = argument("STUDY", f"One of {', '.join(_BENCHES)}."),
    out: Path = value("DIR", "Folder for the figures.", default=Path("bench-out")),
    seed: int = typer.Option(7, help="Seed of the traffic of burst and the events of nexmark.", **SEED_RANGE),
    seconds: float = typer.Option(60.0, min=10.0, max=_LONGEST_S, help="Length of a run of eddies."),
    policy: list[str] = value(
        "NAME", "A policy of eddies, or all; again for others. [default: optimal, wscq, sc, t]", default=[]
    ),
    executors: int | None = typer.Option(
        None, min=1, max=_MOST_EXECUTORS, help="Of eddies: executors, processes of this machine."
    ),
    cpu_bound: bool = flag(
        "--cpu-bound", "Of eddies: predicates that compute, in processes and in threads; under sc."
    ),
    queries: str = value("one|eight|both", "Of burst: queries that share it.", default="both"),
    events: int = typer.Option(1_000_000, min=1_000, max=10**10, help="Events of nexmark."),
    query: list[str] = value("NAME", "A query of nexmark; again for others. [default: all]", default=[]),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Measure on Spark what is claimed or predicted.

    burst: one burst under several strategies, of one query beside what the simulator predicts, and of eight
    queries. predict: what a profile
    predicts of four queries, beside runs at several loads. percentiles: p50, p90 and p99 that it predicts of
    their latency, beside those of all tuples, half an hour. eddies: three placed predicates under several
    routing policies. overload: a join of three streams at three times what the machine can do. nexmark: the
    queries of the benchmark, beside DuckDB's answers and queries written by hand. The exit code is 1 if a
    check fails.

    Example: headgate bench nexmark --events 200000 --query q5 --query q8
    """
    _check_name(study, _BENCHES)
    check_master(master)
    check_folder("--out", out / study)
    if queries not in _BURSTS:
        raise SetupError(f"--queries is one of {', '.join(_BURSTS)}, not {queries}")
    _check_eddies(study, policy, executors, cpu_bound, master)
    from headgate.cli.studies import measured, measured_bursts, measured_eddies, measured_nexmark, show

    if study == "nexmark":
        show(measured_nexmark(out / study, events, query, seed, master), as_json)
    elif study == "burst":
        show(measured_bursts(out / study, seed, queries, master), as_json)
    elif study == "eddies":
        if executors is not None:
            master = f"local-cluster[{executors},1,{_EXECUTOR_MEGABYTES}]"
        show(measured_eddies(out / study, seconds, policy, cpu_bound, master), as_json)
    else:
        show(measured(study, out / study, master), as_json)


def _check_eddies(
    study: str, policies: list[str], executors: int | None, cpu_bound: bool, master: str
) -> None:
    if study != "eddies" and (executors is not None or cpu_bound):
        option = "--cpu-bound" if cpu_bound else "--executors"
        raise SetupError(f"{option} goes with eddies, not with {study}")
    if executors is not None and master != LOCAL:
        raise SetupError("--executors and --master exclude each other; keep one of them")
    if cpu_bound and policies:
        raise SetupError("--cpu-bound and --policy exclude each other; keep one of them")


def _check_name(study: str, known: tuple[str, ...]) -> None:
    if study not in known:
        raise SetupError(f"unknown study {study}; known: {known_names(known)}")
