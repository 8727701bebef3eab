"""The eddy itself, as it turns inside of a task: a thread a slot, a queue a pool, a router in between.

Tuples go from predicate to predicate without leaving the process. When its time is over, what is not finished
is handed back with what it has done.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from headgate.routing.blocks import draw, target
from headgate.routing.router import RoutingView
from headgate.routing.statistics import Outcome
from headgate.runtime.usercode import routed
from headgate.spark.eddies.assignment import DROPPED, Assignment, Count, Told
from headgate.spark.eddies.slots import Slot

Holds = Callable[[int], bool]
"""Whether a predicate holds for a row."""

# so many tuples are on their way at a time, and some for every slot: the others are not routed yet, so that
# they are by what will be known then
_PAGE = 40
_PER_SLOT = 4


class Whirl:
    """Takes rows through predicates until all are settled or time is over."""

    def __init__(
        self,
        assignment: Assignment,
        holds: Sequence[Holds],
        done: list[int],
        numbers: Sequence[int],
        sides: Sequence[int] | None = None,
        aims: list[int | None] | None = None,
    ) -> None:
        """``aims`` are the steps that rows are on their way to; at the end, probes that others will do."""
        self._given = assignment
        self._holds = holds
        self.done = done
        self._numbers = numbers
        self._sides = sides or [0] * len(done)
        self.aims: list[int | None] = aims if aims is not None else [None] * len(done)
        self._ways = assignment.ways
        self._names = assignment.ways.names
        self._monitors = dict(assignment.monitors)
        called = self._names[self._ways.probes :]
        self._counts = {name: Count() for name in called}
        self._sent = dict(assignment.queues)
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._work = {pool: threading.Condition(self._lock) for pool in assignment.slots}
        # first come first served, by when a tuple came to the eddy: what has passed much has waited long
        self._queues: dict[str, list[tuple[int, int, int]]] = {pool: [] for pool in assignment.slots}
        self._noted_s = dict.fromkeys(called, time.time())
        # blocks are read in any order, tuples are served in the order of their arrival
        self._waiting = deque(sorted(range(len(done)), key=lambda row: numbers[row]))
        self._open = len(self._waiting)
        self._rows = self._open
        self._spare = int(assignment.left_over * self._rows)
        self._inside = 0
        self._most = _PAGE + _PER_SLOT * sum(assignment.slots.values())
        self._in_service = 0
        self._begun_s: float | None = None
        self._over = False
        self._error: BaseException | None = None

    def run(self) -> Told:
        """Work until the end; ``done`` has every row's bitmap then, or DROPPED."""
        threads = [
            threading.Thread(target=self._serve, args=(pool, number), daemon=True)
            for pool, slots in self._given.slots.items()
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
            # calls under way are finished; whoever waits for a slot finds out by himself
            while self._in_service:
                self._ended.wait()
            if self._error is not None:
                raise self._error
            active_s = 0.0 if self._begun_s is None else time.perf_counter() - self._begun_s
            learnt = {name: self._monitors[name] for name in self._counts}
            return Told(learnt, self._counts, active_s, self._rows - self._open)

    def _is_over(self) -> bool:
        return self._over or self._left_s() == 0.0

    def _left_s(self) -> float | None:
        if self._begun_s is None:
            return None
        return max(0.0, self._begun_s + self._given.budget_s - time.perf_counter())

    def _serve(self, pool: str, number: int) -> None:
        slot = Slot(self._given.lock_folder, pool, number)
        queue, work = self._queues[pool], self._work[pool]
        try:
            while True:
                with self._lock:
                    if not queue:
                        slot.release()
                        work.wait_for(lambda: self._over or bool(queue))
                    if self._over:
                        return
                    _, row, step = heapq.heappop(queue)
                slot.acquire()
                with self._lock:
                    if self._is_over():
                        return
                    if self._begun_s is None:
                        self._begun_s = time.perf_counter()
                        self._ended.notify()
                    self._in_service += 1
                self._call(row, step)
        finally:
            slot.close()

    def _call(self, row: int, step: int) -> None:
        began_s = time.perf_counter()
        try:
            holds, error = self._holds[step - self._ways.probes](row), None
        except BaseException as raised:
            holds, error = False, raised
        busy_s = time.perf_counter() - began_s
        with self._lock:
            self._in_service -= 1
            try:
                if error is None:
                    self._settle(row, step, holds, busy_s)
            except BaseException as raised:
                # a router of the user's
                error = raised
            if error is not None:
                self._error, self._over = self._error or error, True
                self._ended.notify()
                return
            if self._over or self._open <= self._spare:
                self._ended.notify()

    def _settle(self, row: int, step: int, holds: bool, busy_s: float) -> None:
        name = self._names[step]
        count = self._counts[name]
        count.done += 1
        count.out += holds
        count.busy_s += busy_s
        pool = self._ways.pools[step]
        self._note(step, done=1, out=int(holds), busy_s=busy_s / self._given.slots[pool])
        if not holds:
            self.done[row] = DROPPED
        else:
            self.done[row] |= 1 << step
        is_settled = self.done[row] in (DROPPED, self._ways.full)
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
        """Send a row on; whether it stays in this process."""
        step = self._next_of(row)
        if step < self._ways.probes:
            self.aims[row] = step
            self._sent[self._names[step]] += 1
            return False
        self.aims[row] = None
        self._counts[self._names[step]].tuples_in += 1
        self._note(step, tuples_in=1)
        pool = self._ways.pools[step]
        heapq.heappush(self._queues[pool], (self._numbers[row], row, step))
        self._work[pool].notify()
        return True

    def _next_of(self, row: int) -> int:
        aim, bits, side = self.aims[row], self.done[row], self._sides[row]
        if aim is not None:
            # whoever sent it here has decided already
            return aim
        left = self._ways.ready(side, bits)
        if len(left) == 1:
            return left[0]
        chance = draw(self._given.seed, self._numbers[row], bits.bit_count())
        return self._names.index(target(self._weights_of(side, bits, left), chance))

    def _weights_of(self, side: int, bits: int, left: list[int]) -> dict[str, float]:
        # queues of one's own process are known as they are, whatever was published last
        statistics = {
            self._names[step]: replace(self._monitors[self._names[step]].published, queue=self._queue(step))
            for step in left
        }
        view = RoutingView(statistics, self._ways.plans[side], self._given.now_s, self._given.rates)
        done = self._ways.visited(side, bits)
        return routed(self._given.router, done, [self._names[step] for step in left], view)

    def _queue(self, step: int) -> int:
        if step < self._ways.probes:
            return self._sent[self._names[step]]
        return len(self._queues[self._ways.pools[step]])

    def _note(self, step: int, tuples_in: int = 0, done: int = 0, out: int = 0, busy_s: float = 0.0) -> None:
        name = self._names[step]
        now_s = time.time()
        outcome = Outcome(
            operator=name,
            tuples_in=tuples_in,
            tuples_done=done,
            tuples_out=out,
            busy_s=busy_s,
            queue=self._queue(step),
            elapsed_s=max(0.0, now_s - self._noted_s[name]),
        )
        self._noted_s[name] = now_s
        self._monitors[name].note(outcome, now_s)
