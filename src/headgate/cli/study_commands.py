"""The commands of studies, one subcommand each: their options and help, and the checks that need no Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from headgate.cli.parameters import (
    BENCH_OUT,
    BENCH_SEED,
    DEBUG,
    JSON,
    LOCAL,
    LONGEST_S,
    MASTER,
    REPRODUCED,
    TRACE,
    flag,
    value,
)
from headgate.errors import SetupError, known_names
from headgate.formats.outputs import check_folder
from headgate.spark.application.jvm import check_master

# each is a module of headgate.experiments with a function `reproduce`
_REPRODUCIBLE = ("chain", "segments", "findings", "eddies", "optimizer", "queueing")
_BURSTS = ("one", "eight", "both")
_MOST_EXECUTORS = 64
_EXECUTOR_MEGABYTES = 1024
_MEASURE = "--measure"


class Studies(TyperGroup):
    """Subcommands of which each is a study; options may precede its name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        studies = [place for place, word in enumerate(args) if word in self.commands]
        if studies and args[0].startswith("-"):
            # the last one: an earlier one may be the value of an option
            args = [args[studies[-1]], *args[: studies[-1]], *args[studies[-1] + 1 :]]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise SetupError(f"unknown study {args[0]}; known: {known_names(self.commands)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            option = getattr(error, "option_name", None)
            owners = [name for name, study in self.commands.items() if option in _options(study)]
            given = getattr(error, "ctx", None)
            if given is None or not owners or given.info_name in owners:
                raise
            *others, last = owners
            known = f"{', '.join(others)} and {last}" if others else last
            raise SetupError(f"{option} goes with {known}, not with {given.info_name}") from None


def _options(study: Any) -> set[str]:
    return {name for parameter in study.params for name in parameter.opts}


def _example(arguments: str) -> str:
    return f"Example: headgate {arguments}"


def demo(
    seconds: int = value(
        "S", "Length of the traffic; a third of it is the flood.", default=15, min=6, max=LONGEST_S
    ),
    out: Path = value("DIR", "Folder for the plot.", default=Path("demo-out")),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run the same flood three times on Spark, and plot memory and latency.

    First come first served; by the strategy that Headgate predicts to need the least memory; and with load
    shedding, under a latency bound. The flood brings about twice as much as this machine can process.
    """
    check_folder("--out", out)
    from headgate.spark.application import jvm

    jvm.start_early(LOCAL)
    from headgate.cli.studies import demonstrate

    demonstrate(seconds, out / "demo.png", as_json)


reproductions = typer.Typer(cls=Studies)


@reproductions.callback(
    invoke_without_command=True, epilog=_example("reproduce chain --out figures --trace arrivals.parquet")
)
def reproduce(ctx: typer.Context) -> None:
    """Compute every worked example, table and figure of a paper, draw it, and compare.

    Claims that are known not to hold here are shown as such, with the reason. The exit code is 1 if a check
    comes out otherwise than it is known to.
    """
    _help_alone(ctx)


@reproductions.command("chain", epilog=_example("reproduce chain --out figures --trace arrivals.parquet"))
def reproduce_chain(
    trace: Path | None = TRACE, out: Path = REPRODUCED, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """Chain scheduling: the worked example, the seven experiments, and charts from measured statistics."""
    _reproduce("chain", out, as_json, trace=_arrivals(trace, out / "chain"))


@reproductions.command("segments", epilog=_example("reproduce segments --out figures"))
def reproduce_segments(
    trace: Path | None = TRACE, out: Path = REPRODUCED, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """Path capacity and segments: the worked example, and 16 queries over self-similar streams."""
    _reproduce("segments", out, as_json, trace=_arrivals(trace, out / "segments"))


@reproductions.command("findings", epilog=_example("reproduce findings --out figures"))
def reproduce_findings(
    trace: Path | None = TRACE, out: Path = REPRODUCED, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """Memory and latency of the strategies of both papers, and which of their claims hold."""
    _reproduce("findings", out, as_json, trace=_arrivals(trace, out / "findings"))


@reproductions.command("eddies", epilog=_example("reproduce eddies --out figures --spark"))
def reproduce_eddies(
    out: Path = REPRODUCED,
    on_spark: bool = flag("--spark", "Spread the runs over Spark."),
    is_full: bool = flag("--full", "With as many plans and tuples as the paper's, some hours."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Distributed eddies: optimal routing, policies, random plans with and without load sharing."""
    _reproduce("eddies", out, as_json, on_spark=on_spark, is_full=is_full)


@reproductions.command("optimizer", epilog=_example("reproduce optimizer --out figures"))
def reproduce_optimizer(out: Path = REPRODUCED, as_json: bool = JSON, debug: bool = DEBUG) -> None:
    """Join order with load shedding: the worked example, and random queries that do not fit."""
    _reproduce("optimizer", out, as_json)


@reproductions.command("queueing", epilog=_example("reproduce queueing --out figures --spark"))
def reproduce_queueing(
    trace: Path | None = TRACE,
    out: Path = REPRODUCED,
    on_spark: bool = flag("--spark", "Run the join on Spark too, some minutes."),
    in_real_time: bool = flag(_MEASURE, "Run a join in real time too, some minutes of a quiet machine."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Queues of relational operators: theory against simulation, and which claims of the paper hold."""
    trace = _arrivals(trace, out / "queueing", in_real_time)
    _reproduce("queueing", out, as_json, trace=trace, on_spark=on_spark, in_real_time=in_real_time)


@reproductions.command("all", epilog=_example("reproduce all --out figures"))
def reproduce_all(
    trace: Path | None = TRACE,
    out: Path = REPRODUCED,
    in_real_time: bool = flag(_MEASURE, "Run the join of queueing in real time too."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """All studies, on one page."""
    trace = _arrivals(trace, out, in_real_time)
    from headgate.cli.studies import reproduced, show_all

    done = [
        reproduced(name, out / name, trace, in_real_time=in_real_time and name == "queueing")
        for name in _REPRODUCIBLE
    ]
    show_all(done, out / "index.html", as_json)


def _arrivals(trace: Path | None, out: Path, in_real_time: bool = True) -> Path | None:
    """The recorded arrivals, which are there if given; once nothing is wrong, states what is left out."""
    if trace is not None and not trace.is_file():
        raise SetupError(f"--trace: there is no file {trace}")
    check_folder("--out", out)
    if trace is None:
        print("no --trace given: arrivals are synthetic", file=sys.stderr)
    if not in_real_time:
        print(f"no {_MEASURE} given: joins are simulated only", file=sys.stderr)
    return trace


def _reproduce(study: str, out: Path, as_json: bool, **settings: Any) -> None:
    check_folder("--out", out / study)
    from headgate.cli.studies import reproduced, show

    show(reproduced(study, out / study, **settings), as_json)


benches = typer.Typer(cls=Studies)


@benches.callback(invoke_without_command=True, epilog=_example("bench burst --out bench-out"))
def bench(ctx: typer.Context) -> None:
    """Measure on Spark what is claimed or predicted; the exit code is 1 if a check fails."""
    _help_alone(ctx)


@benches.command("burst", epilog=_example("bench burst --queries eight --out bench-out"))
def bench_burst(
    out: Path = BENCH_OUT,
    seed: int = BENCH_SEED,
    queries: str = value("one|eight|both", "Queries that share the burst.", default="both"),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """One burst under several strategies: of one query, beside what the simulator predicts, and of eight."""
    if queries not in _BURSTS:
        raise SetupError(f"--queries is one of {', '.join(_BURSTS)}, not {queries}")
    folder = _folder("burst", out, master)
    from headgate.cli.studies import measured_bursts, show

    show(measured_bursts(folder, seed, queries, master), as_json)


@benches.command("eddies", epilog=_example("bench eddies --executors 2 --policy all"))
def bench_eddies(
    out: Path = BENCH_OUT,
    seconds: float = value("S", "Length of a run.", default=60.0, min=10.0, max=LONGEST_S),
    policy: list[str] = value(
        "NAME", "A policy, or all; again for others.", default=[], show_default="optimal, wscq, sc, t"
    ),
    executors: int | None = value(
        "N", "Run on N executors, processes of this machine.", min=1, max=_MOST_EXECUTORS
    ),
    cpu_bound: bool = flag("--cpu-bound", "Predicates that compute, in processes and in threads; under sc."),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Three placed predicates under several routing policies."""
    if executors is not None and master != LOCAL:
        raise SetupError("--executors and --master exclude each other; keep one of them")
    if cpu_bound and policy:
        raise SetupError("--cpu-bound and --policy exclude each other; keep one of them")
    folder = _folder("eddies", out, master)
    if executors is not None:
        master = f"local-cluster[{executors},1,{_EXECUTOR_MEGABYTES}]"
    from headgate.cli.studies import measured_eddies, show

    show(measured_eddies(folder, seconds, policy, cpu_bound, master), as_json)


@benches.command("overload", epilog=_example("bench overload --out bench-out"))
def bench_overload(
    out: Path = BENCH_OUT, master: str = MASTER, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """A join of three streams at three times what the machine can process."""
    _measure("overload", out, master, as_json)


@benches.command("predict", epilog=_example("bench predict --out bench-out"))
def bench_predict(
    out: Path = BENCH_OUT, master: str = MASTER, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """What a profile predicts of four queries, beside runs at several loads."""
    _measure("predict", out, master, as_json)


@benches.command("percentiles", epilog=_example("bench percentiles --out bench-out"))
def bench_percentiles(
    out: Path = BENCH_OUT, master: str = MASTER, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """p50, p90 and p99 of latency that a profile predicts, beside those of all tuples; half an hour."""
    _measure("percentiles", out, master, as_json)


@benches.command("nexmark", epilog=_example("bench nexmark --events 200000 --query q5 --query q8"))
def bench_nexmark(
    out: Path = BENCH_OUT,
    seed: int = BENCH_SEED,
    events: int = value("N", "How many events.", default=1_000_000, min=1_000, max=10**10),
    query: list[str] = value("NAME", "A query, as q5; again for others.", default=[], show_default="all"),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """The queries of the benchmark NEXMark, beside DuckDB's answers and queries written by hand."""
    folder = _folder("nexmark", out, master)
    from headgate.cli.studies import measured_nexmark, show

    show(measured_nexmark(folder, events, query, seed, master), as_json)


def _measure(study: str, out: Path, master: str, as_json: bool) -> None:
    folder = _folder(study, out, master)
    from headgate.cli.studies import measured, show

    show(measured(study, folder, master), as_json)


def _folder(study: str, out: Path, master: str) -> Path:
    """The folder for the figures of a study, if it can be written and there may be such a master."""
    check_master(master)
    check_folder("--out", out / study)
    return out / study


def _help_alone(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
