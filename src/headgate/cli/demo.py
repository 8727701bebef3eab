"""``headgate demo``: one flood three times, with memory and latency of each run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, JSON

if TYPE_CHECKING:
    from headgate.experiments.flood import ChosenStrategy, Flood, FloodRun
    from headgate.handle import Run

EXAMPLE = "Example: headgate demo --seconds 15 --out demo-out"

_MASTER = "local[*]"


def demo(
    seconds: int = typer.Option(15, min=6, help="Length of the traffic; a third of it is the flood."),
    out: Path = typer.Option(Path("demo-out"), metavar="DIR", help="Folder for the plot."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run the same flood three times on Spark, and plot memory and latency.

    First come first served; by the strategy that Headgate predicts to need the least memory; and with load
    shedding, under a latency bound. The flood brings about twice as much as this machine can process.
    """
    del debug
    from headgate.spark.application import jvm

    jvm.start_early(_MASTER)
    from headgate.cli.execution import interruptible, watch
    from headgate.cli.progress import Progress
    from headgate.experiments.flood import Flood
    from headgate.spark.application.cluster import own_session

    with Progress("starting Spark") as progress, interruptible() as interrupt:

        def show(stage: str) -> None:
            progress.stage = stage
            progress.show()

        def watch_to_the_end(run: Run) -> None:
            watch(run, None, progress, interrupt)
            if interrupt.wanted:
                raise typer.Abort

        flood = Flood(own_session(_MASTER), seconds, show, watch_to_the_end)
        flood.warm_up()
        choice = flood.choose()
        # Java gets faster all the time: whatever is compared with fifo runs before it
        shedding, chosen, fifo = flood.run_shedding(), flood.run(choice.name), flood.run("fifo")
    plot = _plot(flood, fifo, choice, chosen, shedding, out / "demo.png")
    if as_json:
        print(json.dumps(_document(fifo, choice, chosen, shedding, plot), indent=2))
        return
    print(flood.script())
    for sentence in _sentences(fifo, choice, chosen, shedding):
        print(sentence)
    print(f"memory and latency over time: {plot}")


def _plot(
    flood: Flood, fifo: FloodRun, choice: ChosenStrategy, chosen: FloodRun, shedding: FloodRun, path: Path
) -> Path:
    from headgate.report.plots import plot_runs

    runs = {
        "fifo": fifo.status,
        f"{choice.name}, as Headgate chooses": chosen.status,
        "with shedding": shedding.status,
    }
    return plot_runs(path, "One flood, three times (shaded: while it lasts)", runs, flood.flood_s)


def _sentences(fifo: FloodRun, choice: ChosenStrategy, chosen: FloodRun, shedding: FloodRun) -> list[str]:
    from headgate.experiments.flood import LATENCY_BOUND_S, QUERY

    results = {run.status.queries[QUERY].rows_out for run in (fifo, chosen)}
    shed = shedding.status.queries[QUERY]
    return [
        f"First come first served (fifo): up to {_size(fifo.peak_bytes)} of tuples wait, "
        f"and the slowest result takes {fifo.max_latency_s:.1f} s.",
        f"Under {choice.name}, which Headgate chooses because it predicts the least memory for it "
        f"({_size(choice.predicted.peak_bytes)}): up to {_size(chosen.peak_bytes)} wait, the slowest result "
        f"takes {chosen.max_latency_s:.1f} s, "
        + ("and the results are the same." if len(results) == 1 else "but the results differ."),
        f"With shedding under a latency bound of {LATENCY_BOUND_S:g} s: {shed.shed:,} of {shed.rows_in:,} "
        f"tuples ({shed.shed / shed.rows_in:.0%}) are dropped, up to {_size(shedding.peak_bytes)} wait, "
        f"and the slowest result takes {shedding.max_latency_s:.1f} s.",
    ]


def _size(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _document(
    fifo: FloodRun, choice: ChosenStrategy, chosen: FloodRun, shedding: FloodRun, plot: Path
) -> dict[str, object]:
    runs = {"fifo": fifo, "chosen": chosen, "shedding": shedding}
    return {
        "chosen": {"strategy": choice.name, "predicted_peak_bytes": round(choice.predicted.peak_bytes)},
        "runs": {name: run.status.to_json() for name, run in runs.items()},
        "plot": str(plot),
    }
