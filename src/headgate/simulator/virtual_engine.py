"""The engine in virtual time, under the protocol of ``runtime.drive``, and runs of whole scenarios.

A turn is cut to the head of its first operator's queue: the strategy chooses anew after every entry that an
operator finishes, so no choice outlives the state it was made in. With a time unit, work is also interrupted
at every multiple of it; what was done is kept.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from headgate.errors import StalledError
from headgate.model.event import Event, TimeUnitEnded, TuplesArrived, TurnFinished
from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.model.uniform_hash import child_id, exponential, results_of, tuple_id, uniform
from headgate.model.view import QueueView, SystemView, Turn
from headgate.runtime.drive import Observer, drive
from headgate.scheduling import Strategy, room_of
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.strategy import UnitStrategy
from headgate.simulator.entries import ArrivalsOf, Entry, Queue
from headgate.simulator.results import CHANGE, OUTPUT, Records, Report, Result, columns, silent
from headgate.simulator.scenario import OnePerOperator, Reader, Scenario, Upstream

# below this many entries and time units the general loop ends before the compiled one is loaded
_WORTH_COMPILING = 50_000
_REPORT_EVERY = 1000

Room = Callable[[float], float]
Origin = tuple[int, int, int]
"""Rank, tick of arrival and stream of a source tuple."""


class VirtualEngine:
    """Runs a scenario, event by event.

    Given the bytes in queues, ``room_bytes`` returns how many more may arrive; what has no room is shed.
    """

    def __init__(self, scenario: Scenario, room_bytes: Room | None = None) -> None:
        self._room_bytes = room_bytes
        self.network = scenario.network
        self._numbered = numbered = scenario.numbered
        self._scenario = scenario
        self._names, self._grid, self._coming = numbered.names, numbered.grid, numbered.arrivals
        self._index = {name: index for index, name in enumerate(numbered.names)}
        self._behaviours = [scenario.behaviours[name] for name in numbered.names]
        self._streams = tuple(scenario.network.streams)
        self._widths = [scenario.width(stream) for stream in self._streams]
        self._has_own_processors = isinstance(scenario.processors, OnePerOperator)
        self._queues = [Queue() for _ in numbered.names]
        self._waiting = 0
        """Entries that are not in service."""
        self._arrived_ranks = [-1] * len(self._streams)
        self._now = self._next_rank = 0
        self._unit = numbered.grid.ticks(scenario.time_unit_s) if scenario.time_unit_s is not None else 0
        # (end, order of starting, operator, entry) of every busy processor
        self._under_way: list[tuple[int, int, int, Entry]] = []
        self._started = 0
        self._events: deque[Event] = deque()
        self._changes: list[tuple[int, int, int]] = []
        self._outputs: list[tuple[int, int, int, float]] = []
        self._shed = [0] * len(self._streams)
        self._busy_ticks = [0] * len(numbered.names)
        self._turns = [0] * len(numbered.names)
        self._ordered = tuple(i for i, upstream in enumerate(numbered.upstream) if upstream is not None)
        self._touched: set[int] = set()
        """Operators whose queues have changed since the last view."""
        self._views = {name: self._view_of(index) for index, name in enumerate(numbered.names)}

    def profiles(self) -> Profiles:
        """The scenario's profiles, which are exact here."""
        return self._scenario.profiles

    @property
    def now_s(self) -> float:
        return self._grid.seconds(self._now)

    def records(self) -> Records:
        changes, outputs = np.array(self._changes, CHANGE), np.array(self._outputs, OUTPUT)
        busy_ticks, turns = np.array(self._busy_ticks), np.array(self._turns)
        return Records(columns(changes), columns(outputs), busy_ticks, turns, tuple(self._shed))

    def view(self) -> SystemView:
        # whether the head of an ordered operator is ready depends on other queues
        now_ready = ((index, self._may_start(index)) for index in self._ordered)
        moved = [index for index, is_ready in now_ready if is_ready != self._was_ready(index)]
        for index in {*self._touched, *moved}:
            self._views[self._names[index]] = self._view_of(index)
        self._touched.clear()
        return SystemView(self.now_s, dict(self._views))

    def _was_ready(self, index: int) -> bool:
        return self._views[self._names[index]].ready > 0

    def _view_of(self, index: int) -> QueueView:
        queue, ready = self._queues[index], 0.0
        if self._may_start(index):
            ready = queue.waiting[0].amount
            if self._numbered.upstream[index] is None:
                # the rounding of sums may have lost a small page
                ready = max(ready, queue.amount - sum(entry.amount for entry in queue.serving))
        return QueueView(
            operator=self._names[index],
            length=max(queue.amount, ready),
            ready=ready,
            bytes=queue.bytes,
            oldest_s=self._grid.seconds(queue.waiting[0].arrival_tick) if queue.waiting else float("inf"),
            arrivals_s=ArrivalsOf(queue.waiting, self._grid),
            begun=bool(queue.waiting) and queue.waiting[0].remaining_ticks >= 0,
        )

    def _may_start(self, operator: int) -> bool:
        """Whether the head can be taken; in timestamp order, nothing older may still arrive."""
        queue, upstream = self._queues[operator], self._numbered.upstream[operator]
        if not queue.waiting or (self._has_own_processors and queue.serving):
            return False
        if upstream is None:
            return True
        # results leave in timestamp order too, so one at a time
        head = queue.waiting[0]
        return not queue.serving and all(
            self._is_past(below, head, edge) for edge, below in enumerate(upstream) if edge != head.edge
        )

    def _is_past(self, below: Upstream, head: Entry, edge: int) -> bool:
        """Whether nothing that precedes the head can still arrive from below another input."""
        for stream in below.streams:
            arrived = self._arrived_ranks[stream]
            if arrived < head.rank and arrived < self._coming.last_ranks[stream]:
                return False
        oldest = (self._queues[operator].oldest_rank(head.rank + 1) for operator in below.operators)
        return all((rank, edge) >= head.place() for rank in oldest)

    def accepts_turn(self) -> bool:
        """Whether all events of this instant are reported and a processor is free for a waiting entry."""
        if self._events:
            return False
        if isinstance(self._scenario.processors, OnePerOperator):
            return any(map(self._may_start, range(len(self._names))))
        return len(self._under_way) < self._scenario.processors.processors and self._waiting > 0

    def start(self, turn: Turn) -> None:
        operator = self._index[turn.operators[0]]
        if not self._may_start(operator):
            raise StalledError(f"the strategy chose {turn.operators[0]}, which has nothing ready")
        entry = self._queues[operator].waiting.popleft()
        self._queues[operator].serving.append(entry)
        self._waiting -= 1
        self._touched.add(operator)
        if entry.remaining_ticks < 0:
            behaviour = self._behaviours[operator]
            seconds = behaviour.seconds * entry.amount
            if behaviour.service == "exponential":
                seconds *= exponential(uniform(self._numbered.service_keys[operator], entry.identity))
            entry.remaining_ticks = self._grid.ticks(seconds)
        end = self._now + entry.remaining_ticks
        heapq.heappush(self._under_way, (end, self._started, operator, entry))
        self._started += 1

    def next_event(self) -> Event | None:
        """Advance to the next instant at which something happens; None when all is done."""
        if not self._events:
            instant = self._next_instant()
            if instant is None:
                return None
            self._advance(instant)
        return self._events.popleft()

    def _advance(self, instant: int) -> None:
        """Let everything happen that does at an instant; each of it is an event."""
        self._now = instant
        while self._under_way and self._under_way[0][0] == instant:
            _, _, operator, entry = heapq.heappop(self._under_way)
            self._complete(operator, entry)
        self._arrive()
        if self._unit and instant % self._unit == 0:
            self._interrupt()

    def _next_instant(self) -> int | None:
        ticks = self._coming.ticks
        coming = [int(ticks[self._next_rank])] if self._next_rank < len(ticks) else []
        if self._under_way:
            coming.append(self._under_way[0][0])
        if not coming:
            left = [name for name, queue in zip(self._names, self._queues, strict=True) if queue.waiting]
            if left:
                raise StalledError(f"the strategy leaves tuples at {left[0]} and nothing else will happen")
            return None
        if self._unit and (self._under_way or self._waiting):
            coming.append((self._now // self._unit + 1) * self._unit)
        return min(coming)

    def _complete(self, operator: int, entry: Entry) -> None:
        """Finish an entry: its results go to all readers, or leave the system."""
        numbered, behaviour = self._numbered, self._behaviours[operator]
        self._busy_ticks[operator] += entry.remaining_ticks
        self._turns[operator] += 1
        self._queues[operator].finish(entry)
        self._touched.add(operator)
        self._changes.append((self._now, -entry.units, entry.stream))
        width = entry.width * behaviour.size_ratio
        for identity, amount in self._results(operator, entry):
            for query in numbered.outputs[operator]:
                self._outputs.append((self._now, query, entry.arrival_tick, amount))
            if amount > 0:
                origin = entry.rank, entry.arrival_tick, entry.stream
                self._deliver(numbered.readers[operator], identity, amount, width, origin)
        self._events.append(TurnFinished(self.now_s, Turn((self._names[operator],), entry.amount)))

    def _results(self, operator: int, entry: Entry) -> list[tuple[int, float]]:
        """Identities and amounts of what an operator makes of an entry."""
        selectivity = self._behaviours[operator].selectivity
        if self._scenario.fate == "page":
            return [(entry.identity, entry.amount * selectivity)]
        count = results_of(selectivity, uniform(self._numbered.fate_keys[operator], entry.identity))
        return [(child_id(entry.identity, number), 1.0) for number in range(count)]

    def _arrive(self) -> None:
        counts: Counter[str] = Counter()
        shed = 0
        while self._next_rank < len(self._coming.ticks) and self._coming.ticks[self._next_rank] == self._now:
            rank = self._next_rank
            stream = int(self._coming.streams[rank])
            # joins wait no longer for what has been shed
            self._arrived_ranks[stream] = rank
            self._next_rank += 1
            if not self._has_room(stream):
                self._shed[stream] += 1
                shed += 1
                continue
            identity = tuple_id(self._numbered.stream_keys[stream], int(self._coming.numbers[rank]))
            self._deliver(self._numbered.leaves[stream], identity, 1.0, 1.0, (rank, self._now, stream))
            counts[self._streams[stream]] += 1
        if counts or shed:
            self._events.append(TuplesArrived(self.now_s, dict(counts), shed))

    def _has_room(self, stream: int) -> bool:
        """Whether queues can take a tuple of a stream, one for each of its readers."""
        if self._room_bytes is None:
            return True
        size_bytes = self._widths[stream] * len(self._numbered.leaves[stream])
        return size_bytes <= self._room_bytes(sum(queue.bytes for queue in self._queues))

    def _deliver(
        self, readers: tuple[Reader, ...], identity: int, amount: float, width: float, origin: Origin
    ) -> None:
        rank, arrival_tick, stream = origin
        units, size_bytes = self._grid.units(amount * width), amount * width * self._widths[stream]
        for operator, edge in readers:
            entry = Entry(rank, edge, identity, amount, width, units, size_bytes, arrival_tick, stream)
            self._queues[operator].add(entry)
            self._touched.add(operator)
            self._waiting += 1
            self._changes.append((self._now, units, stream))

    def _interrupt(self) -> None:
        # in reverse order of starting, so that equals keep their order
        for end, _, operator, entry in sorted(self._under_way, key=lambda busy: -busy[1]):
            self._busy_ticks[operator] += entry.remaining_ticks - (end - self._now)
            entry.remaining_ticks = end - self._now
            self._queues[operator].put_back(entry)
            self._waiting += 1
            self._touched.add(operator)
        self._under_way.clear()
        self._events.append(TimeUnitEnded(self.now_s))


@dataclass(frozen=True)
class StaticPriority:
    """Serves the ready operator of least ``(level, position)``; ties go to the oldest head, then by ``scan``.

    ``begun_first``: an interrupted entry goes before others of its position.
    """

    scan: tuple[str, ...]
    levels: tuple[int, ...]
    positions: tuple[int, ...]
    begun_first: bool


def static_priority(strategy: Strategy, network: Network, profiles: Profiles) -> StaticPriority | None:
    """The fixed order in which a strategy serves; None if it depends on more than that."""
    names = tuple(network.operators)
    # a subclass may choose in another way
    if type(strategy) is Fifo:
        scan = sorted(names, key=lambda name: (len(network.path_from(name)), name))
        return StaticPriority(tuple(scan), (0,) * len(names), (0,) * len(names), begun_first=False)
    if isinstance(strategy, UnitStrategy) and type(strategy).choose is UnitStrategy.choose:
        strategy.prepare(network, profiles)
        positions = strategy.positions
        scan = sorted(names, key=lambda name: positions[name].level)
        return StaticPriority(
            tuple(scan),
            tuple(positions[name].level for name in names),
            tuple(-positions[name].depth for name in names),
            begun_first=True,
        )
    return None


def simulate(
    scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = (), report: Report = silent
) -> Result:
    """Run to the end; the same scenario and strategy always give the same result.

    Long runs of strategies with static priorities use the compiled loop, unless there are observers. The
    share that is done is reported.
    """
    observers = tuple(observers)
    priority = static_priority(strategy, scenario.network, scenario.profiles)
    if priority is None or observers or scenario.entries + scenario.time_units < _WORTH_COMPILING:
        counters = () if report is silent else (_TurnCounter(scenario.entries, report),)
        return simulate_stepwise(scenario, strategy, (*observers, *counters))
    # takes half a second to import
    from headgate.simulator.compiled_runs import are_independent, run_priority, run_servers

    independent = are_independent(scenario)
    records = run_servers(scenario, report) if independent else run_priority(scenario, priority, report)
    return Result.of(strategy.name, scenario, records)


class _TurnCounter:
    """An observer that reports how much of a run is done."""

    def __init__(self, expected: float, report: Report) -> None:
        self._expected = max(expected, 1.0)
        self._report = report
        self._turns = 0

    def __call__(self, event: Event) -> None:
        self._turns += isinstance(event, TurnFinished)
        if self._turns % _REPORT_EVERY == 0:
            self._report(self._turns / self._expected)


def simulate_stepwise(scenario: Scenario, strategy: Strategy, observers: Iterable[Observer] = ()) -> Result:
    """Run by the loop of all engines, in which the strategy chooses at every step."""
    engine = VirtualEngine(scenario, room_of(strategy))
    drive(engine, strategy, observers)
    return Result.of(strategy.name, scenario, engine.records())
