"""Running a script to its end: start, show progress, stop on Ctrl-C, print, tidy up."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import FrameType

from headgate.cli.progress import Progress
from headgate.cli.script import Script, answers_json, print_answers, print_explained
from headgate.handle import Run
from headgate.model.network import Network
from headgate.plain_json import json_text
from headgate.report import profile_table, queries_table, rows_table, screen, streams_table
from headgate.run_options import RunOptions
from headgate.session import Session
from headgate.statistics.profile_file import FILE_NAME, Measured
from headgate.status import RunStatus

# how soon an end is noticed, and how often the live line changes
_LOOK_EVERY_S = 0.25
_SHOWN_ROWS = 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def execute(
    script: Script,
    master: str,
    profile: Path | None,
    options: RunOptions,
    as_json: bool,
) -> None:
    """Run a script to its end, and print what came of it.

    ``profile`` is for admission, ``options`` are those of the command line. With ``as_json``, output of the
    queries goes to standard error.
    """
    run: Run | None = None
    try:
        with (
            redirect_stdout(sys.stderr) if as_json else nullcontext(),
            Progress("starting Spark") as progress,
        ):
            session = Session(master=master)
            session.options = options
            if profile is not None:
                session.measured = Measured.read(profile)
            session.execute(script.text, script.origin)
            if not as_json:
                print_answers(session.answers)
            network = session.network()
            run = session.start(observers=[progress])
            progress.stage = "waiting for the first tick"
            with interruptible() as interrupt:
                watch(run, options.value("for"), progress, interrupt)
        status = run.status()
        folder = Path(run.checkpoint)
        # in a permanent checkpoint, simulate and advise find the statistics
        if not run.is_temporary and folder.is_dir() and status.seconds > 0:
            (folder / FILE_NAME).write_text(run.measured().to_json(), encoding="utf-8")
        if as_json:
            pools = {name: vars(pool) for name, pool in run.pools().items()}
            asked = answers_json(session.answers)
            print(json_text({**asked, **status.to_json(), **({"pools": pools} if pools else {})}))
        else:
            _print_memory_results(run, network, status)
            _print_summary(run, status)
        _print_set_aside(run, status)
    finally:
        if run is not None:
            _tidy_up(run)


def watch(run: Run, for_s: float | None, progress: Progress, interrupt: Interrupt) -> None:
    """Show progress until a run ends; stop it after a time, or when the user asks to."""
    end_s = float("inf") if for_s is None else time.monotonic() + for_s
    shown: tuple[str, ...] = ()
    while not run.wait(max(0.0, min(_LOOK_EVERY_S, end_s - time.monotonic()))):
        progress.show()
        shown = _show_new(run.warnings(), shown, progress)
        if interrupt.wanted or time.monotonic() >= end_s:
            run.stop()
            break
    _show_new(run.warnings(), shown, progress)


def _show_new(warnings: tuple[str, ...], shown: tuple[str, ...], progress: Progress) -> tuple[str, ...]:
    """Show the warnings that are new; older ones are forgotten when there are many."""
    seen = len(shown) if warnings[: len(shown)] == shown else len(warnings) - 1
    for warning in warnings[seen:]:
        progress.say(f"warning: {warning}")
    return warnings


def _tidy_up(run: Run) -> None:
    """Remove a temporary checkpoint, all but the rows that were set aside."""
    if not run.is_temporary or run.is_running:
        return
    folder, kept = Path(run.checkpoint), _dead_letters(run)
    if not kept.is_dir() or not any(kept.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for entry in folder.iterdir():
        if entry != kept:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


class Interrupt:
    """Whether the user wants to stop; a second signal stops at once."""

    wanted = False

    def note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Handle the signals that ask to stop, so that the tick under way is finished.

    Spark's own handler, which this replaces, would cancel the jobs of that tick.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.signal(number, interrupt.note) for number in _SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_memory_results(run: Run, network: Network, status: RunStatus) -> None:
    for name, query in network.queries.items():
        if query.sink.format == "memory" and status.queries[name].rows_out:
            # one row more than is shown, to know whether there are more
            rows = run.results(name).orderBy("ts").limit(_SHOWN_ROWS + 1).toArrow()
            screen().print(rows_table(name, rows, _SHOWN_ROWS))


def _print_summary(run: Run, status: RunStatus) -> None:
    console = screen()
    console.print(queries_table(status))
    console.print(streams_table(status))
    console.print(status.summary)
    for name, pool in run.pools().items():
        if pool.calls:
            console.print(
                f"pool {name}: {pool.slots} slots, {pool.calls:,} calls of "
                f"{pool.busy_s / pool.calls * 1e3:.1f} ms, {pool.passed:,} passed"
            )


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
        return f"{stream}: machine-bound, read at {per_s:,.0f} tuples/s; its own rate is not known"
    return f"{stream}: machine-bound, {per_s:,.0f} of {declared_per_s:,.0f} tuples/s"


def show_sql(script: Script, as_json: bool) -> None:
    """Print the Spark SQL of a tick, by query."""
    with Progress("starting Spark"):
        # texts do not depend on where they would run
        session = Session(master="local[*]").execute(script.text, script.origin)
        found = session.explain("sql")
    print_explained(found, session.answers, as_json)
