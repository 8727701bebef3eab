"""The engine in virtual time, under the protocol of ``runtime.engine``.

A turn is cut to the head of its first operator's queue: after every entry that an operator has finished
the strategy is asked anew, so no choice outlives the state that it was made in. With a time unit, work is
also interrupted at every multiple of it; what was done is kept.
"""

from __future__ import annotations

import heapq
from collections import deque

from headgate.errors import StalledError
from headgate.model.event import Event, TimeUnitEnded, TuplesArrived, TurnFinished
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.view import QueueView, SystemView, Turn
from headgate.simulator.entry import Entry
from headgate.simulator.layout import Layout
from headgate.simulator.queues import Queues
from headgate.simulator.records import Records
from headgate.simulator.scenario import OnePerOperator, Scenario
from headgate.simulator.waiting import ArrivalsOf


class VirtualEngine:
    """Runs a scenario, event by event."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._layout = layout = Layout.of(scenario)
        self._index = {name: index for index, name in enumerate(layout.names)}
        self._queues = Queues(scenario, layout)
        self._now = 0
        self._next_rank = 0
        self._unit = layout.grid.ticks(scenario.time_unit_s) if scenario.time_unit_s is not None else 0
        self._processors = scenario.processors
        # (end, order of starting, operator, entry): what every busy processor does
        self._under_way: list[tuple[int, int, int, Entry]] = []
        self._started = 0
        self._events: deque[Event] = deque()
        self._ordered = tuple(i for i, upstream in enumerate(layout.upstream) if upstream is not None)
        self._views = {name: self._view_of(index) for index, name in enumerate(layout.names)}

    @property
    def network(self) -> Network:
        """The network that runs."""
        return self._scenario.network

    @property
    def layout(self) -> Layout:
        """The scenario by numbers."""
        return self._layout

    def profiles(self) -> Profiles:
        """The scenario's figures: here, what is known is true."""
        return self._scenario.profiles

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self._layout.grid.seconds(self._now)

    def records(self) -> Records:
        """What has happened so far."""
        return self._queues.notebook.records()

    def view(self) -> SystemView:
        """The queues at this instant; of those in timestamp order, only the head is ready."""
        # what is ready in timestamp order changes with what happens elsewhere
        for index in (*self._queues.touched, *self._ordered):
            self._views[self._layout.names[index]] = self._view_of(index)
        self._queues.touched.clear()
        return SystemView(self.now_s, dict(self._views))

    def _view_of(self, index: int) -> QueueView:
        queue, grid = self._queues.queues[index], self._layout.grid
        ready = self._ready_amount(index)
        return QueueView(
            operator=self._layout.names[index],
            length=max(queue.amount, ready),
            ready=ready,
            bytes=queue.bytes,
            oldest_s=grid.seconds(queue.waiting[0].arrival_tick) if queue.waiting else float("inf"),
            arrivals_s=ArrivalsOf(queue.waiting, grid),
            begun=bool(queue.waiting) and queue.waiting[0].remaining_ticks >= 0,
        )

    def _ready_amount(self, operator: int) -> float:
        if not self._may_start(operator):
            return 0.0
        queue = self._queues.queues[operator]
        head = queue.waiting[0].amount
        if self._layout.upstream[operator] is not None:
            return head
        # a sum from which others were taken may have lost a small page in its rounding
        return max(head, queue.amount - sum(entry.amount for entry in queue.serving))

    def _may_start(self, operator: int) -> bool:
        if isinstance(self._processors, OnePerOperator) and self._queues.queues[operator].serving:
            return False
        return self._queues.is_ready(operator)

    def accepts_turn(self) -> bool:
        """Whether all events of this instant are told and a processor is free for waiting work."""
        if self._events:
            return False
        if isinstance(self._processors, OnePerOperator):
            return any(map(self._may_start, range(len(self._layout.names))))
        return len(self._under_way) < self._processors.processors and self._queues.waiting > 0

    def start(self, turn: Turn) -> None:
        """Serve the head of the first operator's queue."""
        operator = self._index[turn.operators[0]]
        if not self._may_start(operator):
            raise StalledError(f"the strategy chose {turn.operators[0]}, which has nothing ready")
        entry = self._queues.begin(operator)
        end = self._now + entry.remaining_ticks
        heapq.heappush(self._under_way, (end, self._started, operator, entry))
        self._started += 1

    def next_event(self) -> Event | None:
        """Go on to the next instant at which something happens; None when all is done."""
        if not self._events:
            instant = self._next_instant()
            if instant is None:
                return None
            self._now = instant
            self._complete()
            self._arrive()
            if self._unit and instant % self._unit == 0:
                self._interrupt()
        return self._events.popleft()

    def _next_instant(self) -> int | None:
        ticks = self._layout.arrivals.ticks
        coming = [int(ticks[self._next_rank])] if self._next_rank < len(ticks) else []
        if self._under_way:
            coming.append(self._under_way[0][0])
        if not coming:
            self._check_all_done()
            return None
        if self._unit and (self._under_way or self._queues.waiting):
            coming.append((self._now // self._unit + 1) * self._unit)
        return min(coming)

    def _check_all_done(self) -> None:
        left = [name for name, q in zip(self._layout.names, self._queues.queues, strict=True) if q.waiting]
        if left:
            raise StalledError(f"the strategy leaves work waiting at {left[0]} and nothing else will happen")

    def _complete(self) -> None:
        while self._under_way and self._under_way[0][0] == self._now:
            _, _, operator, entry = heapq.heappop(self._under_way)
            self._queues.complete(operator, entry, self._now)
            turn = Turn((self._layout.names[operator],), entry.amount)
            self._events.append(TurnFinished(self.now_s, turn))

    def _arrive(self) -> None:
        arrivals = self._layout.arrivals
        counts: dict[str, int] = {}
        streams = tuple(self.network.streams)
        while self._next_rank < len(arrivals.ticks) and arrivals.ticks[self._next_rank] == self._now:
            stream = int(arrivals.streams[self._next_rank])
            self._queues.arrive(self._next_rank, stream, int(arrivals.numbers[self._next_rank]), self._now)
            counts[streams[stream]] = counts.get(streams[stream], 0) + 1
            self._next_rank += 1
        if counts:
            self._events.append(TuplesArrived(self.now_s, counts))

    def _interrupt(self) -> None:
        # in reverse order of starting, so that equals get back their old order
        for end, _, operator, entry in sorted(self._under_way, key=lambda work: -work[1]):
            self._queues.interrupt(operator, entry, end - self._now)
        self._under_way.clear()
        self._events.append(TimeUnitEnded(self.now_s))
