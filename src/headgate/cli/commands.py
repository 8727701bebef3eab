"""The commands: their options and help, and the checks that need no Spark.

This module imports ``typer`` and next to nothing else: ``headgate --help`` must not wait for the planner,
numpy and Spark. A command imports what it works with when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from headgate.cli.parameters import (
    CONF,
    DEBUG,
    FILE,
    JARS,
    JSON,
    MASTER,
    MEMORY,
    PACKAGES,
    PROCESSOR_RANGE,
    SEED_RANGE,
    STRATEGY,
    TICK_BUDGET,
    argument,
    flag,
    seconds,
    switch,
    value,
)
from headgate.errors import SetupError
from headgate.formats.outputs import check_file
from headgate.formats.quantity import RATE, Quantity
from headgate.spark.application.jvm import check_master

# of latency and memory bounds
PERCENTILE = 0.99
_PERCENTILES = Quantity("", 0, 0.999999)
_CAPACITY = Quantity("processors", 1e-6, 1e6)


def run(
    file: Path = FILE,
    until_done: bool | None = switch("until-done", "End when all streams have ended."),
    for_time: str | None = value("TIME", "End this long after the first tick, as in 30s.", "--for"),
    strategy: str | None = STRATEGY,
    memory: str | None = MEMORY,
    tick_budget: str | None = TICK_BUDGET,
    checkpoint: str | None = value("DIR", "Folder for the state; unchanged queries continue from it."),
    master: str = MASTER,
    routing: str | None = value(
        "NAME",
        "Policy by which tuples visit pools, or your own as file.py:ClassName.",
        show_default="optimal",
    ),
    balance_pools: bool | None = switch(
        "balance-pools", "Move slots from pools with spare ones to one that is full."
    ),
    keep: str | None = value("STREAM=N,...", "Shares of streams to keep, from 0 to 1, as in packets=0.5."),
    seed: str | None = value("N", "Decides which tuples are kept."),
    orders: str | None = value("QUERY=A B,...", "Aliases of a query in the order to join them: A B (C D)."),
    force: bool = flag("--force", "Run even if a query is predicted to break its bounds."),
    packages: str | None = PACKAGES,
    jars: str | None = JARS,
    conf: list[str] = CONF,
    dry_run: bool = flag("--dry-run", "List the queries that would continue, start and end; run nothing."),
    as_json: bool = JSON,
    rows_json: bool = flag("--rows-json", "Print each result of queries without INTO as a line of JSON."),
    debug: bool = DEBUG,
) -> None:
    """Run all queries of a file until Ctrl-C, for a time, or until the streams end.

    Results of queries without INTO are shown at the end. With a profile beside the file (see headgate
    profile), queries that would break their latency or memory bounds are refused. An option that is given
    here goes before SET in the file. A checkpoint takes up a changed file: queries that are the same go on
    with their state, new ones start, and others end, which is reported before it happens. Ctrl-C finishes the
    tick under way; if the run was to end by itself, the exit code is 130 then, or 143 after SIGTERM.
    """
    from headgate.session.run_options import RunOptions

    options = RunOptions(
        {
            "until_done": until_done,
            "for": for_time,
            "strategy": strategy,
            "memory": memory,
            "tick_budget": tick_budget,
            "checkpoint": checkpoint,
            "routing": routing,
            "balance_pools": balance_pools,
            "keep": keep,
            "seed": seed,
            "orders": orders,
        }
    )
    if as_json and rows_json:
        raise SetupError("--json and --rows-json exclude each other; keep one of them")
    check_master(master)
    from headgate.cli.script import read_while_spark_starts
    from headgate.spark.application.extras import Extras
    from headgate.statistics.profile_file import beside

    extras = Extras.of(packages, jars, conf)
    script = read_while_spark_starts(file, master, options, extras)
    from headgate.cli.execution import execute, show_transition

    if dry_run:
        show_transition(script, master, options, as_json, extras)
        return
    profile = None if force or not beside(file).is_file() else beside(file)
    output: Any = "json" if as_json else "rows" if rows_json else "tables"
    execute(script, master, profile, options, output, extras)


def explain(
    file: Path = FILE,
    after: str | None = value(
        "STAGE", "Show bind, optimize or lower alone; or sql, the Spark SQL of a tick."
    ),
    profile: Path | None = value(
        "PROFILE", "Rates, selectivities and costs: choose join orders and what to shed by them."
    ),
    capacity: float | None = value("N", "Number of processors; 1 by default."),
    bushy: bool = flag("--bushy", "Consider plans of all shapes, not only left-deep ones."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Show the plan of every query after bind, optimize and lower; nothing runs.

    With a profile, show what each join order would take and give instead, and which one is chosen.
    Spark is only started for ``--after sql``, or if the columns of a source are not declared.
    """
    if after not in (None, "bind", "optimize", "lower", "sql"):
        raise SetupError(f"--after takes bind, optimize, lower or sql, not {after}")
    if profile is None and (capacity is not None or bushy):
        option = "--bushy" if capacity is None else "--capacity"
        raise SetupError(f"{option} needs statistics to compare plans; add --profile PROFILE")
    if profile is not None and after is not None:
        raise SetupError("--after and --profile exclude each other; keep one of them")
    if capacity is not None:
        _CAPACITY.check(capacity, f"--capacity {capacity:g}")
    if after == "sql":
        from headgate.cli.script import read_while_spark_starts

        script = read_while_spark_starts(file, "local[*]")
        from headgate.cli.execution import show_sql

        show_sql(script, as_json)
        return
    if profile is None:
        from headgate.cli.script import show_stages

        show_stages(file, after, as_json)
        return
    from headgate.cli.decision import show_decision

    show_decision(file, profile, 1.0 if capacity is None else capacity, bushy, as_json)


