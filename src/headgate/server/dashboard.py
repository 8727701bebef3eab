"""The dashboard of a run of this process: a server on loopback, in a thread beside it."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Any

from headgate.errors import SetupError
from headgate.formats.html import html_link
from headgate.server import http_app
from headgate.server.guard import Keys
from headgate.server.hub import Hub
from headgate.server.routes import Live
from headgate.server.run_monitor import RunMonitor
from headgate.server.session_thread import Worker

if TYPE_CHECKING:
    from headgate.session.following import Followers
    from headgate.session.handle import Run
    from headgate.session.session import Session

_END_WITHIN_S = 10.0


class Guest(Worker):
    """Uses the session of a program for one of its runs: it starts no other one, and closes nothing."""

    def __init__(self, session: Session, run: Run, monitor: RunMonitor) -> None:
        super().__init__(session, monitor)
        self._own = run

    @property
    def run(self) -> Run:
        """The run that the page is of."""
        return self._own

    def execute(self, text: str, force: bool = False, limit: int = 100) -> dict[str, Any]:
        """Execute statements, as long as they are about this run."""
        if self._session.run is not self._own:
            raise SetupError("the session has started another run since; open the dashboard of that one")
        return super().execute(text, force, limit)

    def _start(self) -> None:
        """Whether anything runs is for the program to say."""

    def close(self) -> None:
        """Take no more statements."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class Dashboard:
    """Serves the page of a run until it is closed; the run goes on without it.

    It shows itself with a link, which opens the page once.
    """

    def __init__(self, session: Session, run: Run, followers: Followers, port: int) -> None:
        self._followers = followers
        self._monitor = RunMonitor(Hub())
        self._worker = Guest(session, run, self._monitor)
        keys = Keys(secrets.token_urlsafe(32))
        version = str(sys.modules["headgate"].__version__)
        self._live = Live(self._worker, self._monitor, keys, version)
        self._listening = http_app.bind("127.0.0.1", port)
        self._ending = threading.Event()
        server = http_app.Server(self._live, http_app.application(self._live), self._ending.is_set)
        self._thread = threading.Thread(
            target=server.run, args=([self._listening],), name="headgate-dashboard", daemon=True
        )
        self._monitor.join(run, followers)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is, for a browser that a link has opened it in before."""
        return http_app.url_of(self._listening) if self.is_open else ""

    @property
    def is_open(self) -> bool:
        """Whether it is served."""
        return self._thread.is_alive() and not self._ending.is_set()

    def link(self) -> str:
        """An address that opens the page, once."""
        if not self.is_open:
            raise SetupError("the dashboard is closed; call run.dashboard() for another")
        return f"{self.url}/?link={self._live.keys.new_link()}"

    def open(self) -> bool:
        """Open the page in the browser of this machine; whether it has one."""
        return _has_screen() and webbrowser.open(self.link())

    def close(self) -> None:
        """End the server; closing again does nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join(_END_WITHIN_S)
        self._listening.close()
        self._followers.remove(self._monitor)
        self._monitor.close()
        self._worker.close()

    def __enter__(self) -> Dashboard:
        """The dashboard itself, which ``with`` closes at the end."""
        return self

    def __exit__(self, *failure: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"<Dashboard: {self.link()}, opens once>" if self.is_open else "<Dashboard: closed>"

    def _repr_html_(self) -> str:
        return html_link(self.link(), "Open the dashboard") if self.is_open else "The dashboard is closed."


def _has_screen() -> bool:
    """Whether a browser would have a window: one for terminals would take over that of the program."""
    return not sys.platform.startswith("linux") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
