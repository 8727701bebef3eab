"""The ticks of a checkpoint as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from headgate.spark.history import TickState

# more than this are counted
_SHOWN_DAMAGES = 3


def states_table(states: Sequence[TickState]) -> Table:
    """When each tick was written, how much state it has, and what is wrong with it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("tick", "written", "blocks", "rows"):
        table.add_column(name, justify="right")
    table.add_column("state", overflow="fold")
    for state in states:
        table.add_row(str(state.tick), *_contents(state), Text(_told(state)))
    return table


def _contents(state: TickState) -> tuple[str, str, str]:
    manifest = state.manifest
    if manifest is None:
        return "-", "-", "-"
    # manifests of the first format do not say when
    written = datetime.fromtimestamp(manifest.written_s).strftime("%Y-%m-%d %H:%M:%S")
    rows = sum(ref.rows for ref in manifest.block_refs())
    return written if manifest.written_s else "-", f"{len(manifest.block_paths()):,}", f"{rows:,}"


def _told(state: TickState) -> str:
    if state.is_good:
        return "good"
    more = len(state.damages) - _SHOWN_DAMAGES
    lines = [str(damage) for damage in state.damages[:_SHOWN_DAMAGES]]
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])
