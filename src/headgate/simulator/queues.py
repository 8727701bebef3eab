"""The queues of a run: how entries come, are served, and go on."""

from __future__ import annotations

from headgate.simulator import fate
from headgate.simulator.entry import Entry, Queue
from headgate.simulator.layout import Layout, Place, Upstream
from headgate.simulator.records import Notebook
from headgate.simulator.scenario import Scenario


class Queues:
    """All entries in the system."""

    def __init__(self, scenario: Scenario, layout: Layout) -> None:
        self._layout = layout
        self._figures = [scenario.figures[name] for name in layout.names]
        self._widths = [scenario.width(stream) for stream in scenario.network.streams]
        self._random = scenario.fate == "random"
        self._arrived_ranks = [-1] * len(layout.leaves)
        self.queues = [Queue() for _ in layout.names]
        self.waiting = 0
        """Entries that no processor works on."""
        self.touched: set[int] = set()
        """Operators whose queues have changed; whoever has looked at them clears it."""
        self.notebook = Notebook(len(layout.names))

    def arrive(self, rank: int, stream: int, number: int, now: int) -> None:
        """A stream's tuple comes to all readers."""
        self._arrived_ranks[stream] = rank
        identity = fate.tuple_id(self._layout.stream_keys[stream], number)
        entry = Entry(rank, 0, identity, 1.0, 1.0, self._layout.grid.units(1.0), now, stream)
        self._deliver(entry, self._layout.leaves[stream], now)

    def is_ready(self, operator: int) -> bool:
        """Whether the head of the queue can be taken; in timestamp order, nothing older may come."""
        queue, upstream = self.queues[operator], self._layout.upstream[operator]
        if not queue.waiting:
            return False
        if upstream is None:
            return True
        # results leave in timestamp order too, so one at a time
        head = queue.waiting[0]
        return not queue.serving and all(
            self._is_past(below, head, edge) for edge, below in enumerate(upstream) if edge != head.edge
        )

    def _is_past(self, below: Upstream, head: Entry, edge: int) -> bool:
        """Whether nothing that goes before the head can still come from below another input."""
        for stream in below.streams:
            arrived = self._arrived_ranks[stream]
            if arrived < head.rank and arrived < self._layout.arrivals.last_ranks[stream]:
                return False
        for operator in below.operators:
            oldest = self.queues[operator].oldest_rank(otherwise=head.rank + 1)
            if (oldest, edge) < (head.rank, head.edge):
                return False
        return True

    def begin(self, operator: int) -> Entry:
        """Take the head of a queue into service."""
        entry = self.queues[operator].begin()
        self.waiting -= 1
        self.touched.add(operator)
        if entry.remaining_ticks < 0:
            entry.remaining_ticks = self._service_ticks(operator, entry)
        return entry

    def _service_ticks(self, operator: int, entry: Entry) -> int:
        figures = self._figures[operator]
        seconds = figures.seconds * entry.amount
        if figures.service == "exponential":
            seconds *= fate.exponential(fate.uniform(self._layout.service_keys[operator], entry.identity))
        return self._layout.grid.ticks(seconds)

    def interrupt(self, operator: int, entry: Entry, remaining_ticks: int) -> None:
        """Put an entry back from service; what was done of it stays done."""
        self.notebook.worked(operator, entry.remaining_ticks - remaining_ticks)
        entry.remaining_ticks = remaining_ticks
        self.queues[operator].interrupt(entry)
        self.waiting += 1
        self.touched.add(operator)

    def complete(self, operator: int, entry: Entry, now: int) -> None:
        """An operator is done with an entry: its results go to all readers, or leave the system."""
        self.notebook.worked(operator, entry.remaining_ticks)
        self.notebook.finished(operator)
        self.queues[operator].finish(entry, self._bytes(entry))
        self.touched.add(operator)
        self.notebook.change(now, -entry.units, entry.stream)
        for result in self._results(operator, entry):
            for query in self._layout.outputs[operator]:
                self.notebook.output(now, query, result.amount, entry.arrival_tick)
            if result.amount > 0:
                self._deliver(result, self._layout.readers[operator], now)

    def _results(self, operator: int, entry: Entry) -> list[Entry]:
        figures = self._figures[operator]
        width = entry.width * figures.size_ratio
        if not self._random:
            return [self._result(entry, entry.identity, entry.amount * figures.selectivity, width)]
        chance = fate.uniform(self._layout.fate_keys[operator], entry.identity)
        count = fate.results_of(figures.selectivity, chance)
        return [self._result(entry, fate.child_id(entry.identity, n), 1.0, width) for n in range(count)]

    def _result(self, entry: Entry, identity: int, amount: float, width: float) -> Entry:
        units = self._layout.grid.units(amount * width)
        return Entry(entry.rank, 0, identity, amount, width, units, entry.arrival_tick, entry.stream)

    def _deliver(self, entry: Entry, places: tuple[Place, ...], now: int) -> None:
        for operator, edge in places:
            copy = Entry(
                entry.rank,
                edge,
                entry.identity,
                entry.amount,
                entry.width,
                entry.units,
                entry.arrival_tick,
                entry.stream,
            )
            self.queues[operator].add(copy, self._bytes(copy))
            self.touched.add(operator)
            self.waiting += 1
            self.notebook.change(now, entry.units, entry.stream)

    def _bytes(self, entry: Entry) -> float:
        return entry.amount * entry.width * self._widths[entry.stream]
