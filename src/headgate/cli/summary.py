"""What a run leaves on the screen: results kept in memory, counts, rows set aside."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from rich.console import Console

from headgate.cli.carryout import Done
from headgate.report.tables import queries_table, rows_table, streams_table

_SHOWN_ROWS = 20
# where there is no terminal to measure, tables should not be cut to its usual width
_FILE_WIDTH = 160


def screen() -> Console:
    """Standard output."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def print_json(done: Done, more: Mapping[str, object] | None = None) -> None:
    """The one document of ``--json``."""
    pools = {name: vars(pool) for name, pool in done.run.pools().items()}
    told = {"pools": pools} if pools else {}
    print(json.dumps({**done.status.to_json(), **told, **(more or {})}, indent=2))
    _say_what_was_set_aside(done)


def print_memory_results(done: Done, shown_rows: int = _SHOWN_ROWS) -> None:
    """The first results of queries that go nowhere else."""
    console = screen()
    for name, query in done.network.queries.items():
        if query.sink.format == "memory" and done.status.queries[name].rows_out:
            # one more than is shown tells whether there are more
            rows = done.run.results(name).orderBy("ts").limit(shown_rows + 1).toArrow()
            console.print(rows_table(name, rows, shown_rows))


def print_summary(done: Done) -> None:
    """Counts and latency."""
    console = screen()
    console.print(queries_table(done.status))
    console.print(streams_table(done.status))
    status = done.status
    console.print(
        f"{status.ticks:,} ticks in {status.seconds:,.1f} s; "
        f"backlog at most {status.peak_backlog_tuples:,} tuples, {status.backlog_tuples:,} at the end"
    )
    for name, pool in done.run.pools().items():
        if pool.calls:
            console.print(
                f"pool {name}: {pool.slots} slots, {pool.calls:,} calls of "
                f"{pool.busy_s / pool.calls * 1e3:.1f} ms, {pool.passed:,} passed"
            )
    _say_what_was_set_aside(done)


def _say_what_was_set_aside(done: Done) -> None:
    if done.rows_set_aside or done.files_set_aside:
        late = sum(counts.late for counts in done.status.streams.values())
        bad = done.rows_set_aside - late
        parts = [f"{late:,} late"] if late else []
        parts += [f"{bad:,} that did not parse"] if bad else []
        files = done.files_set_aside
        parts += [f"{files:,} {'file' if files == 1 else 'files'} that cannot be read"] if files else []
        print(f"set aside: {', '.join(parts)}; see {done.dead_letters}", file=sys.stderr)
