"""Running a script to its end: start, show progress, stop on Ctrl-C, print, tidy up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from math import inf
from pathlib import Path
from typing import Any, Literal

import typer
from rich.console import Console

from headgate.cli.json_rows import RowLines
from headgate.cli.progress import Progress
from headgate.cli.script import Script, answers_json, print_answers, print_explained
from headgate.cli.signals import Interrupt, exit_code, interruptible
from headgate.formats.arrow_rows import plain_rows
from headgate.formats.plain_json import json_text
from headgate.model.network import Network
from headgate.model.status import RunStatus
from headgate.report.screen import profile_table, queries_table, rows_table, screen, streams_table
from headgate.session.handle import Run
from headgate.session.run_options import RunOptions
from headgate.session.session import Session
from headgate.spark.application.ending import remove_folder
from headgate.spark.application.extras import NO_EXTRAS, Extras
from headgate.statistics.profile_file import FILE_NAME, Measured

# how soon an end is noticed
_LOOK_EVERY_S = 0.25
_SHOWN_ROWS = 20

Output = Literal["tables", "json", "rows"]
"""Tables, one JSON document, or a line of JSON for each result."""


def execute(
    script: Script,
    master: str,
    profile: Path | None,
    options: RunOptions,
    output: Output,
    extras: Extras = NO_EXTRAS,
) -> None:
    """Run a script to its end, and print what came of it.

    ``profile`` is for admission, ``options`` are those of the command line. Unless tables are printed, what
    queries print goes to standard error.
    """
    run: Run | None = None
    standard_output = sys.stdout
    try:
        with (
            nullcontext() if output == "tables" else redirect_stdout(sys.stderr),
            Progress("starting Spark") as progress,
        ):
            session = Session(master=master, extras=extras)
            session.options = options
            if profile is not None:
                session.measured = Measured.read(profile)
            session.execute(script.text, script.origin)
            if output != "json":
                print_answers(session.answers)
            checkpoint = session.options.value("checkpoint")
            for line in [] if checkpoint is None else session.transition(checkpoint).news():
                progress.say(line)
            network = session.network()
            lines = RowLines(_without_sink(network) if output == "rows" else (), standard_output)
            run = session.start(observers=[progress, lines])
            progress.stage = "waiting for the first tick"
            with interruptible() as interrupt:
                watch(run, options.value("for"), progress, interrupt, lambda: lines.print_from(run))
        status = run.status()
        _keep_statistics(run, status)
        if output == "json":
            print(json_text({**answers_json(session.answers), **_document(run, network, status)}))
        elif output == "tables":
            _print_memory_results(run, network, status)
            _print_summary(run, status, screen())
        else:
            _print_summary(run, status, Console(stderr=True, highlight=False))
        _print_set_aside(run, status)
    finally:
        if run is not None:
            _tidy_up(run)
    is_to_end_itself = options.value("until_done") or options.value("for") is not None
    if interrupt.number is not None and is_to_end_itself:
        raise typer.Exit(exit_code(interrupt.number))


def show_transition(
    script: Script, master: str, options: RunOptions, as_json: bool, extras: Extras = NO_EXTRAS
) -> None:
    """Print which queries would go on, start and end."""
    with Progress("starting Spark"):
        session = Session(master=master, extras=extras)
        session.options = options
        session.execute(script.text, script.origin, force=True)
        found = session.transition(options.value("checkpoint"))
    if as_json:
        print(json_text(found.to_json()))
    else:
        print("\n".join(found.lines()))


def _without_sink(network: Network) -> tuple[str, ...]:
    return tuple(name for name, query in network.queries.items() if query.sink.format == "memory")


def watch(
    run: Run,
    for_s: float | None,
    progress: Progress,
    interrupt: Interrupt,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Wait for the end of a run, and ``look`` now and then, and at its end.

    The run ends a time after its first tick has begun, or on a signal; the tick
    under way is finished.
    """
    end_s, is_asked = inf, False
    shown: set[str] = set()
    try:
        while not run.wait(_LOOK_EVERY_S):
            if for_s is not None and end_s == inf and progress.has_ticked:
                end_s = time.monotonic() + for_s
            _show_warnings(run, progress, shown)
            if interrupt.is_new():
                progress.say("finishing the tick, Ctrl-C again to abort")
            if not is_asked and (interrupt.wanted or time.monotonic() >= end_s):
                run.ask_to_stop()
                is_asked = True
            look()
    except Exception:
        # ticks before the one that failed have been committed
        look()
        raise
    _show_warnings(run, progress, shown)
    look()


def _show_warnings(run: Run, progress: Progress, shown: set[str]) -> None:
    for warning in run.warnings():
        if warning not in shown:
            progress.say(f"warning: {warning}")
            shown.add(warning)


