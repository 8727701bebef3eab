"""Runs, profiles and checkpoints as tables for the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from headgate.formats.arrow_rows import python_rows
from headgate.model.status import RunStatus
from headgate.statistics.completeness import TICKS
from headgate.statistics.profile_file import Measured

if TYPE_CHECKING:
    # slow to import, and few commands need it
    from headgate.spark.history import TickState

_FILE_WIDTH = 160
# all but line breaks and tabs; the last ones turn the direction of what follows
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))
# damages of a tick beyond these are counted
_SHOWN_DAMAGES = 3


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as it does wherever it notices that its reader has gone."""
        raise BrokenPipeError


def screen() -> Console:
    """Standard output, as wide as its longest rows where there is no terminal to measure."""
    console = _Screen(highlight=False)
    return console if console.is_terminal else _Screen(highlight=False, width=_FILE_WIDTH)


def visible(text: str) -> str:
    """Text from outside, whose control characters a terminal would obey, as escapes."""
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def table_of(first: str, *others: str, **settings: Any) -> Table:
    """An empty table: names in the first column, numbers to the right of them."""
    table = Table(box=box.SIMPLE_HEAD, **settings)
    table.add_column(first, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def shown(value: float | None, digits: int) -> str:
    """A number to so many digits, or to the last whole one; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.{digits}g}" if abs(value) < 10**digits - 0.5 else f"{value:,.0f}"


def clean(value: float | None, digits: int) -> float | None:
    """A number without rounding errors: 1.2, not 1.2000000000000002; none for infinity, which JSON lacks."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def size_column(heading: str, sizes: Sequence[float | None]) -> tuple[str, list[str]]:
    """A heading with its unit, that of the largest size, and the sizes in it."""
    known = [size for size in sizes if size is not None and math.isfinite(size)]
    unit, scale = next(u for u in _SIZES if max(known, default=0.0) >= u[1] or u[1] == 1)
    texts = [
        "unbounded" if size is not None and not math.isfinite(size) else shown(size and size / scale, 3)
        for size in sizes
    ]
    return f"{heading} ({unit})", texts


def queries_table(status: RunStatus) -> Table:
    ratio = ["keep ratio (share)"] if any(query.shed for query in status.queries.values()) else []
    table = table_of("query", "out (rows)", "latency mean (s)", "p50 (s)", "p99 (s)", "max (s)", *ratio)
    for name, query in status.queries.items():
        latency = query.latency_s
        values = (latency.mean, latency.p50, latency.p99, latency.max)
        seconds = ("-" if value is None else f"{value:,.3f}" for value in values)
        table.add_row(name, f"{query.rows_out:,}", *seconds, *[f"{query.keep_ratio:.3g}" for _ in ratio])
    return table


def streams_table(status: RunStatus) -> Table:
    files = ["set aside (files)"] if any(c.files_set_aside for c in status.streams.values()) else []
    table = table_of("stream", "in (rows)", "late (rows)", "bad (rows)", "shed (rows)", *files)
    for name, counts in status.streams.items():
        rows = (counts.rows_in, counts.late, counts.bad, counts.shed)
        table.add_row(name, *(f"{n:,}" for n in rows), *[f"{counts.files_set_aside:,}" for _ in files])
    return table


def profile_table(measured: Measured) -> Group:
    """Statistics of every operator with their standard errors, and the rates of the streams."""
    counted = ("selectivity (results per tuple)", "width (bytes)", "measured in (ticks)")
    operators = table_of("operator", "cost (us per tuple)", *counted)
    for name, profile in measured.profiles.items():
        cost = _with_error(profile.seconds_per_tuple * 1e6, profile.seconds_per_tuple_error * 1e6)
        passed = _with_error(profile.selectivity, profile.selectivity_error)
        operators.add_row(name, cost, passed, f"{profile.bytes_per_tuple:,.0f}", str(profile.samples))
    for name in measured.not_measured:
        if name != TICKS:
            operators.add_row(name, "-", "-", "-", "-")
    predicates = table_of("operator", "predicate", "cost (us per tuple)", "selectivity (share of tuples)")
    for operator, by_text in measured.predicates.items():
        for text, predicate in by_text.items():
            # of a join's predicates, how often they hold is all that was sampled
            cost = f"{predicate.seconds_per_tuple * 1e6:.3g}" if predicate.seconds_per_tuple else "-"
            predicates.add_row(operator, Text(text), cost, f"{predicate.selectivity:.3g}")
    streams = table_of("stream", "rate (tuples/s)")
    for name in dict.fromkeys((*measured.tuples_per_s, *measured.machine_bound)):
        rate = measured.tuples_per_s.get(name)
        streams.add_row(name, "-" if rate is None else f"{rate:,.1f}")
    return Group(operators, *([predicates] if measured.predicates else []), streams)


def _with_error(value: float, error: float) -> str:
    return f"{shown(value, 4)} ± {shown(error, 2)}"


def rows_table(title: str, rows: Any, most: int) -> Group:
    """The first rows of an Arrow table, below a title."""
    heading = f"{title}, the first {most} rows" if rows.num_rows > most else title
    table = Table(box=box.SIMPLE_HEAD)
    for column in rows.schema:
        numeric = str(column.type).startswith(("int", "uint", "float", "double", "decimal"))
        name = Text(visible(column.name))
        table.add_column(name, justify="right" if numeric else "left", overflow="ellipsis")
    for row in python_rows(rows.slice(0, most)):
        table.add_row(*(Text(visible(_value(value))) for value in row.values()))
    # a table would wrap its own title to its width
    return Group(Text(heading, style="bold"), table)


def states_table(states: Sequence[TickState]) -> Table:
    """When each tick was written, the size of its state, and its damages."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("tick", "written", "blocks", "rows"):
        table.add_column(name, justify="right")
    table.add_column("state", overflow="fold")
    for state in states:
        contents, manifest = ["-", "-", "-"], state.manifest
        if manifest is not None:
            # manifests of the first format have no time
            written = datetime.fromtimestamp(manifest.written_s).strftime("%Y-%m-%d %H:%M:%S")
            rows = sum(ref.rows for ref in manifest.block_refs())
            blocks = len(manifest.block_paths())
            contents = [written if manifest.written_s else "-", f"{blocks:,}", f"{rows:,}"]
        lines = ["good"] if state.is_good else [str(damage) for damage in state.damages[:_SHOWN_DAMAGES]]
        if len(state.damages) > _SHOWN_DAMAGES:
            lines.append(f"and {len(state.damages) - _SHOWN_DAMAGES} more")
        table.add_row(str(state.tick), *contents, Text("\n".join(lines)))
    return table


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    return str(value)
