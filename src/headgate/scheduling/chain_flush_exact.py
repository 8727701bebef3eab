"""Chain-flush by its exact rule: every waiting tuple is looked at, not only heads of queues."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn
from headgate.scheduling.chain import Chain
from headgate.scheduling.deadlines import due_by_operator
from headgate.scheduling.units import turn_by_place

# arrivals that the engine does not tell are taken to lie evenly between the head's and now
_ASSUMED = 16
_EQUAL = 1e-9


@dataclass(frozen=True)
class Unfinished:
    """A tuple on its way: when it came, its time to deadline, its remaining processing time."""

    arrival_s: float
    left_s: float
    remaining_s: float


def endangered(tuples: Iterable[Unfinished]) -> float | None:
    """The arrival of the first tuple that would be late, if those before it and itself went first.

    Tuples come in order of arrival.
    """
    work_s = 0.0
    for waiting in tuples:
        work_s += waiting.remaining_s
        # sums of equal times must not differ by their rounding
        if work_s >= waiting.left_s - _EQUAL * work_s:
            return waiting.arrival_s
    return None


class ExactChainFlush:
    """Chain; when some tuple would be late otherwise, only it and those before it, until they are out.

    ``latency_s`` bounds queries that have no bound of their own.
    """

    name = "chain-flush-exact"

    def __init__(self, latency_s: float = math.inf) -> None:
        self.latency_s = latency_s
        self._chain = Chain()
        self._flushing: list[float] = []

    def prepare(self, network: Network, profiles: Profiles) -> None:
        """Prepare chain, and note the time from each queue to the output."""
        self._chain.prepare(network, profiles)
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
        """Chain among the tuples that are being flushed, or among all."""
        waiting = [queue for queue in view.queues.values() if queue.length > 0]
        oldest_s = min((queue.oldest_s for queue in waiting), default=math.inf)
        self._flushing = [until for until in self._flushing if oldest_s <= until]
        until_s = self._endangered(waiting, view.now_s)
        if until_s is not None and (not self._flushing or until_s < self._flushing[-1]):
            self._flushing.append(until_s)
        return self._flush(view) or self._chain.choose(view)

    def _endangered(self, waiting: Sequence[QueueView], now_s: float) -> float | None:
        due = self._due
        left_s = min((q.oldest_s + due[q.operator].latency_s - now_s for q in waiting), default=math.inf)
        # all work there is would be done before the first deadline
        if sum(q.length * due[q.operator].expected_s for q in waiting) < left_s * (1 - _EQUAL):
            return None
        # queues are in order of arrival; the first tuple in danger is often found among the oldest
        by_queue = (self._unfinished(queue, now_s) for queue in waiting)
        return endangered(merge(*by_queue, key=lambda waiting: waiting.arrival_s))

    def _unfinished(self, queue: QueueView, now_s: float) -> Iterable[Unfinished]:
        due, arrivals = self._due[queue.operator], _arrivals(queue, now_s)
        remaining_s = due.expected_s * queue.length / len(arrivals)
        return (Unfinished(at, at + due.latency_s - now_s, remaining_s) for at in arrivals)

    def _flush(self, view: SystemView) -> Turn | None:
        if not self._flushing:
            return None
        # the latest flush is within the earlier ones
        until_s = self._flushing[-1]
        turn = turn_by_place(self._chain.places, (q for q in view.ready() if q.oldest_s <= until_s))
        if turn is None:
            # all of them wait for timestamp order: others must go before
            return None
        arrivals = _arrivals(view.queues[turn.operators[0]], view.now_s)
        share = max(1, bisect_right(arrivals, until_s)) / len(arrivals)
        return Turn(turn.operators, turn.max_tuples * share)


def _arrivals(queue: QueueView, now_s: float) -> Sequence[float]:
    if len(queue.arrivals_s):
        return queue.arrivals_s
    if queue.length <= 1 or queue.oldest_s >= now_s:
        return (queue.oldest_s,)
    gap_s = (now_s - queue.oldest_s) / _ASSUMED
    return [queue.oldest_s + number * gap_s for number in range(_ASSUMED)]
