"""``headgate demo``: bursts, and what becomes of them."""

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
# what stands in the script, for the length that was asked for
_DURATION = "duration '60 s'"
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
    script = demo_script(f"duration '{seconds} s'")
    if not as_json:
        print(script.text)
    _warm_up(as_json)
    options = RunOptions(until_done=True)
    with carried_out(script, options, as_json) as done:
        plot = plot_run(done.status, out / "demo.png", f"headgate demo: {seconds} s of bursty traffic")
        if as_json:
            print_json(done, {"plot": str(plot)})
        else:
            print_memory_results(done, _EXAMPLE_ROWS)
            print_summary(done)
            screen().print(f"arrivals, backlog and latency: {plot}", soft_wrap=True)


def demo_script(duration: str) -> Script:
    """The demo's streams and queries, with another length of traffic."""
    text = (files("headgate.cli") / _SCRIPT).read_text(encoding="utf-8")
    return Script.parse(text.replace(_DURATION, duration), _SCRIPT)


def _warm_up(quiet_stdout: bool) -> None:
    """Run a little of the traffic, so that the plot shows the queries and not how Java starts."""
    script = demo_script("duration '2 s', speed 'max'")
    with carried_out(script, RunOptions(until_done=True), quiet_stdout):
        pass
