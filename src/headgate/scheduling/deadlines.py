"""Strategies by deadline: least slack, and chain-flush by a cheap rule and by its exact one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn
from headgate.scheduling.chain_envelope import Chain
from headgate.scheduling.strategy import Strategy, turn_by_position

# a turn under a deadline takes at most this share of the latency bound, so that others are reconsidered
_TURN_SHARE = 0.01
# where the engine does not report arrivals, they are assumed evenly spaced between the head's and now
_ASSUMED = 16
_EQUAL = 1e-9


@dataclass(frozen=True)
class Due:
    """The way from a queue to the output with the tightest deadline.

    ``remaining_s`` is the time of one tuple that passes all operators of the ``route``; ``expected_s`` counts
    with their selectivities.
    """

    route: tuple[str, ...]
    latency_s: float
    remaining_s: float
    expected_s: float

    def slack_s(self, oldest_s: float, now_s: float) -> float:
        """How long a tuple that came at ``oldest_s`` can still wait."""
        return oldest_s + self.latency_s - self.remaining_s - now_s

    def turn(self, queue: QueueView) -> Turn:
        """A turn to the output: at least one tuple, but not so many that others become late."""
        if math.isinf(self.latency_s) or self.remaining_s <= 0:
            return Turn(self.route, queue.ready)
        soon_done = max(1.0, _TURN_SHARE * self.latency_s / self.remaining_s)
        return Turn(self.route, min(queue.ready, soon_done))


def due_by_operator(network: Network, profiles: Profiles, latency_s: float) -> Mapping[str, Due]:
    """Every operator's output with the tightest deadline; ``latency_s`` bounds queries without a bound."""
    bounds: dict[str, float] = {}
    for query in network.queries.values():
        bound = latency_s if query.latency_s is None else query.latency_s
        for output in query.outputs:
            bounds[output] = min(bound, bounds.get(output, math.inf))
    due: dict[str, Due] = {}
    for name in reversed(list(network.operators)):
        seconds, selectivity = profiles[name].seconds_per_tuple, profiles[name].selectivity
        routes = [
            Due((name, *d.route), d.latency_s, seconds + d.remaining_s, seconds + selectivity * d.expected_s)
            for d in (due[reader] for reader in network.readers(name))
        ]
        if name in bounds or not routes:
            routes.append(Due((name,), bounds.get(name, latency_s), seconds, seconds))
        due[name] = min(routes, key=lambda d: (d.latency_s - d.remaining_s, -d.remaining_s))
    return due


class LeastSlack:
    """A query's latency bound gives every operator a latest start; the head closest to its own goes first.

    ``latency_s`` bounds queries that have no bound of their own. Without any, the oldest goes first.
    """

    name = "least-slack"

    def __init__(self, latency_s: float = math.inf) -> None:
        self.latency_s = latency_s

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
        def rank(queue: QueueView) -> tuple[float, float, float]:
            due = self._due[queue.operator]
            return due.slack_s(queue.oldest_s, view.now_s), queue.oldest_s, due.remaining_s

        chosen = min(view.ready(), key=rank, default=None)
        return None if chosen is None else self._due[chosen.operator].turn(chosen)


class ChainFlush:
    """Chain, but a queue whose head must start now to be in time goes first, all the way to the output.

    Only heads of queues are examined. ``latency_s`` bounds queries that have no bound of their own;
    ``margin_s`` is how much earlier to flush, where decisions are far apart. Changes of both take effect with
    the next ``prepare``.
    """

    name = "chain-flush"

    def __init__(self, latency_s: float = math.inf, margin_s: float = 0.0) -> None:
        self.latency_s = latency_s
        self.margin_s = margin_s
        self.base: Strategy = Chain()

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self.base.prepare(network, profiles)
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
        def rank(queue: QueueView) -> tuple[float, float]:
            due = self._due[queue.operator]
            return queue.oldest_s + due.latency_s, due.remaining_s

        latest_s = view.now_s + self.margin_s
        late = [q for q in view.ready() if self._due[q.operator].slack_s(q.oldest_s, latest_s) <= 0]
        first = min(late, key=rank, default=None)
        return self.base.choose(view) if first is None else self._due[first.operator].turn(first)


Unfinished = tuple[float, float, float]
"""A tuple in the system: its arrival, its time to deadline, its remaining processing time."""


def endangered(tuples: Iterable[Unfinished]) -> float | None:
    """The arrival of the first tuple that would be late, if those before it and itself went first.

    Tuples come in order of arrival.
    """
    busy_s = 0.0
    for arrival_s, left_s, remaining_s in tuples:
        busy_s += remaining_s
        # sums of equal times must not differ by their rounding
        if busy_s >= left_s - _EQUAL * busy_s:
            return arrival_s
    return None


class ExactChainFlush:
    """Chain-flush by its exact rule: every waiting tuple is examined, not only heads of queues.

    When some tuple would be late, only it and those before it are served until they have left the system.

    ``latency_s`` bounds queries that have no bound of their own.
    """

    name = "chain-flush-exact"

    def __init__(self, latency_s: float = math.inf) -> None:
        self.latency_s = latency_s
        self._chain = Chain()
        self._flushing: list[float] = []

    def prepare(self, network: Network, profiles: Profiles) -> None:
        self._chain.prepare(network, profiles)
        self._due = due_by_operator(network, profiles, self.latency_s)

    def choose(self, view: SystemView) -> Turn | None:
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
        # everything would be done before the first deadline
        if sum(q.length * due[q.operator].expected_s for q in waiting) < left_s * (1 - _EQUAL):
            return None
        # queues are in order of arrival; the first tuple in danger is often found among the oldest
        by_queue = (self._unfinished(queue, now_s) for queue in waiting)
        return endangered(merge(*by_queue, key=itemgetter(0)))

    def _unfinished(self, queue: QueueView, now_s: float) -> Iterable[Unfinished]:
        due, arrivals = self._due[queue.operator], _arrivals(queue, now_s)
        remaining_s = due.expected_s * queue.length / len(arrivals)
        return ((at, at + due.latency_s - now_s, remaining_s) for at in arrivals)

    def _flush(self, view: SystemView) -> Turn | None:
        if not self._flushing:
            return None
        # the latest flush is within the earlier ones
        until_s = self._flushing[-1]
        turn = turn_by_position(self._chain.positions, (q for q in view.ready() if q.oldest_s <= until_s))
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
