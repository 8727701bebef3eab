"""``headgate simulate``: what strategies would make of a workload, in virtual time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, JSON, seconds
from headgate.errors import SetupError

if TYPE_CHECKING:
    from headgate.cli.measured import MeasuredOptions
    from headgate.simulator import Result
    from headgate.simulator.workload_file import WorkloadFile

EXAMPLE = "Example: headgate simulate examples/two_operators.toml --strategy all --plot backlog.png"


def simulate(
    file: Path = typer.Argument(
        ..., metavar="WORKLOAD", help="A workload (.toml), or a file of CQL.", show_default=False
    ),
    strategy: str = typer.Option(
        "chain", metavar="NAME", help="Which work goes first; all for every strategy there is."
    ),
    policy: str | None = typer.Option(
        None, metavar="NAME", help="For routing networks: where tuples go next; all for every policy."
    ),
    seed: int = typer.Option(0, metavar="N", help="Decides random arrivals and fates.", min=0),
    plot: Path | None = typer.Option(None, metavar="FILE.png", help="Draw the backlog over time."),
    profile: Path | None = typer.Option(
        None, metavar="PATH", help="For CQL: the checkpoint of an earlier run, or a file of profiles."
    ),
    rate: list[str] = typer.Option(
        [],
        metavar="STREAM=N",
        help="For CQL: Poisson arrivals, N tuples a second. For routing networks: N of all sources together.",
        show_default=False,
    ),
    trace: list[str] = typer.Option(
        [], metavar="STREAM=FILE", help="For CQL: recorded arrivals, Parquet or CSV.", show_default=False
    ),
    for_time: str | None = typer.Option(
        None, "--for", metavar="TIME", help="For CQL: how long tuples arrive at a rate; 10s if not given."
    ),
    processors: int | None = typer.Option(
        None, metavar="N", help="For CQL: processors, 1 if not given.", min=1
    ),
    as_json_document: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run a workload in virtual time; nothing is executed, Spark is not needed.

    A workload has streams and strategies; a routing network has plans and policies. With --strategy all (or
    --policy all) the JSON document is a list, and the table is ranked by peak backlog.
    """
    del debug
    from headgate.cli.measured import MeasuredOptions
    from headgate.cli.simulate_eddy import simulate_policies
    from headgate.cli.summary import screen
    from headgate.report.simulated import as_json, ranked, results_table
    from headgate.scheduling import strategy_named, strategy_names
    from headgate.simulator.network_file import is_network

    if policy is not None or is_network(file):
        simulate_policies(file, policy or "wscq", rate, seed, as_json_document)
        return
    names = strategy_names() if strategy == "all" else (strategy,)
    # raises if there is none of that name, before the work begins
    for name in names:
        strategy_named(name)
    if plot is not None and plot.suffix.lower() != ".png":
        raise SetupError(f"--plot draws PNG; write {plot.with_suffix('.png')}")
    options = MeasuredOptions(profile, rate, trace, seconds("--for", for_time), processors)
    workload = _workload(file, options, seed)
    results = [_run(workload, name) for name in names]
    if plot is not None:
        _save(results, plot, file)
    if as_json_document:
        documents = [as_json(result) for result in results]
        print(json.dumps(documents if strategy == "all" else documents[0]))
    else:
        screen().print(results_table(ranked(results)))


def _workload(file: Path, options: MeasuredOptions, seed: int) -> WorkloadFile:
    from headgate.cli.measured import measured_scenario
    from headgate.simulator.workload_file import WorkloadFile, is_workload, read_workload

    if not is_workload(file):
        return WorkloadFile(measured_scenario(file, options, seed))
    if options.given:
        raise SetupError(f"{options.given[0]} is for files of CQL; {file} says all that itself")
    return read_workload(file, seed)


def _run(workload: WorkloadFile, name: str) -> Result:
    from headgate.scheduling import strategy_named
    from headgate.simulator import simulate as simulated

    return simulated(workload.scenario, strategy_named(workload.strategy_text(name)))


def _save(results: list[Result], plot: Path, file: Path) -> None:
    from headgate.report.simulated import plot_backlogs

    try:
        plot_backlogs(results, plot, f"Backlog of {file.name}")
    except OSError as error:
        raise SetupError(f"--plot {plot} cannot be written: {error.strerror}") from None
    print(f"drew {plot}", file=sys.stderr)
