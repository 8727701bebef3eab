"""The pools of a run: their slots, the statistics of their operators, the router, and slots that move."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.errors import SetupError, unknown_name
from headgate.model.network import PoolDefinition
from headgate.model.operator import Eddy
from headgate.routing.monitor import (
    UNKNOWN_SECONDS,
    UNKNOWN_SELECTIVITY,
    Monitor,
    OperatorStatistics,
    Outcome,
)
from headgate.routing.policies import Router, RoutingView
from headgate.routing.routing_network import AnyOrder, PlacedOperator, RoutingNetwork
from headgate.runtime.usercode import routed
from headgate.spark.eddies.publication import Count, Publication, Report
from headgate.spark.eddies.slot_server import SlotAccess
from headgate.spark.eddies.visit_rules import visit_rules
from headgate.spark.eddies.worker import Assignment, Step

# arrival rates are means over this time
_RATE_S = 10.0
# pools pause between jobs, so they need more than the arrival rate
_HEADROOM = 1.1
# waiting tuples should be worked off within this time, so they raise the rate
_EMPTY_S = 5.0
# while other tuples wait, a job ends before all its tuples are settled
_LEFT_OVER = 0.25
# between two moves of a slot, so that the effect of the last one shows
_MOVE_EVERY_S = 5.0
# a pool with this utilisation cannot keep up
_BUSY = 0.9
# a pool that gives a slot away must stay below this
_STAYS_BELOW = 0.8


def rows_of_job(budget_s: float, per_s: float, waiting: int) -> int:
    """Tuples for a job that calls functions for a time; others wait that may be taken along.

    A job that hands its last tuples back would otherwise be over before its time, and pools would wait.
    """
    rows = budget_s * per_s
    return max(1, round(rows if waiting <= rows else rows / (1.0 - _LEFT_OVER)))


@dataclass(frozen=True)
class PoolStatus:
    """What a pool has done so far; ``busy_s`` is the sum over its slots."""

    slots: int
    calls: int
    passed: int
    busy_s: float


class Pools:
    """Shared by all eddies of a run; thread-safe."""

    def __init__(self, pools: Iterable[PoolDefinition], eddies: Iterable[Eddy], router: Router) -> None:
        eddies = tuple(eddies)
        self.router = router
        self._lock = threading.Lock()
        self._routing = threading.Lock()
        self._slots = {pool.name: pool.slots for pool in pools}
        self._rules = {eddy.name: visit_rules(eddy) for eddy in eddies}
        self._pool_of: dict[str, str] = {}
        for rules in self._rules.values():
            self._pool_of |= zip(rules.names, rules.pools, strict=True)
        self._monitors = {name: Monitor(time.time()) for name in self._pool_of}
        self._counts = {pool: Count() for pool in self._slots}
        self._queues: dict[int, Mapping[str, int]] = {}
        """Queues of every worker, as it has published them last."""
        self._arrivals: dict[str, deque[tuple[float, int]]] = {
            plan: deque() for rules in self._rules.values() for plan in rules.plans
        }
        if eddies:
            router.prepare(self._network())

    def _network(self) -> RoutingNetwork:
        """The eddies as a routing network; the resource of a pool is 1, whatever its slots."""
        users = list(self._pool_of.values())
        shared = {pool for pool in users if users.count(pool) > 1}
        operators = {
            name: PlacedOperator(
                name,
                per_tuple=UNKNOWN_SECONDS,
                selectivity=UNKNOWN_SELECTIVITY,
                resource=None if pool in shared else 1.0,
                node=pool if pool in shared else None,
            )
            for name, pool in self._pool_of.items()
        }
        plans = {
            plan: AnyOrder(plan, plan, tuple(rules.names[n] for n in rules.others(side)), rules.before(side))
            for rules in self._rules.values()
            for side, plan in enumerate(rules.plans)
        }
        return RoutingNetwork(
            rates=dict.fromkeys(plans, 1.0),
            operators=operators,
            plans=plans,
            nodes=dict.fromkeys(sorted(shared), 1.0),
        )

    def alter(self, pool: str, slots: int) -> None:
        """Change the number of slots of a pool, from the next job on."""
        if slots < 1:
            raise SetupError("a pool needs 1 or more slots")
        with self._lock:
            known = {name.lower(): name for name in self._slots}
            if pool.lower() not in known:
                raise SetupError(unknown_name("pool", pool, self._slots))
            self._slots[known[pool.lower()]] = slots

    def slots(self) -> dict[str, int]:
        with self._lock:
            return dict(self._slots)

    def status(self) -> dict[str, PoolStatus]:
        with self._lock:
            return {
                pool: PoolStatus(self._slots[pool], count.done, count.out, count.busy_s)
                for pool, count in self._counts.items()
            }

    def record_arrivals(self, eddy: str, tuples: Sequence[int]) -> None:
        """Count tuples that have entered an eddy, by side."""
        with self._lock:
            for plan, number in zip(self._rules[eddy].plans, tuples, strict=True):
                self._arrivals[plan].append((time.time(), number))

    def _view(self, plan: str, now_s: float, waiting: Mapping[str, int]) -> RoutingView:
        """What the router may know; at the rates in it, queues become empty after a while."""
        with self._lock:
            statistics = {name: monitor.published for name, monitor in self._monitors.items()}
            arriving = self._rates(now_s)
        rates = {}
        for eddy, rules in self._rules.items():
            total = sum(arriving.get(source, 0.0) for source in rules.plans)
            for source in rules.plans:
                if source in arriving:
                    # waiting tuples are known by eddy only, and divided by the rates of its sources
                    share = arriving[source] / total if total else 1.0
                    rates[source] = _HEADROOM * arriving[source] + share * waiting[eddy] / _EMPTY_S
        return RoutingView(statistics, plan, now_s, rates)

    def _rates(self, now_s: float) -> dict[str, float]:
        rates = {}
        for plan, blocks in self._arrivals.items():
            while len(blocks) > 1 and blocks[0][0] < now_s - _RATE_S:
                blocks.popleft()
            # the first block marks the beginning and is not counted
            seconds = now_s - blocks[0][0] if blocks else 0.0
            if seconds > 1.0 and len(blocks) > 1:
                rates[plan] = sum(tuples for _, tuples in list(blocks)[1:]) / seconds
        return rates

    def assignment(
        self,
        eddy: str,
        steps: tuple[Step, ...],
        budget_s: float,
        access: SlotAccess,
        waiting: Mapping[str, int],
        queues: Mapping[str, int],
    ) -> Assignment:
        """The assignment of a job that begins now.

        ``waiting`` are the tuples in the queue of every eddy, ``queues`` those that wait for each probe.
        """
        now_s, rules = time.time(), self._rules[eddy]
        view = self._view(rules.plans[0], now_s, waiting)
        with self._routing:
            # a router that has to solve for its weights does so here, not in every task
            eligible = rules.eligible(0, rules.first(0))
            routed(self.router, (), [rules.names[step] for step in eligible], view)
            router = copy.deepcopy(self.router)
        with self._lock:
            return Assignment(
                rules=rules,
                steps=steps,
                slots={pool: self._slots[pool] for pool in rules.pools[rules.probes :]},
                access=access,
                budget_s=budget_s,
                left_over=_LEFT_OVER if waiting[eddy] else 0.0,
                router=router,
                statistics=self._published(rules.names, None),
                queues=queues,
                rates=view.rates,
                now_s=now_s,
            )

    def weights(
        self, eddy: str, waiting: Mapping[str, int], queues: Mapping[str, int]
    ) -> dict[tuple[int, int], dict[str, float]]:
        """Weights of the next operator, by side and history; arguments as of ``assignment``."""
        rules, now_s = self._rules[eddy], time.time()
        weights = {}
        for side, plan in enumerate(rules.plans):
            view = self._view(plan, now_s, waiting)
            known = {name: replace(view.statistics[name], queue=queue) for name, queue in queues.items()}
            view = replace(view, statistics={**view.statistics, **known})
            with self._routing:
                for done in rules.histories(side):
                    names = [rules.names[step] for step in rules.eligible(side, done)]
                    weights[side, done] = routed(self.router, rules.visited(side, done), names, view)
        return weights

    def record_probe(self, name: str, tuples: int, out: int, seconds: float, queue: int) -> None:
        with self._lock:
            busy_s = seconds / self._slots[self._pool_of[name]]
            self._counts[self._pool_of[name]].add(Count(tuples, tuples, out, seconds))
            self._monitors[name].observe(time.time(), queue, tuples, tuples, out, busy_s)
        with self._routing:
            self.router.learn(Outcome(name, tuples, tuples, out, busy_s, queue, seconds))

    def publish(self, worker: int, published: Publication) -> dict[str, OperatorStatistics]:
        """Add what a worker has done; returns statistics in which queues are those of other workers."""
        now_s = time.time()
        with self._lock:
            self._queues[worker] = published.queues
            for name, count in published.counts.items():
                pool, queue = self._pool_of[name], self._queue(name)
                self._counts[pool].add(count)
                work = count.tuples_in, count.done, count.out, count.busy_s / self._slots[pool]
                self._monitors[name].observe(now_s, queue, *work)
            return self._published(self._monitors, worker)

    def learn(self, report: Report) -> None:
        """Let the router learn from a worker that has ended."""
        with self._routing:
            for name, count in report.counts.items():
                work = count.tuples_in, count.done, count.out, count.busy_s
                self.router.learn(Outcome(name, *work, queue=0.0, elapsed_s=report.active_s))

    def leave(self, worker: int) -> None:
        """Forget the queues of a worker that has ended."""
        with self._lock:
            self._queues.pop(worker, None)

    def _queue(self, name: str, without: int | None = None) -> int:
        return sum(queues.get(name, 0) for worker, queues in self._queues.items() if worker != without)

    def _published(self, names: Iterable[str], worker: int | None) -> dict[str, OperatorStatistics]:
        return {
            name: replace(self._monitors[name].published, queue=self._queue(name, worker)) for name in names
        }


class Balance:
    """Moves slots to the pool that cannot keep up, one at a time; the total stays."""

    def __init__(self) -> None:
        self._last: tuple[float, dict[str, float]] | None = None

    def move(self, pools: Mapping[str, PoolStatus], now_s: float) -> dict[str, int]:
        """The pools whose slots change, with their new numbers; empty if none should, or too early."""
        last = self._last
        if last is not None and now_s - last[0] < _MOVE_EVERY_S:
            return {}
        self._last = now_s, {name: pool.busy_s for name, pool in pools.items()}
        if last is None or not pools:
            return {}
        then_s, busy_s = last
        used = {name: (pool.busy_s - busy_s[name]) / (now_s - then_s) for name, pool in pools.items()}
        taker = max(pools, key=lambda name: used[name] / pools[name].slots)
        if used[taker] / pools[taker].slots < _BUSY:
            return {}
        givers = [name for name, pool in pools.items() if name != taker and pool.slots > 1]
        left = {name: used[name] / (pools[name].slots - 1) for name in givers}
        giver = min(left, key=lambda name: left[name], default=None)
        if giver is None or left[giver] > _STAYS_BELOW:
            return {}
        return {taker: pools[taker].slots + 1, giver: pools[giver].slots - 1}
