"""The eddy worker: inside one task, a thread per slot, a queue per pool, and a router in between.

Tuples go from predicate to predicate without leaving the process. When the worker's time is over, unfinished
tuples are handed back with their histories.
"""

from __future__ import annotations

import base64
import fcntl
import heapq
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headgate.routing.monitor import Monitor
from headgate.routing.policies import Router, RoutingView, next_operator, routing_chance
from headgate.runtime.usercode import routed
from headgate.spark.eddies.visit_rules import VisitRules

Holds = Callable[[int], bool]
"""Whether a predicate holds for a row."""

DROPPED = -1
"""In place of a history: a predicate does not hold."""

# so many tuples, and some per slot, are routed at a time: the others wait, to be routed by newer statistics
_PAGE = 40
_PER_SLOT = 4
_SEED = 0


@dataclass(frozen=True)
class Step:
    """A placed predicate; ``function`` is pickled, ``arguments`` and ``tests`` are numbers of columns.

    ``comparison`` is empty for a function that returns BOOLEAN: then ``tests`` has a column for each of true,
    false and null; otherwise it has the column that the result is compared with. ``value`` is the name of the
    column that the result becomes, if it is no condition.
    """

    function_name: str
    function: bytes
    arguments: tuple[int, ...]
    comparison: str
    tests: tuple[int, ...]
    value: str = ""


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to know beside its tuples."""

    rules: VisitRules
    steps: tuple[Step, ...]
    """The steps that call functions, which come after the probes."""
    slots: Mapping[str, int]
    """Concurrent calls of each pool."""
    lock_folder: str | None
    """Where workers on one machine share slots; None if no two run at a time."""
    budget_s: float
    left_over: float
    """Share of the tuples that may be handed back: the last ones would keep few pools busy."""
    router: Router
    monitors: Mapping[str, Monitor]
    queues: Mapping[str, int]
    """Tuples waiting for each probe."""
    rates: Mapping[str, float]
    now_s: float


@dataclass
class Count:
    """Work done by a predicate."""

    tuples_in: int = 0
    done: int = 0
    out: int = 0
    busy_s: float = 0.0

    def add(self, other: Count) -> None:
        self.tuples_in += other.tuples_in
        self.done += other.done
        self.out += other.out
        self.busy_s += other.busy_s


@dataclass(frozen=True)
class Report:
    """What a worker reports: monitors, counts by predicate, and how long slots were in use.

    Before that, it waited ``waited_s`` for other workers to give up their slots.
    """

    monitors: Mapping[str, Monitor]
    counts: Mapping[str, Count]
    active_s: float
    waited_s: float = 0.0
    settled: int = 0
    """Tuples that were finished, dropped, or sent on to a probe."""

    def to_text(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode("ascii")

    @staticmethod
    def from_text(text: str) -> Report:
        report = pickle.loads(base64.b64decode(text))
        assert isinstance(report, Report)
        return report


@contextmanager
def _slot(folder: str | None, pool: str, number: int) -> Iterator[Callable[[int], None]]:
    """A slot of a pool, which all workers on one machine lock and unlock through a file."""
    if folder is None:
        yield lambda operation: None
        return
    with Path(folder, f"{pool}-{number}").open("a") as file:
        yield partial(fcntl.flock, file)


@dataclass(eq=False, repr=False)
class EddyWorker:
    """Takes rows through predicates until all are settled or the time is over.

    ``targets`` are the steps that rows have been sent to; in the end, the probes of other jobs.
    """

    _assignment: Assignment
    _holds: Sequence[Holds]
    done: list[int]
    _numbers: Sequence[int]
    _sides: Sequence[int] = ()
    targets: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        assignment, rows = self._assignment, len(self.done)
        self._sides = self._sides or [0] * rows
        self.targets = self.targets or [None] * rows
        self._rules = assignment.rules
        self._names = assignment.rules.names
        self._monitors = dict(assignment.monitors)
        self._counts = {name: Count() for name in self._names[self._rules.probes :]}
        for name in self._counts:
            self._monitors[name].resume(time.time())
        self._sent = dict(assignment.queues)
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._work = {pool: threading.Condition(self._lock) for pool in assignment.slots}
        # in the order in which tuples entered the eddy: those that have visited most have waited longest
        self._queues: dict[str, list[tuple[int, int, int]]] = {pool: [] for pool in assignment.slots}
        self._waiting = deque(sorted(range(rows), key=lambda row: self._numbers[row]))
        self._open = rows
        self._spare = int(assignment.left_over * rows)
        self._inside = 0
        self._most = _PAGE + _PER_SLOT * sum(assignment.slots.values())
        self._in_service = 0
        self._begun_s: float | None = None
        self._over = False
        self._error: BaseException | None = None

    def run(self) -> Report:
        """Work until the end; then ``done`` has the history of every row, or DROPPED."""
        ready_s = time.perf_counter()
        threads = [
            threading.Thread(target=self._serve, args=(pool, number), daemon=True)
            for pool, slots in self._assignment.slots.items()
            for number in range(slots)
        ]
        with self._lock:
            self._admit()
        for thread in threads:
            thread.start()
        with self._lock:
            while self._open > self._spare and not self._is_over():
                self._ended.wait(self._left_s())
            self._over = True
            for waiting in self._work.values():
                waiting.notify_all()
            # calls in progress are finished; threads that wait for a slot notice the end themselves
            while self._in_service:
                self._ended.wait()
            if self._error is not None:
                raise self._error
            ended_s = time.perf_counter()
            begun_s = ended_s if self._begun_s is None else self._begun_s
            monitors = {name: self._monitors[name] for name in self._counts}
            settled = len(self.done) - self._open
            return Report(monitors, self._counts, ended_s - begun_s, begun_s - ready_s, settled)

    def _is_over(self) -> bool:
        return self._over or self._left_s() == 0.0

    def _left_s(self) -> float | None:
        if self._begun_s is None:
            return None
        return max(0.0, self._begun_s + self._assignment.budget_s - time.perf_counter())

    def _serve(self, pool: str, number: int) -> None:
        queue, work = self._queues[pool], self._work[pool]
        with _slot(self._assignment.lock_folder, pool, number) as lock_slot:
            while True:
                with self._lock:
                    if not queue:
                        lock_slot(fcntl.LOCK_UN)
                        work.wait_for(lambda: self._over or bool(queue))
                    if self._over:
                        return
                    _, row, step = heapq.heappop(queue)
                # no-op while it is locked
                lock_slot(fcntl.LOCK_EX)
                with self._lock:
                    if self._is_over():
                        return
                    if self._begun_s is None:
                        self._begun_s = time.perf_counter()
                        self._ended.notify()
                    self._in_service += 1
                self._call(row, step)

    def _call(self, row: int, step: int) -> None:
        began_s = time.perf_counter()
        try:
            holds, error = self._holds[step - self._rules.probes](row), None
        except BaseException as raised:
            holds, error = False, raised
        busy_s = time.perf_counter() - began_s
        with self._lock:
            self._in_service -= 1
            try:
                if error is None:
                    self._settle(row, step, holds, busy_s)
            except BaseException as raised:
                # of a router of the user's
                error = raised
            self._error = self._error or error
            self._over |= self._error is not None or self._open <= self._spare
            if self._over:
                self._ended.notify()

    def _settle(self, row: int, step: int, holds: bool, busy_s: float) -> None:
        count = self._counts[self._names[step]]
        count.done += 1
        count.out += holds
        count.busy_s += busy_s
        slots = self._assignment.slots[self._rules.pools[step]]
        monitor = self._monitors[self._names[step]]
        monitor.observe(time.time(), self._queue(step), done=1, out=int(holds), busy_s=busy_s / slots)
        self.done[row] = self.done[row] | 1 << step if holds else DROPPED
        is_settled = self.done[row] in (DROPPED, self._rules.full)
        if self._over:
            self._open -= is_settled
        elif is_settled or not self._route(row):
            self._leave()
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._inside < self._most:
            self._inside += 1
            if not self._route(self._waiting.popleft()):
                self._leave()

    def _leave(self) -> None:
        self._open -= 1
        self._inside -= 1

    def _route(self, row: int) -> bool:
        """Send a row on; returns whether it stays in this process."""
        step = self._next_step(row)
        if step < self._rules.probes:
            self.targets[row] = step
            self._sent[self._names[step]] += 1
            return False
        self.targets[row] = None
        self._counts[self._names[step]].tuples_in += 1
        pool = self._rules.pools[step]
        heapq.heappush(self._queues[pool], (self._numbers[row], row, step))
        self._monitors[self._names[step]].observe(time.time(), self._queue(step), received=1)
        self._work[pool].notify()
        return True

    def _next_step(self, row: int) -> int:
        target, done, side = self.targets[row], self.done[row], self._sides[row]
        if target is not None:
            # the job that sent it here has routed it already
            return target
        eligible = self._rules.eligible(side, done)
        if len(eligible) == 1:
            return eligible[0]
        statistics, now_s = {}, time.time()
        for step in eligible:
            monitor = self._monitors[self._names[step]]
            monitor.advance(now_s)
            # queues of this process are known as they are now
            statistics[self._names[step]] = replace(monitor.published, queue=self._queue(step))
        given = self._assignment
        view = RoutingView(statistics, self._rules.plans[side], given.now_s, given.rates)
        weights = routed(given.router, self._rules.visited(side, done), list(statistics), view)
        chance = routing_chance(_SEED, self._numbers[row], done.bit_count())
        return self._names.index(next_operator(weights, chance))

    def _queue(self, step: int) -> int:
        if step < self._rules.probes:
            return self._sent[self._names[step]]
        return len(self._queues[self._rules.pools[step]])
