"""``headgate advise``: whether queries fit, and what would make them fit."""

from __future__ import annotations

from pathlib import Path

import typer

from headgate.cli.options import DEBUG, FILE, JSON

EXAMPLE = "Example: headgate advise examples/network.sql --rate packets=8000 --processors 2"
# of latency and memory bounds
_PERCENTILE = 0.99


def advise(
    file: Path = FILE,
    rate: list[str] = typer.Option(
        [], metavar="STREAM=N", help="Tuples a second; as profiled if not given.", show_default=False
    ),
    profile: Path | None = typer.Option(
        None, metavar="PATH", help="A profile, or the checkpoint of a run; beside FILE if not given."
    ),
    trace: list[str] = typer.Option(
        [], metavar="STREAM=FILE", help="Recorded arrivals: their figures beside.", show_default=False
    ),
    processors: int | None = typer.Option(
        None, metavar="N", help="Processors that share the work; 1, or as profiled.", min=1
    ),
    tick: str | None = typer.Option(
        None, metavar="TIME", help="Fixed time of a tick on Spark; as profiled if not given, 0s for none."
    ),
    strategy: str = typer.Option("fifo", metavar="NAME", help="fifo, or one of static priorities."),
    servers: str = typer.Option("pool", metavar="pool|each", help="each: operators have their own."),
    percentile: float = typer.Option(_PERCENTILE, metavar="P", help="Of latency and memory bounds."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Predict latency, queues and memory, and say whether every query keeps its bounds.

    The exit code is 0 if all queries fit, 1 if one does not, 2 if the question is wrong.
    """
    del debug
    from headgate.cli.advising import Question, answer

    question = Question(
        file=file,
        rates=rate,
        profile=profile,
        traces=trace,
        processors=processors,
        tick=tick,
        strategy=strategy,
        servers=servers,
        percentile=percentile,
    )
    if not answer(question, as_json):
        raise typer.Exit(1)
