"""The engine on Spark: one Structured Streaming query, tick by tick.

Spark's streaming thread hands over each micro-batch and waits; the loop in ``runtime.drive`` lets the
strategy choose turns in predicted time; then the tick is executed and committed, and the thread continues.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from pyspark.sql import DataFrame

from headgate.model.event import Event, ProfilesLearnt, TickCommitted, TickStarted, TuplesArrived
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.runtime.allowance import first_rows, growth
from headgate.runtime.forecast import Forecast, ForecastQueue
from headgate.spark.intake_limits import IntakeLimits
from headgate.spark.tick import TickRunner
from headgate.spark.tick_plan import Chosen, OpenTick
from headgate.statistics.store import StatisticsStore

# a tick that grew for as long as the backlog is too large would not end under a load that is too high
_MOST_BUDGETS = 4
# where costs are measured, they tell what fits into a tick; but they may grow with the tuples
_LEAST_GROWTH = 2.0

# a first micro-batch may well take longer, but looking for the reason costs little
_STALLED_AFTER_S = 10.0

RestTime = Callable[[float], float]
"""Seconds to wait after a tick of a given length, while tuples for the next one arrive."""


def no_rest(tick_s: float) -> float:
    """Start every tick as soon as the previous one has ended."""
    del tick_s
    return 0.0


@dataclass(frozen=True)
class TickLimits:
    """Limits of a tick: CPU seconds, and bytes of backlog above which sources are held back.

    ``target_s`` is how long a tick should take; infinite where nothing waits for its end.
    """

    budget_s: float = float("inf")
    memory_bytes: float = float("inf")
    processors: int = 1
    target_s: float = float("inf")


class _Handover:
    """A micro-batch passed from Spark's thread to the loop and back."""

    def __init__(self, batch: DataFrame, batch_id: int) -> None:
        self.batch = batch
        self.batch_id = batch_id
        self.done = threading.Event()
        self.error: BaseException | None = None


