"""The eddy worker: inside one task, a thread per slot, a queue per pool, and a router in between.

Tuples go from predicate to predicate without leaving the process. Workers of other tasks share the slots of
the pools; each routes its own tuples, by statistics that all of them publish. When a worker's time is over,
unfinished tuples are handed back with their histories.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headgate.routing.monitor import Intervals
from headgate.routing.policies import Router, RoutingView, next_operator, routing_chance
from headgate.runtime.usercode import routed
from headgate.spark.eddies.publication import Count, Publication, Report
from headgate.spark.eddies.slot_server import PUBLISH_S, SlotAccess, SlotClient, Statistics
from headgate.spark.eddies.visit_rules import VisitRules

Holds = Callable[[int], bool]
"""Whether a predicate holds for a row."""

DROPPED = -1
"""In place of a history: a predicate does not hold."""

# so many tuples, and some per slot, are routed at a time: the others wait, to be routed by newer statistics
_PAGE = 40
_PER_SLOT = 4
_SEED = 0
# how long a worker keeps a slot while others wait for it
_TURN_S = 0.2


@dataclass(frozen=True)
class Step:
    """A placed predicate; ``function`` is pickled, ``arguments`` and ``tests`` are numbers of columns.

    ``comparison`` is empty for a function that returns BOOLEAN: then ``tests`` has a column for each of true,
    false and null; otherwise it has the column that the result is compared with. ``value`` is the name of the
    column that the result becomes, if it is no condition. ``in_processes``: calls
    are made in processes of their own instead of threads.
    """

    function_name: str
    function: bytes
    arguments: tuple[int, ...]
    comparison: str
    tests: tuple[int, ...]
    value: str = ""
    in_processes: bool = False


@dataclass(frozen=True)
class Assignment:
    """All that a worker needs to know beside its tuples."""

    rules: VisitRules
    steps: tuple[Step, ...]
    """The steps that call functions, which come after the probes."""
    slots: Mapping[str, int]
    """Concurrent calls of each pool."""
    access: SlotAccess
    """How a worker gets slots."""
    budget_s: float
    left_over: float
    """Share of the tuples that may be handed back: the last ones would keep few pools busy."""
    router: Router
    statistics: Statistics
    """As published when the job began; queues are those of other workers."""
    queues: Mapping[str, int]
    """Tuples waiting for each probe."""
    rates: Mapping[str, float]
    now_s: float


@dataclass(eq=False, repr=False)
class EddyWorker:
    """Takes rows through predicates until all are settled or the time is over.

    ``targets`` are the steps that rows have been sent to; in the end, the probes of other jobs.
    """

    _assignment: Assignment
    _holds: Sequence[Holds]
    done: list[int]
    _numbers: Sequence[int]
    _slots: SlotClient
    _sides: Sequence[int] = ()
    targets: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        assignment, rows = self._assignment, len(self.done)
        self._sides = self._sides or [0] * rows
        self.targets = self.targets or [None] * rows
        self._rules = assignment.rules
        self._names = assignment.rules.names
        self._counts, self._totals = self._no_counts(), self._no_counts()
        self._published_s = time.perf_counter()
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
        self._slots.at_job_end(self._end_with_others)

    def run(self) -> Report:
        """Work until the end; then ``done`` has the history of every row, or DROPPED."""
        ready_s = time.perf_counter()
        with self._lock:
            self._admit()
        for pool, slots in self._assignment.slots.items():
            for _ in range(slots):
                threading.Thread(target=self._serve, args=(pool,), daemon=True).start()
        self._wait_while(lambda: self._open > self._spare and not self._is_over())
        with self._lock:
            self._over = True
            for waiting in self._work.values():
                waiting.notify_all()
        self._slots.stop_waiting()
        # calls in progress are finished
        self._wait_while(lambda: self._in_service > 0)
        if self._error is not None:
            raise self._error
        ended_s = time.perf_counter()
        begun_s = ended_s if self._begun_s is None else self._begun_s
        last, settled = self._publication(), len(self.done) - self._open
        report = Report(
            last,
            self._totals,
            ended_s - begun_s,
            begun_s - ready_s,
            settled,
            is_settled=self._open <= self._spare,
        )
        self._slots.end(report)
        return report

    def _end_with_others(self) -> None:
        """Hand tuples back: another worker has none left, and others wait that can be divided anew."""
        if self._assignment.left_over:
            with self._lock:
                self._over = True
                self._ended.notify()

    def _wait_while(self, holds: Callable[[], bool]) -> None:
        """Wait, and publish statistics at intervals."""
        while True:
            with self._lock:
                while (is_on := holds()) and not self._is_publishing():
                    self._ended.wait(min(PUBLISH_S, self._left_s() or PUBLISH_S))
            if not is_on:
                return
            self._slots.publish(self._publication())

    def _is_publishing(self) -> bool:
        if time.perf_counter() - self._published_s >= PUBLISH_S:
            return True
        return any(count.done >= Intervals.tuples for count in self._counts.values())

    def _publication(self) -> Publication:
        with self._lock:
            now_s = time.perf_counter()
            elapsed_s, self._published_s = now_s - self._published_s, now_s
            counts, self._counts = self._counts, self._no_counts()
            for name, count in counts.items():
                self._totals[name].add(count)
            # what is left in the end is no queue any more
            queues = {name: 0 if self._over else self._queue(self._names.index(name)) for name in counts}
        return Publication(counts, queues, elapsed_s)

    def _no_counts(self) -> dict[str, Count]:
        return {name: Count() for name in self._names[self._rules.probes :]}

    def _is_over(self) -> bool:
        return self._over or self._left_s() == 0.0

    def _left_s(self) -> float | None:
        if self._begun_s is None:
            return None
        return max(0.0, self._begun_s + self._assignment.budget_s - time.perf_counter())

    def _serve(self, pool: str) -> None:
        turn_begun_s: float | None = None
        while (next_call := self._next_call(pool, turn_begun_s)) is not None:
            row, step, turn_begun_s = next_call
            self._call(row, step)

    def _next_call(self, pool: str, turn_begun_s: float | None) -> tuple[int, int, float] | None:
        """A row and its step, once there is a slot for it, and since when there is; None at the end.

        ``turn_begun_s`` is since when the thread has had a slot; None if it has none.
        """
        queue, work = self._queues[pool], self._work[pool]
        while True:
            with self._lock:
                if not queue and turn_begun_s is not None:
                    self._slots.release(pool)
                    turn_begun_s = None
                work.wait_for(lambda: self._over or bool(queue))
            if turn_begun_s is None:
                has_slot, turn_begun_s = self._slots.acquire(pool), time.perf_counter()
            elif time.perf_counter() - turn_begun_s > _TURN_S:
                has_slot, turn_begun_s = self._slots.take_turns(pool), time.perf_counter()
            else:
                has_slot = True
            with self._lock:
                if not has_slot or self._is_over():
                    if has_slot:
                        self._slots.release(pool)
                    return None
                if queue:
                    if self._begun_s is None:
                        self._begun_s = time.perf_counter()
                        self._ended.notify()
                    self._in_service += 1
                    _, row, step = heapq.heappop(queue)
                    return row, step, turn_begun_s

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
            if self._over or self._is_publishing():
                self._ended.notify()

    def _settle(self, row: int, step: int, holds: bool, busy_s: float) -> None:
        count = self._counts[self._names[step]]
        count.done += 1
        count.out += holds
        count.busy_s += busy_s
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
        published, statistics = self._slots.statistics, {}
        for step in eligible:
            known = published[self._names[step]]
            # the queues of this process are known as they are now
            statistics[self._names[step]] = replace(known, queue=known.queue + self._queue(step))
        given = self._assignment
        view = RoutingView(statistics, self._rules.plans[side], given.now_s, given.rates)
        weights = routed(given.router, self._rules.visited(side, done), list(statistics), view)
        chance = routing_chance(_SEED, self._numbers[row], done.bit_count())
        return self._names.index(next_operator(weights, chance))

    def _queue(self, step: int) -> int:
        if step < self._rules.probes:
            return self._sent[self._names[step]]
        return len(self._queues[self._rules.pools[step]])
