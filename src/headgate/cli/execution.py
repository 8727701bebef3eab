"""Running a script to its end: start, show progress, stop on Ctrl-C, print, tidy up."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.cli.script import Script
from headgate.handle import Run
from headgate.model.event import Event, SettingsChanged, TickCommitted
from headgate.model.network import Network
from headgate.report import profile_table, queries_table, rows_table, screen, streams_table
from headgate.session import Session
from headgate.statistics.profile_file import FILE_NAME, Measured
from headgate.status import RunStatus

# how soon an end is noticed, and how often the live line changes
_LOOK_EVERY_S = 0.25
# rates are averages over this time, so that they can be read
_RATE_OVER_S = 5.0
_PLAIN_EVERY_S = 5.0
_SHOWN_ROWS = 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Progress:
    """An observer that shows a run on standard error; ``stage`` is shown until its first tick.

    On a terminal it is a live line, elsewhere a plain line every few seconds.
    """

    def __init__(
        self, stage: str, console: Console | None = None, clock_s: Callable[[], float] = time.time
    ) -> None:
        self.stage = stage
        self._console = console or Console(stderr=True, highlight=False)
        self._clock_s = clock_s
        self._started_s = clock_s()
        self._plain_at_s = self._started_s
        self._ticks: deque[TickCommitted] = deque()
        self._count = 0
        self._latency_s: float | None = None
        self._live = Live(
            Text(stage),
            console=self._console,
            auto_refresh=False,
            transient=True,
            # what queries print passes above the live line only if both go to the terminal
            redirect_stdout=self._console.is_terminal and sys.stdout.isatty(),
            redirect_stderr=self._console.is_terminal,
        )

    def __call__(self, event: Event) -> None:
        """Handle an event; called by the loop that drives the run."""
        if isinstance(event, TickCommitted):
            self._count += 1
            self._ticks.append(event)
            while self._ticks[0].now_s < event.now_s - _RATE_OVER_S:
                self._ticks.popleft()
            pairs = [pair for counts in event.queries.values() for pair in counts.latencies]
            results = sum(count for _, count in pairs)
            if results:
                mean_s = sum(latency_s * count for latency_s, count in pairs) / results
                self._latency_s = mean_s or self._latency_s
        elif isinstance(event, SettingsChanged):
            self.say(f"change: {event}")

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start(refresh=True)
        else:
            self._console.print(self.stage)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def enter(self, stage: str) -> None:
        self.stage = stage
        self.show()

    def show(self) -> None:
        if self._console.is_terminal:
            self._live.update(Text(self.line(), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif self._clock_s() >= self._plain_at_s + _PLAIN_EVERY_S:
            self._plain_at_s = self._clock_s()
            self._console.print(self.line(), soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a permanent line above the live one."""
        self._console.print(text, soft_wrap=True)

    def line(self) -> str:
        """Rates, backlog and latency in one line."""
        now_s = self._clock_s()
        minutes, seconds = divmod(int(now_s - self._started_s), 60)
        ticks = list(self._ticks)
        if not ticks:
            return f"{minutes:02d}:{seconds:02d}  {self.stage}"
        span_s = max(1.0, min(_RATE_OVER_S, now_s - self._started_s), now_s - ticks[0].now_s)
        rows_in = sum(counts.rows_in for tick in ticks for counts in tick.streams.values())
        rows_out = sum(counts.rows_out for tick in ticks for counts in tick.queries.values())
        latency = "-" if self._latency_s is None else f"{self._latency_s:.2f} s"
        return (
            f"{minutes:02d}:{seconds:02d}  in {rows_in / span_s:,.0f}/s  out {rows_out / span_s:,.0f}/s  "
            f"backlog {ticks[-1].backlog_tuples:,} tuples  latency {latency}  tick {self._count}"
        )


def execute(
    script: Script,
    master: str,
    profile: Path | None,
    for_s: float | None,
    settings: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Run a script to its end, and print what came of it.

    ``profile`` is for admission, ``settings`` are those of ``Session.start``. With ``as_json``, output of the
    queries goes to standard error.
    """
    run: Run | None = None
    try:
        with (
            redirect_stdout(sys.stderr) if as_json else nullcontext(),
            Progress("starting Spark") as progress,
        ):
            session = Session(master=master)
            if profile is not None:
                session.measured = Measured.read(profile)
            session.execute(script.text, script.origin)
            network = session.network()
            run = session.start(observers=[progress], **settings)
            progress.stage = "waiting for the first tick"
            with interruptible() as interrupt:
                watch(run, for_s, progress, interrupt)
        status = run.status()
        folder = Path(run.checkpoint)
        # in a permanent checkpoint, simulate and advise find the statistics
        if not run.is_temporary and folder.is_dir() and status.seconds > 0:
            (folder / FILE_NAME).write_text(run.measured().to_json(), encoding="utf-8")
        if as_json:
            pools = {name: vars(pool) for name, pool in run.pools().items()}
            print(json.dumps({**status.to_json(), **({"pools": pools} if pools else {})}, indent=2))
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
    console.print(
        f"{status.ticks:,} ticks in {status.seconds:,.1f} s; "
        f"backlog at most {status.peak_backlog_tuples:,} tuples, {status.backlog_tuples:,} at the end"
    )
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
        texts = Session(master="local[*]").execute(script.text, script.origin).sql()
    if as_json:
        print(json.dumps({"sql": texts}, indent=2))
    else:
        print("\n\n".join(f"-- query {name}\n{text}" for name, text in texts.items()))
