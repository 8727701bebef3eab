"""The pools of a run: how many slots each has, what is known of the predicates, and who routes."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from headgate.errors import SetupError, known_names
from headgate.model.operator import Eddy
from headgate.model.pool import PoolDefinition
from headgate.routing.network import PlacedOperator, RoutingNetwork
from headgate.routing.plans import AnyOrder
from headgate.routing.router import Router, RoutingView
from headgate.routing.statistics import UNKNOWN_SELECTIVITY, Monitor, Outcome
from headgate.runtime.usercode import routed
from headgate.spark.eddies.assignment import Assignment, Count, Step, Told
from headgate.spark.eddies.ways import ways_of

# the rate of what comes in is that of so many seconds
_RATE_S = 10.0
# pools are not at work all of the time: between jobs, and while a call is on its way
_HEADROOM = 1.1
# a line that is longer than what comes in within this time makes for a larger rate
_EMPTY_S = 5.0
# with others in line, a job ends before all its tuples are settled
_LEFT_OVER = 0.25
# before anything is known, every predicate takes the same
_UNKNOWN_S = 0.01


@dataclass(frozen=True)
class PoolStatus:
    """A pool so far. ``busy_s`` adds up the slots."""

    slots: int
    calls: int
    passed: int
    busy_s: float


class Pools:
    """Shared by all eddies of a run; safe to ask from several threads."""

    def __init__(self, pools: Iterable[PoolDefinition], eddies: Iterable[Eddy], router: Router) -> None:
        eddies = tuple(eddies)
        self.router = router
        self._lock = threading.Lock()
        self._routing = threading.Lock()
        self._slots = {pool.name: pool.slots for pool in pools}
        self.ways = {eddy.name: ways_of(eddy) for eddy in eddies}
        steps = [step for ways in self.ways.values() for step in zip(ways.names, ways.pools, strict=True)]
        self._pool_of = dict(steps)
        self._monitors = {name: Monitor() for name in self._pool_of}
        self._counts = {name: Count() for name in self._pool_of}
        self._came: dict[str, deque[tuple[float, int]]] = {
            plan: deque() for ways in self.ways.values() for plan in ways.plans
        }
        if eddies:
            router.prepare(self._network())

    def _network(self) -> RoutingNetwork:
        """The eddies as routing sees them: a pool's second is a unit of resource, whatever its slots."""
        users = list(self._pool_of.values())
        shared = {pool for pool in users if users.count(pool) > 1}
        operators = {
            name: PlacedOperator(
                name,
                per_tuple=_UNKNOWN_S,
                selectivity=UNKNOWN_SELECTIVITY,
                resource=None if pool in shared else 1.0,
                node=pool if pool in shared else None,
            )
            for name, pool in self._pool_of.items()
        }
        plans = {
            plan: AnyOrder(plan, plan, tuple(ways.names[n] for n in ways.others(side)), ways.before(side))
            for ways in self.ways.values()
            for side, plan in enumerate(ways.plans)
        }
        return RoutingNetwork(
            rates=dict.fromkeys(plans, 1.0),
            operators=operators,
            plans=plans,
            nodes=dict.fromkeys(sorted(shared), 1.0),
        )

    def alter(self, pool: str, slots: int) -> None:
        """Give a pool another number of slots; counts from the next job on."""
        if slots < 1:
            raise SetupError("a pool without slots serves nobody; 1 or more")
        with self._lock:
            known = {name.lower(): name for name in self._slots}
            if pool.lower() not in known:
                raise SetupError(f"unknown pool {pool}; known: {known_names(list(self._slots))}")
            self._slots[known[pool.lower()]] = slots

    def slots(self) -> dict[str, int]:
        """Of every pool, now."""
        with self._lock:
            return dict(self._slots)

    def status(self) -> dict[str, PoolStatus]:
        """What every pool has done so far."""
        with self._lock:
            totals = {pool: Count() for pool in self._slots}
            for name, pool in self._pool_of.items():
                totals[pool].add(self._counts[name])
            return {
                pool: PoolStatus(self._slots[pool], total.done, total.out, total.busy_s)
                for pool, total in totals.items()
            }

    def came(self, eddy: str, tuples: Sequence[int]) -> None:
        """Note what came into an eddy, by side."""
        with self._lock:
            for plan, number in zip(self.ways[eddy].plans, tuples, strict=True):
                self._came[plan].append((time.time(), number))

    def monitors(self, names: Iterable[str]) -> dict[str, Monitor]:
        """What is known of predicates."""
        with self._lock:
            return {name: self._monitors[name] for name in names}

    def view(self, plan: str, now_s: float, waiting: Mapping[str, int]) -> RoutingView:
        """What the router may know; its rates are those at which lines get empty in a while."""
        with self._lock:
            statistics = {name: monitor.published for name, monitor in self._monitors.items()}
            came = self._rates(now_s)
        rates = {}
        for eddy, ways in self.ways.items():
            total = sum(came.get(source, 0.0) for source in ways.plans)
            for source in ways.plans:
                if source in came:
                    # who waits in line is told by eddy, and taken to come from where tuples come from
                    share = came[source] / total if total else 1.0
                    rates[source] = _HEADROOM * came[source] + share * waiting[eddy] / _EMPTY_S
        return RoutingView(statistics, plan, now_s, rates)

    def _rates(self, now_s: float) -> dict[str, float]:
        rates = {}
        for plan, came in self._came.items():
            while len(came) > 1 and came[0][0] < now_s - _RATE_S:
                came.popleft()
            # the first block tells when counting began
            seconds = now_s - came[0][0] if came else 0.0
            if seconds > 1.0 and len(came) > 1:
                rates[plan] = sum(tuples for _, tuples in list(came)[1:]) / seconds
        return rates

    def assigned(
        self,
        eddy: str,
        steps: tuple[Step, ...],
        budget_s: float,
        lock_folder: str | None,
        seed: int,
        waiting: Mapping[str, int],
        queues: Mapping[str, int] = MappingProxyType({}),
    ) -> Assignment:
        """What a job is told that begins now; ``waiting`` are the tuples in line before every eddy."""
        now_s = time.time()
        ways = self.ways[eddy]
        view = self.view(ways.plans[0], now_s, waiting)
        with self._routing:
            # a router that solves its weights does so here, and not in every task
            routed(self.router, (), [ways.names[n] for n in ways.ready(0, ways.first(0))], view)
            router = copy.deepcopy(self.router)
        slots = self.slots()
        return Assignment(
            ways=ways,
            steps=steps,
            slots={step.pool: slots[step.pool] for step in steps},
            lock_folder=lock_folder,
            budget_s=budget_s,
            left_over=_LEFT_OVER if waiting[eddy] else 0.0,
            router=router,
            monitors=self.monitors(ways.names),
            queues=queues,
            rates=view.rates,
            now_s=now_s,
            seed=seed,
        )

    def weights(
        self, eddy: str, waiting: Mapping[str, int], queues: Mapping[str, int]
    ) -> dict[tuple[int, int], dict[str, float]]:
        """Where tuples go next, by side and history; ``queues`` are the tuples in line before probes."""
        ways, now_s = self.ways[eddy], time.time()
        found = {}
        for side, plan in enumerate(ways.plans):
            view = self.view(plan, now_s, waiting)
            known = {
                name: replace(view.statistics[name], queue=queues.get(name, view.statistics[name].queue))
                for name in ways.names
            }
            view = replace(view, statistics={**view.statistics, **known})
            with self._routing:
                for done in ways.histories(side):
                    names = [ways.names[step] for step in ways.ready(side, done)]
                    found[side, done] = routed(self.router, ways.visited(side, done), names, view)
        return found

    def probed(self, name: str, tuples: int, out: int, seconds: float, queue: int) -> None:
        """A job has looked tuples up in a window."""
        now_s = time.time()
        with self._lock:
            slots = self._slots[self._pool_of[name]]
            outcome = Outcome(name, tuples, tuples, out, seconds / slots, queue, seconds)
            self._counts[name].add(Count(tuples, tuples, out, seconds))
            self._monitors[name].note(outcome, now_s)
        with self._routing:
            self.router.learn(outcome)

    def take_in(self, told: Told) -> None:
        """A job tells what it has done and learnt."""
        with self._lock:
            self._monitors.update(told.monitors)
            for name, count in told.counts.items():
                self._counts[name].add(count)
        with self._routing:
            for name, did in told.counts.items():
                self.router.learn(
                    Outcome(name, did.tuples_in, did.done, did.out, did.busy_s, 0.0, told.active_s)
                )
