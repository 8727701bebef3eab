"""``headgate demo``: a burst, and what becomes of it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import typer

from headgate.cli.carryout import carried_out
from headgate.cli.options import DEBUG, JSON, RunOptions
from headgate.cli.script import Script
from headgate.cli.summary import print_json, print_memory_results, print_summary, screen
from headgate.report.plots import plot_run

EXAMPLE = "Example: headgate demo --seconds 20 --out demo-out"

_SCRIPT = "demo.sql"
# what stands there, for the length that was asked for
_DURATION = "duration '60 s'"
# little enough that bursts pile up before the expensive query, enough that they drain again
_TICK_BUDGET_S = 0.4
_EXAMPLE_ROWS = 5


def demo(
    seconds: int = typer.Option(60, min=1, help="Length of the traffic."),
    out: Path = typer.Option(Path("demo-out"), metavar="DIR", help="Folder for the plot."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Watch a network: three queries over two bursty streams, then a plot of backlog and latency.

    The queries are a filter with an expensive predicate, a window join and a windowed aggregate.
    """
    del debug
    script = demo_script(seconds)
    options = RunOptions(until_done=True, tick_budget_s=_TICK_BUDGET_S)
    if not as_json:
        print(script.text)
    with carried_out(script, options, quiet_stdout=as_json) as done:
        plot = plot_run(done.status, out / "demo.png", f"headgate demo: {seconds} s of bursty traffic")
        if as_json:
            print_json(done, {"plot": str(plot)})
        else:
            print_memory_results(done, _EXAMPLE_ROWS)
            print_summary(done)
            screen().print(f"plot of arrivals, backlog and latency: {plot}", soft_wrap=True)


def demo_script(seconds: int) -> Script:
    """The demo's streams and queries, with so many seconds of traffic."""
    text = (files("headgate.cli") / _SCRIPT).read_text(encoding="utf-8")
    return Script.parse(text.replace(_DURATION, f"duration '{seconds} s'"), _SCRIPT)