class SparkEngine:
    """Runs a network on Spark, under the protocol of ``runtime.drive``."""

    def __init__(
        self,
        runner: TickRunner,
        limits: TickLimits,
        clock_s: Callable[[], float] = time.time,
        rest_s: RestTime = no_rest,
        intake_limits: IntakeLimits | None = None,
    ) -> None:
        self._runner = runner
        self.limits = limits
        self._intake_limits = intake_limits
        self._most = _most_tuples(runner, limits)
        """Tuples that operators may take in the next tick, whatever their profiles predict."""
        self._clock_s = clock_s
        self.statistics.operators.assume_widths(runner.widths_bytes())
        self._inbox: queue.Queue[_Handover | None] = queue.Queue()
        self._events: deque[Event] = deque()
        self._tick: OpenTick | None = None
        self._handover: _Handover | None = None
        self._forecast: Forecast | None = None
        self._paused: frozenset[str] = frozenset()
        """Operators that take nothing in this tick, as all their queries are paused."""
        self._opened_s = 0.0
        self._over = threading.Event()
        self.stopping = False
        self.is_alive: Callable[[], bool] = lambda: True
        self.on_stall: Callable[[], None] = lambda: None
        """Called now and then while no micro-batch comes, although the clock brings one per second."""
        self._rest_s = rest_s

    @property
    def network(self) -> Network:
        """The network that runs."""
        return self._runner.network

    def profiles(self) -> Profiles:
        """What has been learnt of each operator."""
        return self.statistics.profiles

    @property
    def statistics(self) -> StatisticsStore:
        """What is known of the network."""
        return self._runner.statistics

    def on_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Structured Streaming; returns when the tick is durable."""
        handover = _Handover(batch, batch_id)
        self._inbox.put(handover)
        while not handover.done.wait(0.2):
            if self._over.is_set():
                raise InterruptedError("the run was stopped")
        if handover.error is not None:
            raise handover.error

    def stop(self) -> None:
        """Let ``next_event`` end the run after the current tick."""
        self.stopping = True
        self._inbox.put(None)

    def let_go(self) -> None:
        """Release Spark's thread: its micro-batch will not be processed."""
        self._over.set()

    def fail(self, error: BaseException) -> None:
        """Release Spark's thread with the error that ended the loop."""
        self._over.set()
        if self._handover is not None:
            self._handover.error = error
            self._handover.done.set()

    def view(self) -> SystemView:
        """The queues as predicted at this point of the tick."""
        if self._forecast is None:
            return SystemView(self._clock_s(), {})
        return self._forecast.view()

    def accepts_turn(self) -> bool:
        """Whether the tick's budget has room; a backlog above the memory limit extends it a few times."""
        if self._forecast is None:
            return False
        is_extended = self._forecast.spent_s >= _MOST_BUDGETS * self.limits.budget_s * self.limits.processors
        is_full = self._forecast.backlog_bytes() > self.limits.memory_bytes
        if self._forecast.spent and is_full and not is_extended:
            self._forecast.extend(self.limits.budget_s)
        return not self._forecast.spent

    def start(self, turn: Turn) -> None:
        """Add a turn to the tick."""
        assert self._forecast is not None
        self._forecast.run(turn)

    def next_event(self) -> Event | None:
        """Open a tick when a micro-batch arrives; execute it once its turns are chosen."""
        if self._events:
            return self._events.popleft()
        if self._handover is None:
            return self._open()
        return self._take_in(self._handover) if self._tick is None else self._close()

    def _open(self) -> Event | None:
        while True:
            handover = self._await_batch()
            if handover is None or self.stopping:
                self._over.set()
                return None
            if not self._runner.is_committed(handover.batch_id):
                break
            # the tick was committed, but the process ended before Spark recorded it
            handover.done.set()
        self._handover = handover
        return TickStarted(self._clock_s(), handover.batch_id)

    def _take_in(self, handover: _Handover) -> TuplesArrived:
        now_s = self._clock_s()
        self._tick = self._runner.open(handover.batch, handover.batch_id, now_s)
        queues = self._runner.forecast_queues(self._tick, self.profiles())
        self._paused = self._runner.paused_operators()
        for name in self._paused:
            waiting = queues[name]
            queues[name] = ForecastQueue(0.0, waiting.length, waiting.oldest_s, ready_share=0.0)
        limits = self.limits
        self._forecast = Forecast(
            self.network,
            self.profiles(),
            queues,
            now_s,
            limits.budget_s * limits.processors,
            limits.processors,
            self._most,
        )
        self._opened_s = time.perf_counter()
        arrivals = self._tick.arrivals
        arrived = {name: round(arrival.rows.count) for name, arrival in arrivals.items()}
        return TuplesArrived(now_s, arrived, sum(arrival.counts.shed for arrival in arrivals.values()))

    def _await_batch(self) -> _Handover | None:
        since_s = time.monotonic()
        while True:
            try:
                return self._inbox.get(timeout=0.5)
            except queue.Empty:
                if not self.is_alive():
                    return None
            if time.monotonic() - since_s >= _STALLED_AFTER_S:
                self.on_stall()
                since_s = time.monotonic()

    def _close(self) -> TickCommitted:
        assert self._tick is not None and self._forecast is not None and self._handover is not None
        self._tick.phases_s["choose"] = time.perf_counter() - self._opened_s
        chosen = Chosen(
            {
                name: 0.0 if name in self._paused else self._forecast.taken_share(name)
                for name in self.network.operators
            },
            self._forecast.taken,
            {name: profile.selectivity for name, profile in self.profiles().items()},
        )
        count = self.statistics.operators.wants_counts(max(chosen.taken.values(), default=0.0))
        outcome = self._runner.execute(self._tick, chosen, count, self.profiles())
        now_s = self._clock_s()
        if outcome.change is not None:
            self._events.append(outcome.change)
        if self.statistics.operators.add(outcome.works, outcome.passed, outcome.widths_bytes):
            self._events.append(ProfilesLearnt(now_s))
        waiting = self._learn(self._tick, outcome.event, chosen)
        handover, turns = self._handover, self._forecast.turns
        self._tick = self._forecast = self._handover = None
        rest_s = self._rest_s(outcome.event.seconds)
        self._over.wait(rest_s)
        handover.done.set()
        if self._runner.manifest.flushed and outcome.event.backlog_tuples == 0:
            # the input has ended and all of it is processed
            self.stop()
        phases_s = {**outcome.event.phases_s, "rest": rest_s}
        return replace(outcome.event, phases_s=phases_s, waiting=waiting, turns=turns)

    def _learn(self, tick: OpenTick, committed: TickCommitted, chosen: Chosen) -> frozenset[str]:
        """Size the next tick by this one; the streams of which more may wait in their sources."""
        work_s = committed.busy_s / self.limits.processors
        profiles = self.profiles()
        is_measured = all(profiles[name].samples for name, taken in chosen.taken.items() if taken)
        factor = growth(self.limits.target_s / work_s) if work_s else _LEAST_GROWTH
        if is_measured:
            factor = max(factor, _LEAST_GROWTH)
        for name, most in self._most.items():
            self._most[name] = max(most, factor * chosen.taken[name])
        if self._intake_limits is None:
            return frozenset()
        # what operators of known cost have no time for waits in their queues
        return self._intake_limits.learn(tick, committed, 0.0 if is_measured else work_s)


def _most_tuples(runner: TickRunner, limits: TickLimits) -> dict[str, float]:
    """Tuples that operators may take in a first tick; empty where costs are known or do not matter."""
    if limits.budget_s == inf or runner.statistics.known.profiles:
        return {}
    return dict.fromkeys(runner.network.operators, float(first_rows(limits.target_s)))
