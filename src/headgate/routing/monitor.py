"""What operators measure of themselves, and publish at intervals.

``observe`` and ``publish`` are the only implementation of these statistics: the engine calls them on a
``Monitor``; the simulator compiles them over rows with the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN_SELECTIVITY = 0.5
UNKNOWN_SECONDS = 0.01
TICKET_LIMIT = 2000
"""An operator with a longer queue is overloaded and loses its tickets."""

# weight of the previous value where an average is updated by the latest interval
_PREVIOUS = 0.8


@dataclass(frozen=True)
class OperatorStatistics:
    """As published: mean queue length, tickets, selectivity, mean service time."""

    queue: float = 0.0
    tickets: float = 0.0
    selectivity: float = UNKNOWN_SELECTIVITY
    seconds: float = UNKNOWN_SECONDS


@dataclass(frozen=True)
class Outcome:
    """What an operator did in some period."""

    operator: str
    tuples_in: float
    """Received: processed already or still queued."""
    tuples_done: float
    tuples_out: float
    busy_s: float
    queue: float
    """Length at the end of the period."""
    elapsed_s: float


@dataclass(frozen=True)
class Intervals:
    """When to publish: after this many seconds or processed tuples, whichever comes first."""

    seconds: float = 5.0
    tuples: int = 40


@dataclass
class Monitor:
    """The statistics of one operator, in the making and as published (``known_...``)."""

    begin_s: float = 0.0
    """Begin of the current interval, that is, when statistics were published last."""
    intervals: Intervals = field(default_factory=Intervals)
    queue: float = 0.0
    changed_s: float = 0.0
    tickets: float = 0.0
    queue_s: float = 0.0
    done: float = 0
    out: float = 0
    busy_s: float = 0.0
    known_queue: float = 0.0
    known_tickets: float = 0.0
    known_selectivity: float = UNKNOWN_SELECTIVITY
    known_seconds: float = UNKNOWN_SECONDS
    is_assumed: bool = True
    """Whether ``known_seconds`` is a guess, which the first call replaces."""

    def __post_init__(self) -> None:
        self.changed_s = self.begin_s

    def resume(self, now_s: float) -> None:
        """Exclude the time since the last observation: the operator was not observed."""
        self.begin_s += now_s - self.changed_s
        self.changed_s = now_s

    def advance(self, now_s: float) -> None:
        """Publish at the end of every interval up to now."""
        while now_s >= self.begin_s + self.intervals.seconds:
            publish(self, self.begin_s + self.intervals.seconds)

    def observe(
        self, now_s: float, queue: float, received: int = 0, done: int = 0, out: int = 0, busy_s: float = 0.0
    ) -> None:
        """Add what happened since the last observation, and publish if it is time to."""
        self.advance(now_s)
        if done and self.is_assumed:
            self.known_seconds, self.is_assumed = busy_s / done, False
        observe(self, now_s, queue, received, done, out, busy_s, TICKET_LIMIT)
        if self.done >= self.intervals.tuples:
            publish(self, now_s)

    @property
    def published(self) -> OperatorStatistics:
        known = self.known_queue, self.known_tickets, self.known_selectivity, self.known_seconds
        return OperatorStatistics(*known)


def observe(
    monitor: Monitor,
    now_s: float,
    queue: float,
    received: float,
    done: float,
    out: float,
    busy_s: float,
    ticket_limit: int,
) -> None:
    """Add what an operator did since the last observation; its queue has the given length from now on."""
    monitor.queue_s += monitor.queue * (now_s - monitor.changed_s)
    monitor.changed_s = now_s
    monitor.queue = queue
    monitor.done += done
    monitor.out += out
    monitor.busy_s += busy_s
    monitor.tickets = 0.0 if queue > ticket_limit else max(0.0, monitor.tickets + received - out)


def publish(monitor: Monitor, now_s: float) -> None:
    """Publish the statistics of the interval that ends now, and begin the next one."""
    monitor.queue_s += monitor.queue * (now_s - monitor.changed_s)
    monitor.changed_s = now_s
    if monitor.done > 0:
        latest = 1.0 - _PREVIOUS
        monitor.known_selectivity = (
            _PREVIOUS * monitor.known_selectivity + latest * monitor.out / monitor.done
        )
        monitor.known_seconds = _PREVIOUS * monitor.known_seconds + latest * monitor.busy_s / monitor.done
    elapsed_s = now_s - monitor.begin_s
    monitor.known_queue = monitor.queue_s / elapsed_s if elapsed_s > 0 else float(monitor.queue)
    monitor.known_tickets = monitor.tickets
    monitor.begin_s = now_s
    monitor.done = 0
    monitor.out = 0
    monitor.busy_s = 0.0
    monitor.queue_s = 0.0
