"""How far long work has come, on standard error."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.model.event import Event, SettingsChanged, TickCommitted

# rates are averages over this time, so that they can be read
_RATE_OVER_S = 5.0
_PLAIN_EVERY_S = 5.0


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