def advise(
    file: Path = FILE,
    rate: list[str] = value("STREAM=N", "Tuples per second; by default as profiled.", default=[]),
    profile: Path | None = value("PATH", "A profile, or the checkpoint of a run; by default beside FILE."),
    trace: list[str] = value(
        "STREAM=FILE", "Recorded arrivals: measured latency beside the predicted.", default=[]
    ),
    processors: int | None = value(
        "N", "Processors that share the work; by default as profiled.", **PROCESSOR_RANGE
    ),
    tick: str | None = value("TIME", "Overhead of a tick; by default as profiled, 0s for no ticks."),
    strategy: str = value("NAME", "fifo, or one of static priorities.", default="fifo"),
    servers: str = value("pool|each", "each: operators have their own.", default="pool"),
    percentile: float = value("P", "Of latency and memory bounds.", default=PERCENTILE),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Predict latency, queues and memory, and check whether every query keeps its bounds.

    The verdict comes first, with the model, processors and percentile that it rests on; headgate run admits
    queries by the same verdict. The exit code is 0 if all queries fit, 1 if one does not, 2 if the request is
    wrong.
    """
    _PERCENTILES.check(percentile, f"--percentile {percentile:g}")
    from headgate.cli.advising import Question, answer

    question = Question(file, rate, profile, trace, processors, tick, strategy, servers, percentile)
    if not answer(question, as_json):
        raise typer.Exit(1)


def profile(
    file: Path = FILE,
    for_time: str = value("TIME", "How long to measure.", "--for", default="20s"),
    output: Path | None = value("PROFILE", "Where to write it; by default beside FILE."),
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run the queries over a sample and measure every operator: cost, selectivity, width, rates.

    No result is written. ``explain``, ``advise`` and ``simulate`` find the profile beside the file. If the
    time was too short to measure every operator, it is extended. The exit code is 1 if something could not be
    measured all the same; it is named, and no number stands for it.
    """
    length_s = seconds("--for", for_time)
    assert length_s is not None
    from headgate.cli.script import read_while_spark_starts
    from headgate.statistics.profile_file import beside

    target = output or beside(file)
    # a file that is missing is reported first
    if file.exists():
        if not target.parent.is_dir():
            raise SetupError(f"{target} cannot be written: there is no folder {target.parent}")
        check_file("--output" if output else "the profile", target)
    check_master(master)
    script = read_while_spark_starts(file, master)
    from headgate.cli.execution import measure

    if not measure(script, master, length_s, target, as_json):
        raise typer.Exit(1)


def simulate(
    file: Path = argument("WORKLOAD", "A workload (.toml), or a file of CQL."),
    strategy: str = value("NAME", "Which work goes first; all compares every strategy.", default="chain"),
    policy: str | None = value(
        "NAME", "For routing networks: a policy, all, or your own as file.py:ClassName."
    ),
    seed: int = value("N", "Seed of random arrivals, service times and results.", default=0, **SEED_RANGE),
    plot: Path | None = value("FILE.png", "Draw the backlog over time."),
    profile: Path | None = value("PATH", "For CQL: the checkpoint of an earlier run, or a file of profiles."),
    rate: list[str] = value(
        "STREAM=N",
        "For CQL: Poisson arrivals, N tuples per second. For routing networks: N of all sources.",
        default=[],
    ),
    trace: list[str] = value("STREAM=FILE", "For CQL: recorded arrivals, Parquet or CSV.", default=[]),
    for_time: str | None = value(
        "TIME", "For CQL: how long tuples arrive at a rate; 10s by default.", "--for"
    ),
    processors: int | None = value("N", "For CQL: processors, 1 by default.", **PROCESSOR_RANGE),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run a workload in virtual time; nothing is executed, Spark is not needed.

    A workload has streams and strategies; a routing network has plans and policies. With --strategy all (or
    --policy all) the JSON document is a list, and the table is ranked by peak backlog.
    """
    from headgate.cli.simulating import MeasuredOptions, simulate_policies, simulate_strategies
    from headgate.simulator.routing_file import is_network

    if policy is not None or is_network(file):
        simulate_policies(file, policy or "wscq", rate, seed, as_json)
        return
    options = MeasuredOptions(profile, rate, trace, seconds("--for", for_time), processors)
    simulate_strategies(file, strategy, options, seed, plot, as_json)


def route(
    file: Path = argument("NETWORK", "Sources, placed operators and plans (.toml)."),
    optimize: str | None = value(
        "art|mdr", "Least response time or largest rate; without it, the file's weights."
    ),
    rate: float | None = value(
        "N", "Tuples per second of all sources together; by default those of the file."
    ),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Find the best routing of a network of placed operators, and what it gives.

    ART is the mean response time of tuples that reach the sink, MDR the largest rate before a queue passes
    max_queue.
    """
    if optimize not in (None, "art", "mdr"):
        raise SetupError(f"--optimize {optimize} is unknown; write art or mdr")
    if rate is not None:
        RATE.check(rate, f"--rate {rate:g}")
    from headgate.cli.simulating import solve

    solve(file, optimize, rate, as_json)


def nexmark(
    folder: Path = argument("DIR", "A folder that is empty or does not exist yet."),
    events: int = typer.Option(..., metavar="N", min=1, help="How many events; 46 of 50 are bids."),
    seed: int = value("S", "Equal seeds give equal events.", default=1, **SEED_RANGE),
    rate: str | None = value("R", "Events per second of event time; 10000 by default."),
    start: str | None = value("TIME", "Event time of the first event; 2015-07-15 UTC by default."),
    files: int = value("F", "Files per table, at most.", default=10, min=1, max=10_000),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Write data of the NEXMark benchmark as Parquet: person, auction, bid and side_input.

    Files are numbered, and modified, in the order of event time. Spark is not needed. Scripts can make the
    same rows themselves, FROM nexmark OPTIONS (table 'bid', events 'N', rate 'R', seed 'S').
    """
    from headgate.cli.nexmark_command import write_data_set

    write_data_set(folder, events, seed, rate, start, files, as_json)
