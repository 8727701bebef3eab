"""``headgate run``: run the queries of a file."""

from __future__ import annotations

from pathlib import Path

import typer

from headgate.cli.options import DEBUG, FILE, JSON, RunOptions, seconds, size_bytes

EXAMPLE = "Example: headgate run examples/network.sql --for 30s --tick-budget 0.5s --checkpoint state/"


def run(
    file: Path = FILE,
    until_done: bool = typer.Option(False, "--until-done", help="End when all streams have come to an end."),
    for_time: str | None = typer.Option(
        None, "--for", metavar="TIME", help="End after this time, as in 30s."
    ),
    strategy: str = typer.Option("fifo", metavar="NAME", help="Which work goes first."),
    memory: str | None = typer.Option(
        None, metavar="SIZE", help="Backlog above which sources are held back, as in 64MB."
    ),
    tick_budget: str | None = typer.Option(
        None, metavar="TIME", help="Processor time of a tick, as in 0.5s; what exceeds it waits."
    ),
    checkpoint: str | None = typer.Option(
        None, metavar="DIR", help="Keep state here; the same queries go on from it."
    ),
    master: str = typer.Option("local[*]", metavar="URL", help="Spark master."),
    routing: str = typer.Option(
        "optimal", metavar="NAME", help="By which policy tuples visit pools: optimal, wscq, scq, ..."
    ),
    balance_pools: bool = typer.Option(
        False, "--balance-pools", help="Move slots from pools that can do with fewer to one that is full."
    ),
    force: bool = typer.Option(
        False, "--force", help="Run even if the profile says that a query breaks its bounds."
    ),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run all queries of a file until Ctrl-C, for a time, or until the streams end.

    Results of queries without INTO are shown at the end. With a profile beside the file (see headgate
    profile), queries that would break their latency or memory bounds are refused.
    """
    del debug
    from headgate.model.measured import beside

    options = RunOptions(
        until_done=until_done,
        for_s=seconds("--for", for_time),
        strategy=strategy,
        memory_bytes=size_bytes("--memory", memory),
        tick_budget_s=seconds("--tick-budget", tick_budget),
        checkpoint=checkpoint,
        master=master,
        routing=routing,
        balance_pools=balance_pools,
        profile=None if force or not beside(file).is_file() else beside(file),
    )
    from headgate.cli.early import read_script

    script = read_script(file, master)
    from headgate.cli.carryout import carried_out
    from headgate.cli.summary import print_json, print_memory_results, print_summary

    with carried_out(script, options, quiet_stdout=as_json) as done:
        if as_json:
            print_json(done)
        else:
            print_memory_results(done)
            print_summary(done)
