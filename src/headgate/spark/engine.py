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

from pyspark.sql import DataFrame

from headgate.model.event import Event, ProfilesLearnt, TickCommitted, TuplesArrived
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import SystemView, Turn
from headgate.runtime.forecast import Forecast
from headgate.spark.tick import TickRunner
from headgate.spark.tick_plan import Chosen, OpenTick
from headgate.statistics.store import StatisticsStore

RestTime = Callable[[float], float]
"""Seconds to wait after a tick of a given length, while tuples for the next one arrive."""


def no_rest(tick_s: float) -> float:
    """Start every tick as soon as the previous one has ended."""
    del tick_s
    return 0.0


@dataclass(frozen=True)
class TickLimits:
    """Limits of a tick: CPU seconds, and bytes of backlog above which sources are held back."""

    budget_s: float = float("inf")
    memory_bytes: float = float("inf")
    processors: int = 1


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
    ) -> None:
        self._runner = runner
        self.limits = limits
        self._clock_s = clock_s
        self.statistics.operators.assume_widths(runner.widths_bytes())
        self._inbox: queue.Queue[_Handover | None] = queue.Queue()
        self._events: deque[Event] = deque()
        self._tick: OpenTick | None = None
        self._handover: _Handover | None = None
        self._forecast: Forecast | None = None
        self._opened_s = 0.0
        self._over = threading.Event()
        self.stopping = False
        self.is_alive: Callable[[], bool] = lambda: True
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
        """Whether the tick's budget has room; a backlog above the memory limit extends the budget."""
        if self._forecast is None:
            return False
        if self._forecast.spent and self._forecast.backlog_bytes() > self.limits.memory_bytes:
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
        if self._tick is None:
            return self._open()
        return self._close()

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
        now_s = self._clock_s()
        self._tick = self._runner.open(handover.batch, handover.batch_id, now_s)
        queues = self._runner.forecast_queues(self._tick, self.profiles())
        limits = self.limits
        self._forecast = Forecast(
            self.network,
            self.profiles(),
            queues,
            now_s,
            limits.budget_s * limits.processors,
            limits.processors,
        )
        self._opened_s = time.perf_counter()
        arrived = {name: round(arrival.rows.count) for name, arrival in self._tick.arrivals.items()}
        return TuplesArrived(now_s, arrived)

    def _await_batch(self) -> _Handover | None:
        while True:
            try:
                return self._inbox.get(timeout=0.5)
            except queue.Empty:
                if not self.is_alive():
                    return None

    def _close(self) -> TickCommitted:
        assert self._tick is not None and self._forecast is not None and self._handover is not None
        self._tick.phases_s["choose"] = time.perf_counter() - self._opened_s
        chosen = Chosen(
            {name: self._forecast.taken_share(name) for name in self.network.operators},
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
        handover = self._handover
        self._tick = self._forecast = self._handover = None
        rest_s = self._rest_s(outcome.event.seconds)
        self._over.wait(rest_s)
        handover.done.set()
        if self._runner.manifest.flushed and outcome.event.backlog_tuples == 0:
            # the input has ended and all of it is processed
            self.stop()
        return replace(outcome.event, phases_s={**outcome.event.phases_s, "rest": rest_s})
