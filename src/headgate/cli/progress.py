"""What a command shows of its work on standard error, while it works."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.model.event import Event, SettingsChanged, TickCommitted, TickStarted, TuplesArrived

_REFRESH_EVERY_S = 0.25
# rates are averages over this time, so that they can be read
_RATE_OVER_S = 5.0
_PLAIN_EVERY_S = 5.0


@dataclass(frozen=True)
class _Underway:
    """The tick under way; how many rows it has is known once they are taken in."""

    number: int
    started_s: float
    rows: int | None = None
    shed: int = 0

    def text(self, now_s: float) -> str:
        rows = "taking rows in" if self.rows is None else f"{self.rows:,} rows"
        return f"tick {self.number}: {rows}, {max(0.0, now_s - self.started_s):.1f} s so far"


class _Errors(Console):
    def on_broken_pipe(self) -> None:
        """Work on for those who read the results."""
        self.quiet = True


class Progress:
    """An observer that shows a run on standard error; until its first tick, ``stage`` is shown.

    On a terminal it is a live line, elsewhere a plain line every few seconds.
    """

    def __init__(
        self, stage: str, console: Console | None = None, clock_s: Callable[[], float] = time.time
    ) -> None:
        self.stage = stage
        self._heading = ""
        self._console = console or _Errors(stderr=True, highlight=False)
        self._clock_s = clock_s
        self._started_s = clock_s()
        self._plain_at_s = self._started_s
        self._forget()
        self._showing = threading.Lock()
        self._over = threading.Event()
        self._live = Live(
            Text(stage),
            console=self._console,
            auto_refresh=False,
            transient=True,
            # what queries print passes above the live line only if both go to the terminal
            redirect_stdout=self._console.is_terminal and sys.stdout.isatty(),
            redirect_stderr=self._console.is_terminal,
        )

    def _forget(self) -> None:
        # those of the latest seconds, and one before them
        self._ticks: deque[TickCommitted] = deque()
        self._underway: _Underway | None = None
        self._count = 0
        self._latency_s: float | None = None

    @property
    def has_ticked(self) -> bool:
        """Whether a tick has begun."""
        return self._underway is not None or self._count > 0

    def __call__(self, event: Event) -> None:
        """Handle an event; called by the loop that drives the run."""
        if isinstance(event, TickStarted):
            self._underway = _Underway(self._count + 1, event.now_s)
        elif isinstance(event, TuplesArrived) and self._underway is not None:
            self._underway = replace(self._underway, rows=sum(event.tuples.values()), shed=event.shed)
        elif isinstance(event, TickCommitted):
            self._add(event)
        elif isinstance(event, SettingsChanged):
            self.say(f"change: {event}")

    def _add(self, tick: TickCommitted) -> None:
        self._underway = None
        self._count += 1
        self._ticks.append(tick)
        while len(self._ticks) > 2 and self._ticks[1].now_s < tick.now_s - _RATE_OVER_S:
            self._ticks.popleft()
        pairs = [pair for counts in tick.queries.values() for pair in counts.latencies]
        results = sum(count for _, count in pairs)
        if results:
            mean_s = sum(latency_s * count for latency_s, count in pairs) / results
            self._latency_s = mean_s or self._latency_s

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start(refresh=True)
        else:
            self._console.print(self.stage)
        threading.Thread(target=self._refresh, name="headgate-progress", daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        with self._showing:
            if self._console.is_terminal:
                self._live.stop()

    def _refresh(self) -> None:
        while not self._over.wait(_REFRESH_EVERY_S):
            self.show()

    def enter(self, stage: str) -> None:
        """Begin another part of the work, with a run of its own."""
        self._forget()
        self.stage = self._heading = stage
        self._plain_at_s = float("-inf")
        self.show()

    def announce(self, stage: str) -> None:
        """Begin another part of the work, with a permanent line."""
        self.say(stage)
        self.stage = stage

    def show(self) -> None:
        with self._showing:
            now_s = self._clock_s()
            if self._over.is_set():
                return
            if self._console.is_terminal:
                self._live.update(Text(self.line(), no_wrap=True, overflow="ellipsis"), refresh=True)
            elif now_s >= self._plain_at_s + _PLAIN_EVERY_S:
                self._plain_at_s = now_s
                self._console.print(self.line(), soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a permanent line above the live one."""
        with self._showing:
            self._console.print(text, soft_wrap=True)

    def line(self) -> str:
        """Time, and what there is to say of the run: rates, backlog, latency, and the tick under way."""
        now_s = self._clock_s()
        minutes, seconds = divmod(int(now_s - self._started_s), 60)
        ticks, underway = list(self._ticks), self._underway
        parts = [f"{minutes:02d}:{seconds:02d}"]
        if self._heading or not self.has_ticked:
            parts.append(self.stage)
        if ticks:
            parts += self._measures(ticks, underway, now_s)
        if underway is not None:
            parts.append(underway.text(now_s))
        elif ticks:
            parts.append(f"tick {self._count}")
        if ticks and ticks[-1].waiting:
            parts.append(f"more waits in {', '.join(sorted(ticks[-1].waiting))}")
        return "  ".join(parts)

    def _measures(
        self, ticks: Sequence[TickCommitted], underway: _Underway | None, now_s: float
    ) -> list[str]:
        arrived = [(tick.now_s - tick.seconds, tick.totals.rows_in) for tick in ticks]
        dropped = [(tick.now_s - tick.seconds, tick.totals.shed) for tick in ticks]
        if underway is not None and underway.rows is not None:
            arrived.append((underway.started_s, underway.rows + underway.shed))
            dropped.append((underway.started_s, underway.shed))
        shed = self._rate(dropped)
        results = [(tick.now_s, sum(q.rows_out for q in tick.queries.values())) for tick in ticks]
        waiting = ticks[-1].backlog_tuples + ((underway.rows or 0) if underway else 0)
        latency = "-" if self._latency_s is None else f"{self._latency_s:.2f} s"
        return [
            f"in {self._rate(arrived):,.0f}/s",
            *([f"shed {shed:,.0f}/s"] if shed else []),
            # what a tick under way will yield is not known before its end
            f"out {self._rate([*results, (now_s, 0)]):,.0f}/s",
            f"backlog {waiting:,} tuples",
            f"latency {latency}",
        ]

    def _rate(self, amounts: Sequence[tuple[float, int]]) -> float:
        """Amount per second of the last seconds; each amount came up since the time of the one before it."""
        last_s = amounts[-1][0]
        latest = [amount for at_s, amount in amounts if at_s > last_s - _RATE_OVER_S]
        since_s = amounts[-len(latest) - 1][0] if len(amounts) > len(latest) else self._started_s
        return sum(latest) / max(1.0, last_s - since_s)
