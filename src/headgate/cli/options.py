"""Options that commands share, and the checks that need no Spark.

``commands`` imports only this module and ``typer``: ``headgate --help`` must not wait for the planner, numpy
and Spark. A command imports what it works with when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headgate.errors import SetupError


def _note_debug(ctx: typer.Context, wanted: bool) -> bool:
    # where the error is reported, the command's own arguments are gone
    ctx.meta["debug"] = wanted
    return wanted


DEBUG: Any = typer.Option(
    False, "--debug", help="Show the stack trace of an error.", callback=_note_debug, is_eager=True
)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(..., metavar=metavar, help=help, show_default=False)


def flag(name: str, help: str) -> Any:
    return typer.Option(False, name, help=help)


def value(metavar: str, help: str, *names: str, default: Any = None, **checks: Any) -> Any:
    """An option that takes a value; help shows the default if there is one."""
    is_shown = default not in (None, [])
    return typer.Option(default, *names, metavar=metavar, help=help, show_default=is_shown, **checks)


FILE: Any = argument("FILE", "A file of CQL.")
JSON: Any = flag("--json", "Print one JSON document and nothing else.")
MASTER: Any = value("URL", "Spark master.", default="local[*]")


def seconds(option: str, text: str | None) -> float | None:
    """The value of an option that takes a duration."""
    from headgate.cql.measure import parse_duration_us

    return _positive(option, text, lambda written: parse_duration_us(written) / 1e6)


def size_bytes(option: str, text: str | None) -> int | None:
    """The value of an option that takes a number of bytes."""
    from headgate.cql.measure import parse_bytes

    size = _positive(option, text, parse_bytes)
    return None if size is None else int(size)


def _positive(option: str, text: str | None, read: Callable[[str], float]) -> float | None:
    if text is None:
        return None
    try:
        value = read(text)
    except ValueError as error:
        raise SetupError(f"{option}: {error}") from None
    if value <= 0:
        raise SetupError(f"{option} must be more than 0")
    return value