def _keep_statistics(run: Run, status: RunStatus) -> None:
    """In a permanent checkpoint, simulate and advise find the statistics."""
    folder = Path(run.checkpoint)
    if not run.is_temporary and folder.is_dir() and status.seconds > 0:
        (folder / FILE_NAME).write_text(run.measured().to_json(), encoding="utf-8")


def _document(run: Run, network: Network, status: RunStatus) -> dict[str, object]:
    """Counts, and where rows have gone."""
    document = status.to_json()
    for name, query in network.queries.items():
        results: dict[str, object] = {"into": query.sink.format, "path": run.path_of(name)}
        if query.sink.format == "memory":
            results["first_rows"] = plain_rows(_first_rows(run, name, status, _SHOWN_ROWS))
        document["queries"][name]["results"] = results  # type: ignore[index]
    document["dead_letters"] = str(_dead_letters(run)) if _has_dead_letters(run) else None
    pools = {name: vars(pool) for name, pool in run.pools().items()}
    return {**document, **({"pools": pools} if pools else {})}


def _tidy_up(run: Run) -> None:
    """Remove a temporary checkpoint, all but the rows that were set aside."""
    if not run.is_temporary or run.is_running:
        return
    folder, kept = Path(run.checkpoint), _dead_letters(run)
    if not _has_dead_letters(run):
        remove_folder(folder)
        return
    run.keep_checkpoint()
    for entry in folder.iterdir():
        if entry != kept:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


def _first_rows(run: Run, query: str, status: RunStatus, most: int) -> Any:
    """Results as an Arrow table; None if there are none."""
    if not status.queries[query].rows_out:
        return None
    return run.results(query).orderBy("ts").limit(most).toArrow()


def _print_memory_results(run: Run, network: Network, status: RunStatus) -> None:
    for name in _without_sink(network):
        # one row more than is shown, to know whether there are more
        rows = _first_rows(run, name, status, _SHOWN_ROWS + 1)
        if rows is not None:
            screen().print(rows_table(name, rows, _SHOWN_ROWS))


def _print_summary(run: Run, status: RunStatus, console: Console) -> None:
    console.print(queries_table(status))
    console.print(streams_table(status))
    console.print(status.summary)
    for name, pool in run.pools().items():
        if pool.calls:
            console.print(
                f"pool {name}: {pool.slots} slots, {pool.calls:,} calls of "
                f"{pool.busy_s / pool.calls * 1e3:.1f} ms, {pool.passed:,} passed"
            )
    for warning in status.late_warnings:
        console.print(f"warning: {warning}", soft_wrap=True)


def _print_set_aside(run: Run, status: RunStatus) -> None:
    streams = status.streams.values()
    files = sum(counts.files_set_aside for counts in streams)
    parts = {
        "late": sum(counts.late for counts in streams),
        "that did not parse": sum(counts.bad for counts in streams),
        **{f"that query {n} fails for": q.set_aside for n, q in status.queries.items()},
        f"{'file' if files == 1 else 'files'} that cannot be read": files,
    }
    if any(parts.values()):
        text = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
        print(f"set aside: {text}; see {_dead_letters(run)}", file=sys.stderr)


def _dead_letters(run: Run) -> Path:
    return Path(run.checkpoint) / "dead-letters"


def _has_dead_letters(run: Run) -> bool:
    folder = _dead_letters(run)
    return folder.is_dir() and any(folder.iterdir())


def measure(script: Script, master: str, length_s: float, target: Path, as_json: bool) -> bool:
    """Profile the queries of a script, and write the profile; returns whether it is complete."""
    with Progress("starting Spark") as progress:
        session = Session(master=master).execute(script.text, script.origin)
        measured = session.profile(length_s, progress.enter, progress.say)
    target.write_text(measured.to_json() + "\n", encoding="utf-8")
    if as_json:
        print(measured.to_json())
    else:
        screen().print(profile_table(measured))
        screen().print(f"written to {target}", soft_wrap=True)
    for stream, per_s in measured.machine_bound.items():
        print(_machine_bound(stream, per_s, measured.tuples_per_s.get(stream)), file=sys.stderr)
    for name, reason in measured.not_measured.items():
        print(f"not measured: {name}: {reason}", file=sys.stderr)
    return not measured.not_measured


def _machine_bound(stream: str, per_s: float, declared_per_s: float | None) -> str:
    if declared_per_s is None:
        return f"{stream}: machine-bound, read at {per_s:,.0f} tuples/s; its own rate is unknown"
    return f"{stream}: machine-bound, {per_s:,.0f} of {declared_per_s:,.0f} tuples/s"


def show_sql(script: Script, as_json: bool) -> None:
    """Print the Spark SQL of a tick, by query."""
    with Progress("starting Spark"):
        # texts do not depend on where they would run
        session = Session(master="local[*]").execute(script.text, script.origin)
        found = session.explain("sql")
    print_explained(found, session.answers, as_json)
