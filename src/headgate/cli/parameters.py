"""Arguments and options that commands share, as typer takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from headgate.errors import SetupError
from headgate.formats.quantity import PROCESSORS, SEED

PROCESSOR_RANGE: dict[str, Any] = {"min": PROCESSORS.least, "max": PROCESSORS.most}
SEED_RANGE: dict[str, Any] = {"min": SEED.least, "max": SEED.most}


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(..., metavar=metavar, help=help, show_default=False)


def flag(name: str, help: str) -> Any:
    return typer.Option(False, name, help=help)


def switch(name: str, help: str) -> Any:
    """An option that is on, off, or not given."""
    return typer.Option(None, f"--{name}/--no-{name}", help=help, show_default=False)


def value(metavar: str, help: str, *names: str, default: Any = None, **checks: Any) -> Any:
    """An option that takes a value; help shows the default if there is one."""
    is_shown = checks.pop("show_default", default not in (None, []))
    return typer.Option(default, *names, metavar=metavar, help=help, show_default=is_shown, **checks)


def _note_debug(ctx: typer.Context, wanted: bool) -> bool:
    # where the error is reported, the command's own arguments are gone
    ctx.meta["debug"] = wanted
    return wanted


DEBUG: Any = typer.Option(
    False, "--debug", help="Show the stack trace of an error.", callback=_note_debug, is_eager=True
)
FILE: Any = argument("FILE", "A file of CQL.")
JSON: Any = flag("--json", "Print one JSON document and nothing else.")
LOCAL = "local[*]"
MASTER: Any = value("URL", "Spark master.", default=LOCAL)
PACKAGES: Any = value("G:A:V,...", "Packages that Spark fetches, such as connectors.")
JARS: Any = value("FILE,...", "Jars for Spark, instead of packages.")
CONF: Any = value("NAME=VALUE", "A setting of Spark; may be given several times.", default=[])

# of runs
STRATEGY: Any = value("NAME", "Which work goes first.", show_default="fifo")
MEMORY: Any = value("SIZE", "Backlog above which sources are held back, as in 64MB.")
TICK_BUDGET: Any = value("TIME", "Processor time of a tick, as in 0.5s; what exceeds it waits.")

# of servers
_PORT = 8640
HOST: Any = value("ADDRESS", "Address to listen at.", default="127.0.0.1")
PORT: Any = value("N", "Port to listen on; 0 for any free one.", default=_PORT, min=0, max=65535)
SERVER: Any = value("URL", "Address of headgate serve.", default=f"http://127.0.0.1:{_PORT}")
TOKEN_FILE: Any = value("F", "File with the token of the server; by default HEADGATE_TOKEN.")

# of studies
LONGEST_S = 86_400
REPRODUCED: Any = value("DIR", "Folder for the figures.", default=Path("reproduced"))
BENCH_OUT: Any = value("DIR", "Folder for the figures.", default=Path("bench-out"))
BENCH_SEED: Any = value("N", "Equal seeds give equal streams.", default=7, **SEED_RANGE)
TRACE: Any = value("FILE", "Recorded arrivals, a Parquet or CSV column of times; synthetic otherwise.")


def seconds(option: str, text: str | None) -> float | None:
    """The value of an option that takes a duration."""
    from headgate.cql.measure import parse_duration_us

    if text is None:
        return None
    try:
        value = parse_duration_us(text) / 1e6
    except ValueError as error:
        raise SetupError(f"{option}: {error}") from None
    if value <= 0:
        raise SetupError(f"{option} must be more than 0")
    return value
