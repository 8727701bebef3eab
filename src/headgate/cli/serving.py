"""``headgate serve``, ``replay`` and ``stop``: a server, or the record of one, until it is stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headgate.cli.parameters import (
    DEBUG,
    HOST,
    JSON,
    MASTER,
    MEMORY,
    PORT,
    SERVER,
    STRATEGY,
    TICK_BUDGET,
    TOKEN_FILE,
    argument,
    value,
)
from headgate.errors import SetupError
from headgate.formats.plain_json import json_text

if TYPE_CHECKING:
    from headgate.cli.signals import Interrupt
    from headgate.server.guard import Keys
    from headgate.server.routes import Live
    from headgate.session.handle import Run
    from headgate.session.session import Session


def serve(
    file: Path | None = typer.Argument(None, metavar="[FILE]", help="A file of CQL.", show_default=False),
    checkpoint: str = value("DIR", "Folder for the state and the record.", default=..., show_default=False),
    host: str = HOST,
    port: int = PORT,
    token_file: Path | None = value(
        "F",
        "File with the token that clients must send; created if missing.",
        show_default="DIR/headgate.token",
    ),
    strategy: str | None = STRATEGY,
    memory: str | None = MEMORY,
    tick_budget: str | None = TICK_BUDGET,
    master: str = MASTER,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Run queries until they are stopped, with an HTTP interface and a dashboard.

    Without FILE, the queries of the checkpoint go on, and others are declared later: with headgate sql, POST
    /sql, or in the dashboard. With FILE, queries of the checkpoint that it lacks end, and are named. The link
    that is printed opens the dashboard once; clients send the token. Ctrl-C, SIGTERM and headgate stop end
    the run after its current tick.
    """
    from headgate.session.run_options import RunOptions
    from headgate.spark.application.jvm import check_master

    given = {"checkpoint": checkpoint, "strategy": strategy, "memory": memory, "tick_budget": tick_budget}
    options = RunOptions(given)
    check_master(master)
    if "://" in checkpoint:
        if token_file is None:
            raise SetupError(
                "--checkpoint is not a local folder; pass the file of its token with --token-file F"
            )
    else:
        from headgate.formats.outputs import check_folder

        check_folder("--checkpoint", Path(checkpoint))
    script = None
    if file is not None:
        from headgate.cli.script import read_while_spark_starts

        script = read_while_spark_starts(file, master, options)
    from headgate.server.guard import Keys
    from headgate.server.http_app import token_in

    tokens = token_file or Path(checkpoint) / "headgate.token"
    keys = Keys(token_in(tokens))
    if os.name == "posix" and tokens.stat().st_mode & 0o066:
        print(f"warning: other users can read or write {tokens}; chmod 600 {tokens}", file=sys.stderr)
    from headgate.session.session import Session

    session = Session(master=master)
    session.options = options
    record = None if "://" in checkpoint else Path(checkpoint)
    text = "" if script is None else script.text
    restored = "" if text or (record is not None and not _has_state(record)) else checkpoint
    _serve(_live(session, keys, record), text, host, port, tokens, restored, as_json)


def _has_state(checkpoint: Path) -> bool:
    """Whether a run has been in a folder, and not only a server."""
    if not checkpoint.exists():
        # the token may be elsewhere
        return False
    return any(not entry.name.startswith("headgate.") for entry in checkpoint.iterdir())


def _version() -> str:
    # the version that the package itself states, installed or not
    return str(sys.modules["headgate"].__version__)


def _live(session: Session, keys: Keys, checkpoint: Path | None) -> Live:
    from headgate.server.hub import Hub
    from headgate.server.recording import FOLDER, Recording
    from headgate.server.routes import Live
    from headgate.server.run_monitor import RunMonitor
    from headgate.server.session_thread import Worker

    recording = None if checkpoint is None else Recording(checkpoint / FOLDER)
    monitor = RunMonitor(Hub() if recording is None else Hub(recording))
    return Live(Worker(session, monitor), monitor, keys, _version(), recording=recording)


def _serve(
    live: Live,
    text: str,
    host: str,
    port: int,
    tokens: Path | None,
    restored: str = "",
    as_json: bool = False,
) -> None:
    """Execute a text, or restore a checkpoint, and serve until the end."""
    from headgate.cli.signals import interruptible
    from headgate.server import http_app

    listening = http_app.bind(host, port)
    try:
        with interruptible() as interrupt:
            if live.session is not None and (text or restored):
                print("starting Spark", file=sys.stderr)
                if text:
                    live.session.begin(text, lambda line: print(line, file=sys.stderr))
                elif not live.session.restore(restored):
                    print(f"{restored} has no committed state: starting without queries", file=sys.stderr)
            _announce(http_app.url_of(listening), live.keys.new_link(), tokens, as_json)
            ends = _Ends(live, interrupt)
            server = http_app.Server(live, http_app.application(live, http_app.hosts_of(host)), ends)
            server.run([listening])
            if live.session is not None:
                print("finishing the tick, Ctrl-C again to abort", file=sys.stderr)
    finally:
        listening.close()
        if live.session is not None:
            live.session.close()
        live.monitor.close()
        if live.recording is not None:
            live.recording.close()


def _announce(url: str, link: str, tokens: Path | None, as_json: bool) -> None:
    """Print where the dashboard is and, if statements are taken, how to send them."""
    dashboard = f"{url}/?link={link}"
    if as_json:
        print(json_text({"url": url, "dashboard": dashboard, "token_file": tokens and str(tokens)}))
    else:
        print(f"dashboard, opens once: {dashboard}")
        if tokens is not None:
            print(f"shell: headgate sql --url {url} --token-file {tokens}")
    sys.stdout.flush()


class _Ends:
    """Whether a signal has requested the end; reports a run that has failed, once."""

    def __init__(self, live: Live, interrupt: Interrupt) -> None:
        self._live = live
        self._interrupt = interrupt
        self._reported: Run | None = None

    def __call__(self) -> bool:
        run = None if self._live.session is None else self._live.session.run
        if run is not None and run is not self._reported and not run.is_running:
            self._reported = run
            try:
                run.wait(0)
                print("the run has ended", file=sys.stderr)
            except Exception as failure:
                print(f"the run has failed: {' '.join(str(failure).split())}", file=sys.stderr)
        return self._interrupt.wanted


def replay(
    folder: Path = argument("DIR", "The folder of headgate serve --checkpoint."),
    host: str = HOST,
    port: int = PORT,
    as_json: bool = JSON,
    debug: bool = DEBUG,
) -> None:
    """Show the record of a run in the dashboard: its queues, decisions and latencies at any of its ticks."""
    import secrets

    from headgate.server.guard import Keys
    from headgate.server.hub import Hub
    from headgate.server.recording import Recorded
    from headgate.server.routes import Live
    from headgate.server.run_monitor import RunMonitor

    recorded = Recorded(folder)
    keys = Keys(secrets.token_urlsafe(32))
    live = Live(None, RunMonitor(Hub()), keys, _version(), recorded=recorded)
    _serve(live, "", host, port, None, as_json=as_json)


def stop(
    url: str = SERVER, token_file: Path | None = TOKEN_FILE, as_json: bool = JSON, debug: bool = DEBUG
) -> None:
    """End a server after the current tick of its run."""
    from headgate.cli.client import Client

    status = Client.of(url, token_file).post("/stop", {})["status"]
    print(json_text({"status": status}) if as_json else status)
