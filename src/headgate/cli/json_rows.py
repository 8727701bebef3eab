"""Result rows as JSON: a line for each, as soon as its tick is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TextIO

from headgate.formats.arrow_rows import plain_rows
from headgate.formats.plain_json import json_text
from headgate.model.event import Event, TickCommitted
from headgate.session.handle import Run


class RowLines:
    """An observer that notes which ticks have results of these queries; another thread prints them."""

    def __init__(self, queries: Sequence[str], file: TextIO) -> None:
        self._queries = queries
        self._file = file
        self._ready: deque[tuple[str, int]] = deque()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TickCommitted):
            for query in self._queries:
                if query in event.queries and event.queries[query].rows_out:
                    self._ready.append((query, event.batch_id))

    def print_from(self, run: Run) -> None:
        """Print the rows of all ticks that have been committed since the last call."""
        while self._ready:
            query, batch_id = self._ready.popleft()
            for row in plain_rows(run.results_of_tick(query, batch_id)):
                print(json_text({"query": query, "row": row}, indent=None), file=self._file)
            self._file.flush()
