"""Options that commands share, and the checks that need no Spark.

The modules of commands import only this one and ``typer``: ``headgate --help`` must not wait for the
planner, numpy and Spark. A command imports what it works with when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from headgate.errors import SetupError


def _note_debug(ctx: typer.Context, wanted: bool) -> bool:
    # where the error is reported, the command's own arguments are gone
    ctx.meta["debug"] = wanted
    return wanted


FILE: Any = typer.Argument(..., metavar="FILE", help="A file of CQL.", show_default=False)
JSON: Any = typer.Option(False, "--json", help="Print one JSON document and nothing else.")
DEBUG: Any = typer.Option(
    False, "--debug", help="Show the stack trace of an error.", callback=_note_debug, is_eager=True
)


@dataclass(frozen=True)
class RunOptions:
    """How to run; all of it checked."""

    until_done: bool = False
    for_s: float | None = None
    strategy: str = "fifo"
    memory_bytes: int | None = None
    tick_budget_s: float | None = None
    checkpoint: str | None = None
    master: str = "local[*]"
    routing: str = "optimal"
    balance_pools: bool = False
    profile: Path | None = None
    """What queries are judged by before they run."""

    def __post_init__(self) -> None:
        if self.until_done and self.for_s is not None:
            raise SetupError("--until-done and --for exclude each other; keep one of them")
        from headgate.routing.registry import router_named
        from headgate.scheduling import strategy_named

        # raises if there is none of that name, listing the others
        strategy_named(self.strategy)
        router_named(self.routing)


def seconds(option: str, text: str | None) -> float | None:
    """The value of an option that takes a duration."""
    from headgate.cql.duration import parse_duration_us

    return _positive(option, text, lambda written: parse_duration_us(written) / 1e6)


def size_bytes(option: str, text: str | None) -> int | None:
    """The value of an option that takes a number of bytes."""
    from headgate.cql.size import parse_bytes

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
