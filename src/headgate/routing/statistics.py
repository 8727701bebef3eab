"""What operators learn about themselves, and tell the others every now and then."""

from __future__ import annotations

from dataclasses import dataclass, replace

# the weight of the latest interval in a selectivity
LATEST = 0.2
# before anything is known
UNKNOWN_SELECTIVITY = 0.5


@dataclass(frozen=True)
class Statistics:
    """As published: mean queue length, tickets, selectivity, mean service time."""

    queue: float = 0.0
    tickets: float = 0.0
    selectivity: float = UNKNOWN_SELECTIVITY
    seconds: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What an operator did in some stretch of time."""

    operator: str
    tuples_in: float
    """Received: they are in its queue, or done."""
    tuples_done: float
    tuples_out: float
    busy_s: float
    queue: float
    """At the end."""
    elapsed_s: float
    source: str = ""


@dataclass(frozen=True)
class Intervals:
    """When to publish: after so many seconds or input tuples, whatever comes first."""

    seconds: float = 5.0
    tuples: float = 40.0


class Monitor:
    """One operator's statistics: noted all the time, published at intervals."""

    def __init__(
        self,
        intervals: Intervals | None = None,
        overloaded_at: float = 10_000.0,
        first: Statistics | None = None,
    ) -> None:
        self.intervals = intervals or Intervals()
        self.overloaded_at = overloaded_at
        self.published = first or Statistics()
        self._tickets = self.published.tickets
        self._begin_s = 0.0
        self._in = self._done = self._out = self._busy_s = self._queue_s = self._elapsed_s = 0.0

    def note(self, outcome: Outcome, now_s: float) -> bool:
        """Add what was done up to now; whether something was published."""
        self._in += outcome.tuples_in
        self._done += outcome.tuples_done
        self._out += outcome.tuples_out
        self._busy_s += outcome.busy_s
        self._queue_s += outcome.queue * outcome.elapsed_s
        self._elapsed_s += outcome.elapsed_s
        is_overloaded = outcome.queue > self.overloaded_at
        tickets = max(0.0, self._tickets + outcome.tuples_in - outcome.tuples_out)
        self._tickets = 0.0 if is_overloaded else tickets
        due = now_s - self._begin_s >= self.intervals.seconds or self._in >= self.intervals.tuples
        if due:
            self._publish(outcome.queue, now_s)
        return due

    def _publish(self, queue: float, now_s: float) -> None:
        mean_queue = self._queue_s / self._elapsed_s if self._elapsed_s > 0 else queue
        found = replace(self.published, queue=mean_queue, tickets=self._tickets)
        if self._done > 0:
            latest = self._out / self._done
            selectivity = (1 - LATEST) * found.selectivity + LATEST * latest
            found = replace(found, selectivity=selectivity, seconds=self._busy_s / self._done)
        self.published = found
        self._begin_s = now_s
        self._in = self._done = self._out = self._busy_s = self._queue_s = self._elapsed_s = 0.0
