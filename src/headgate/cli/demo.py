"""``headgate demo``: bursts, and what becomes of them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, JSON, RunOptions

if TYPE_CHECKING:
    from headgate.cli.script import Script

EXAMPLE = "Example: headgate demo --seconds 20 --out demo-out"

_SCRIPT = "demo.sql"
# what stands in the script for a minute of traffic: its length, and when the flood comes and goes
_DURATION, _SECONDS = "duration '60 s'", 60
_FLOOD_S = (20, 32)
# ticks without a budget would take a flood as it comes, and last as long as it does
_TICK_BUDGET_S = 0.5
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
    from headgate.cli.carryout import carried_out
    from headgate.cli.summary import print_json, print_memory_results, print_summary, screen
    from headgate.report.plots import plot_run

    script = demo_script(f"duration '{seconds} s'", seconds)
    if not as_json:
        print(script.text)
    _warm_up(as_json)
    options = RunOptions(until_done=True, tick_budget_s=_TICK_BUDGET_S)
    with carried_out(script, options, as_json) as done:
        plot = plot_run(done.status, out / "demo.png", f"headgate demo: {seconds} s of bursty traffic")
        if as_json:
            print_json(done, {"plot": str(plot)})
        else:
            print_memory_results(done, _EXAMPLE_ROWS)
            print_summary(done)
            screen().print(f"arrivals, backlog and latency: {plot}", soft_wrap=True)


def demo_script(duration: str, seconds: int) -> Script:
    """The demo's streams and queries, with another length of traffic and a flood in the midst of it."""
    from headgate.cli.script import Script

    text = (files("headgate.cli") / _SCRIPT).read_text(encoding="utf-8").replace(_DURATION, duration)
    for at_s in _FLOOD_S:
        text = text.replace(f"from {at_s} s", f"from {at_s * seconds / _SECONDS:.3g} s")
    return Script.parse(text, _SCRIPT)


def _warm_up(quiet_stdout: bool) -> None:
    """Run a little of the traffic, so that the plot shows the queries and not how Java starts."""
    from headgate.cli.carryout import carried_out

    script = demo_script("duration '2 s', speed 'max'", 2)
    with carried_out(script, RunOptions(until_done=True), quiet_stdout):
        pass
