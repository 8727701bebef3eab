"""A run as tables for the terminal."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from headgate.model.measured import Measured
from headgate.status import RunStatus


def queries_table(status: RunStatus) -> Table:
    """Rows and latency of every query."""
    kept = ["kept"] if any(query.shed for query in status.queries.values()) else []
    table = _table("query", "rows out", "latency mean (s)", "p50 (s)", "p99 (s)", "max (s)", *kept)
    for name, query in status.queries.items():
        latency = query.latency_s
        figures = (latency.mean, latency.p50, latency.p99, latency.max)
        table.add_row(
            name, f"{query.rows_out:,}", *map(_seconds, figures), *[f"{query.kept:.3g}" for _ in kept]
        )
    return table


def streams_table(status: RunStatus) -> Table:
    """Counts of every stream."""
    files = ["files set aside"] if any(c.files_set_aside for c in status.streams.values()) else []
    table = _table("stream", "rows in", "late", "bad", "shed", *files)
    for name, counts in status.streams.items():
        rows = (counts.rows_in, counts.late, counts.bad, counts.shed)
        table.add_row(name, *(f"{n:,}" for n in rows), *[f"{counts.files_set_aside:,}" for _ in files])
    return table


def profile_table(measured: Measured) -> Group:
    """Every operator's figures, with their standard errors, and the rates of the streams."""
    operators = _table("operator", "cost (us a tuple)", "selectivity", "width (bytes)", "ticks")
    for name, profile in measured.profiles.items():
        cost = _with_error(profile.seconds_per_tuple * 1e6, profile.seconds_per_tuple_error * 1e6)
        passed = _with_error(profile.selectivity, profile.selectivity_error)
        operators.add_row(name, cost, passed, f"{profile.bytes_per_tuple:,.0f}", str(profile.samples))
    streams = _table("stream", "tuples a second")
    for name, rate in measured.tuples_per_s.items():
        streams.add_row(name, f"{rate:,.1f}")
    return Group(operators, *([_predicates_table(measured)] if measured.predicates else []), streams)


def _predicates_table(measured: Measured) -> Table:
    table = _table("operator", "predicate", "cost (us a tuple)", "selectivity")
    for operator, predicates in measured.predicates.items():
        for text, profile in predicates.items():
            # of a join's predicates, how often they hold is all that was sampled
            cost = f"{profile.seconds_per_tuple * 1e6:.3g}" if profile.seconds_per_tuple else "-"
            table.add_row(operator, Text(text), cost, f"{profile.selectivity:.3g}")
    return table


def rows_table(title: str, rows: Any, most: int) -> Group:
    """The first rows of an Arrow table, below a title."""
    there_are_more = rows.num_rows > most
    heading = f"{title}, the first {most} rows" if there_are_more else title
    table = Table(box=box.SIMPLE_HEAD)
    for column in rows.schema:
        numeric = str(column.type).startswith(("int", "uint", "float", "double", "decimal"))
        table.add_column(Text(column.name), justify="right" if numeric else "left", overflow="ellipsis")
    for row in rows.slice(0, most).to_pylist():
        table.add_row(*(Text(_value(value)) for value in row.values()))
    # a table would wrap its own title to its width
    return Group(Text(heading, style="bold"), table)


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}"


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    return str(value)
