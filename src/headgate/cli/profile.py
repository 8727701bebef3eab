"""``headgate profile``: what the operators of a file cost and pass on, measured on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.options import DEBUG, FILE, JSON, seconds
from headgate.errors import SetupError

if TYPE_CHECKING:
    from headgate.model.measured import Measured

EXAMPLE = "Example: headgate profile examples/sensors.sql --for 20s"


def profile(
    file: Path = FILE,
    for_time: str = typer.Option("20s", "--for", metavar="TIME", help="How long to measure."),
    output: Path | None = typer.Option(
        None, metavar="PROFILE", help="Where to write it; beside FILE if not given.", show_default=False
    ),
    master: str = typer.Option("local[*]", metavar="URL", help="Spark master."),
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run the queries over a sample and measure every operator: cost, selectivity, width, rates.

    No result is written. ``explain``, ``advise`` and ``simulate`` find the profile beside the file.
    """
    del debug
    length_s = seconds("--for", for_time)
    assert length_s is not None
    from headgate.cli.early import read_script
    from headgate.model.measured import beside

    target = output or beside(file)
    # a file that is missing is reported first
    if file.exists() and not target.parent.is_dir():
        raise SetupError(f"{target} cannot be written: there is no folder {target.parent}")
    script = read_script(file, master)
    from headgate.cli.progress import Progress
    from headgate.session import Session

    with Progress("starting Spark") as progress:
        session = Session(master=master).execute(script.text, script.origin)

        def show(stage: str) -> None:
            progress.stage = stage
            progress.show()

        measured = session.profile(length_s, show)
    target.write_text(measured.to_json() + "\n", encoding="utf-8")
    _print(measured, target, as_json)


def _print(measured: Measured, target: Path, as_json: bool) -> None:
    if as_json:
        print(measured.to_json())
        return
    from headgate.cli.summary import screen
    from headgate.report.tables import profile_table

    screen().print(profile_table(measured))
    screen().print(f"written to {target}", soft_wrap=True)
