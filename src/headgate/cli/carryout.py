"""Carrying a script out: start, show progress until the end, tidy up."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from headgate.cli.interrupt import Interrupt, interruptible
from headgate.cli.measured import read_measured
from headgate.cli.options import RunOptions
from headgate.cli.progress import Progress
from headgate.cli.script import Script
from headgate.handle import Run
from headgate.model.measured import FILE_NAME
from headgate.model.network import Network
from headgate.session import Session
from headgate.status import RunStatus

# how soon an end is noticed, and how often the live line changes
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True)
class Done:
    """A run that has come to its end."""

    run: Run
    network: Network
    status: RunStatus

    @property
    def rows_set_aside(self) -> int:
        """Rows that were late or did not parse."""
        return sum(counts.late + counts.bad for counts in self.status.streams.values())

    @property
    def files_set_aside(self) -> int:
        """Files that could not be read."""
        return sum(counts.files_set_aside for counts in self.status.streams.values())

    @property
    def dead_letters(self) -> Path:
        """Where rows set aside are."""
        return Path(self.run.checkpoint) / "dead-letters"


@contextmanager
def carried_out(script: Script, options: RunOptions, quiet_stdout: bool = False) -> Iterator[Done]:
    """Run a script to its end; temporary files are there until the block is left.

    With ``quiet_stdout`` what queries print goes to standard error.
    """
    run: Run | None = None
    try:
        with (
            redirect_stdout(sys.stderr) if quiet_stdout else nullcontext(),
            Progress("starting Spark") as progress,
        ):
            session = Session(master=options.master)
            if options.profile is not None:
                session.measured = read_measured(options.profile)
            session.execute(script.text, script.origin)
            network = session.network()
            run = _start(session, options, progress)
            progress.stage = "waiting for the first tick"
            with interruptible() as interrupt:
                _watch(run, options.for_s, progress, interrupt)
        done = Done(run, network, run.status())
        _keep_profiles(done)
        yield done
    finally:
        if run is not None:
            _tidy_up(run)


def _start(session: Session, options: RunOptions, progress: Progress) -> Run:
    return session.start(
        until_done=options.until_done,
        strategy=options.strategy,
        memory=options.memory_bytes,
        checkpoint=options.checkpoint,
        tick_budget=options.tick_budget_s,
        observers=[progress],
        routing=options.routing,
        balance_pools=options.balance_pools,
    )


def _watch(run: Run, for_s: float | None, progress: Progress, interrupt: Interrupt) -> None:
    end_s = float("inf") if for_s is None else time.monotonic() + for_s
    said: tuple[str, ...] = ()
    while not run.wait(max(0.0, min(_LOOK_EVERY_S, end_s - time.monotonic()))):
        progress.show()
        warnings = run.warnings()
        if warnings != said:
            progress.say(f"warning: {warnings[-1]}")
            said = warnings
        if interrupt.wanted or time.monotonic() >= end_s:
            run.stop()
            return


def _keep_profiles(done: Done) -> None:
    """Leave what was measured in a checkpoint that stays, for ``simulate``."""
    folder, status = Path(done.run.checkpoint), done.status
    if not done.run.is_temporary and folder.is_dir() and status.seconds > 0:
        (folder / FILE_NAME).write_text(done.run.measured().to_json(), encoding="utf-8")


def _tidy_up(run: Run) -> None:
    """Remove a temporary checkpoint, all but the rows that were set aside."""
    if not run.is_temporary or run.is_running:
        return
    folder = Path(run.checkpoint)
    kept = folder / "dead-letters"
    if not kept.is_dir() or not any(kept.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for entry in folder.iterdir():
        if entry != kept:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
