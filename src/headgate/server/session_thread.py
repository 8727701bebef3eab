"""The one thread that uses the session: statements, previews and the start of the run, in turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from headgate import cql
from headgate.cql.secrets import without_secrets
from headgate.cql.statement import Question
from headgate.cql.tokens import Cursor
from headgate.errors import HeadgateError
from headgate.formats.arrow_rows import plain_rows
from headgate.server.run_monitor import RunMonitor

if TYPE_CHECKING:
    from headgate.session.handle import Run
    from headgate.session.session import Session

Found = TypeVar("Found")
# statements that wait for others; one of them may take as long as a tick
_MOST_WAITING = 16


class Busy(HeadgateError):
    """Too many requests wait for the session."""


class Worker:
    """A session, used by one thread; its run may be used by any."""

    def __init__(self, session: Session, monitor: RunMonitor) -> None:
        self._session = session
        self._monitor = monitor
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headgate-session")
        self._waiting = 0

    @property
    def run(self) -> Run | None:
        """The run that was started last."""
        return self._session.run

    async def call(self, function: Callable[..., Found], *arguments: Any) -> Found:
        """Call on the session's thread; the event loop goes on."""
        if self._waiting >= _MOST_WAITING:
            raise Busy(f"{self._waiting} requests wait for the session; try again later")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, function, *arguments)
        finally:
            self._waiting -= 1

    def execute(self, text: str, force: bool = False, limit: int = 100) -> dict[str, Any]:
        """Execute statements, or one SELECT over results; the run starts with the first query."""
        if Cursor(text, "sql").word() in ("SELECT", "WITH"):
            return self._select(text, limit)
        statements = cql.parse(text, "sql")
        with self._session.turn:
            self._session.execute(text, "sql", force)
            answers, warnings = self._session.answers, list(self._session.warnings)
        if not all(isinstance(statement, Question) for statement in statements):
            # pages of others show it, and the record keeps it
            shown_text = " ".join(without_secrets(text).split())
            self._monitor.hub.publish("statement", {"text": shown_text, "at_s": time.time()})
            self._start()
        shown = [answer.to_json() | {"text": str(answer)} for answer in answers]
        return {"answers": shown, "warnings": warnings}

    def _select(self, text: str, limit: int) -> dict[str, Any]:
        # one more than is returned, to know whether there are more
        found = self._session.select_rows(text.rstrip().removesuffix(";"), limit + 1)
        rows = plain_rows(found.table)
        return {"columns": dict(found.columns), "rows": rows[:limit], "is_complete": len(rows) <= limit}

    def _start(self) -> None:
        if self._session.catalog.queries and (self.run is None or not self.run.is_running):
            self._monitor.watch(lambda: self._session.start(observers=[self._monitor]))

    def begin(self, script: str, say: Callable[[str], None]) -> None:
        """Let the queries of a script run, and say what becomes of those of its checkpoint."""
        self._session.execute(script, "sql")
        checkpoint = self._session.options.value("checkpoint")
        if self._session.catalog.queries and checkpoint is not None:
            for line in self._session.transition(checkpoint).news():
                say(line)
        self._start()

    def restore(self, checkpoint: str) -> bool:
        """Let the queries go on that ran when the checkpoint was written last, if it ever was; whether so."""
        is_written = self._session.is_written(checkpoint)
        if is_written:
            self._session.restore(checkpoint)
            self._start()
        return is_written

    def preview(self, text: str) -> dict[str, Any]:
        """Plans and advice of statements; nothing is declared."""
        return self._session.preview(text, "sql").to_json()

    def names(self) -> dict[str, list[str]]:
        """All names that statements can use, by kind."""
        kinds = ("stream", "relation", "view", "query", "function", "pool")
        return {kind: list(self._session.catalog.names(kind)) for kind in kinds}

    def close(self) -> None:
        """End the run after its tick, and the session."""
        self._thread.submit(self._session.close).result()
        self._thread.shutdown()
