"""Result latency, and the share of its input that a query's results are based on."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from headgate.model.event import StreamCounts, keep_ratio
from headgate.model.joins import WindowUpdate
from headgate.model.network import Network, QueryDefinition
from headgate.model.operator import Aggregate, Eddy, Table
from headgate.model.window import TimeWindow, UnboundedWindow, UntilWindow, Window
from headgate.spark import sql
from headgate.spark.arrival.intake import Arrival
from headgate.spark.manifest import Manifest, OperatorState
from headgate.spark.prepared import Prepared
from headgate.spark.sql import BEGINNING_US, END_US, TS

# resolution of result latency in a tick: number of distinct arrival times
_INSTANTS = 8
# ticks whose arrival time is remembered
_ARRIVALS_REMEMBERED = 10_000


class ArrivalTimes:
    """When the tuples of streams arrived, by timestamp."""

    def __init__(self, streams: Iterable[str]) -> None:
        self._known: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in streams}

    def note(self, stream: str, max_ts: int, now_us: int) -> None:
        """Record that a stream has reached a timestamp."""
        reached, at_us = self._known[stream]
        if reached and max_ts <= reached[-1]:
            return
        reached.append(max_ts)
        at_us.append(now_us)
        if len(reached) > _ARRIVALS_REMEMBERED:
            del reached[: _ARRIVALS_REMEMBERED // 2], at_us[: _ARRIVALS_REMEMBERED // 2]

    def at_us(self, streams: Iterable[str], ts: int) -> int | None:
        """When the last of some streams reached a timestamp; None if none of them has."""
        found = []
        for stream in streams:
            reached, at_us = self._known[stream]
            place = bisect_left(reached, ts)
            if place < len(reached):
                found.append(at_us[place])
        return max(found, default=None)

    def steps(self, streams: Iterable[str], from_ts: int, most: int) -> list[int]:
        """Timestamps that separate arrival times; at most ``most`` of them, evenly chosen."""
        found: set[int] = set()
        for stream in streams:
            reached, _ = self._known[stream]
            found.update(reached[bisect_left(reached, from_ts) :])
        steps = sorted(found)
        if len(steps) <= most:
            return steps
        return [steps[(place + 1) * len(steps) // most - 1] for place in range(most)]


class ResultLatency:
    """Determines when the tuples of results arrived. ``streams_of`` are the streams below each operator."""

    def __init__(self, prepared: Prepared, streams_of: Mapping[str, Iterable[str]]) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self._streams_of = streams_of
        self.arrived = ArrivalTimes(self._network.streams)

    def steps(self, query: QueryDefinition, before: Manifest) -> list[int]:
        """Timestamps up to which results are counted."""
        if not self._may_have_waited(query, before):
            return []
        waits_since = [END_US]
        for name in self._network.operators_of(query.name):
            state = before.operators.get(name, OperatorState())
            if self._prepared.operators[name].is_ordered:
                waits_since.append(state.progress_ts)
            else:
                waits_since += [block.min_ts for side in state.blocks for block in side]
        streams = self._network.streams_of(query.name)
        found = self.arrived.steps(streams, min(waits_since), _INSTANTS)
        # padded, so that a query has few variants, each with a plan of its own
        return found + [END_US] * (_INSTANTS - len(found)) if len(found) > 1 else found

    def _may_have_waited(self, query: QueryDefinition, before: Manifest) -> bool:
        """Whether results may stem from tuples of an earlier tick."""
        names = self._network.operators_of(query.name)
        operators = [self._prepared.operators[name] for name in names]
        if any(operator.is_ordered or isinstance(operator.settings, Eddy) for operator in operators):
            return True
        states = [state for name, state in before.operators.items() if name in names]
        streams = {stream for name in names for stream in self._streams_of[name]}
        return any(any(s.blocks) for s in states) or any(self._prepared.logs[s].is_sequenced for s in streams)

    def arrived_at(
        self, query: QueryDefinition, steps: Sequence[int], until: Sequence[int], rows: int, now_us: float
    ) -> tuple[tuple[float, float], ...]:
        """Arrival times of the tuples of results, each with its number of results."""
        streams = self._network.streams_of(query.name)
        counts, below = [], 0
        for step, count in zip(steps, until, strict=True):
            at_us = self.arrived.at_us(streams, step)
            counts.append((now_us if at_us is None else float(at_us), float(count - below)))
            below = count
        counts.append((now_us, float(rows - below)))
        return tuple((at_us, count) for at_us, count in counts if count)


def counts_until(steps: Sequence[int]) -> str:
    """SQL that counts results up to each timestamp."""
    own = sql.name(TS)
    # Spark knows that boundaries of sliding windows are never NULL
    anchor = f"nullif({own}, {BEGINNING_US}L)"
    return f"array({', '.join(f'count_if({own} <= {sql.Bound(step).at(anchor)})' for step in steps)})"


class KeepRatios:
    """Counts what drop boxes let through, for as long as windows reach back."""

    def __init__(self, network: Network) -> None:
        self._streams_of = {query: network.streams_of(query) for query in network.queries}
        self._reach_us = {query: _reach_us(network, query) for query in network.queries}
        self._longest_us = max((r for r in self._reach_us.values() if r < inf), default=0.0)
        self._recent: dict[str, deque[tuple[int, StreamCounts]]] = {s: deque() for s in network.streams}

    def add(self, arrivals: Mapping[str, Arrival]) -> dict[str, float]:
        """Add a tick's tuples; the share that each query's results of this tick are based on."""
        for stream, arrival in arrivals.items():
            recent, max_ts = self._recent[stream], arrival.state.max_ts
            if arrival.counts.rows_in:
                recent.append((max_ts, arrival.counts))
            # the last one stays, for ticks without tuples
            while len(recent) > 1 and recent[0][0] < max_ts - self._longest_us:
                recent.popleft()
        return {query: self._ratio(query, arrivals) for query in self._streams_of}

    def _ratio(self, query: str, arrivals: Mapping[str, Arrival]) -> float:
        reach_us = self._reach_us[query]
        if reach_us == inf:
            return keep_ratio(arrivals[stream].state.totals for stream in self._streams_of[query])
        counts = []
        for stream in self._streams_of[query]:
            recent = self._recent[stream]
            since = arrivals[stream].state.max_ts - reach_us
            counts += [found for ts, found in recent if ts >= since] or [found for _, found in [*recent][-1:]]
        return keep_ratio(counts)


def _reach_us(network: Network, query: str) -> float:
    """How far back the windows of a query reach; row windows count as the tick alone."""
    windows: list[Window] = []
    for operator in (network.operators[name] for name in network.operators_of(query)):
        if isinstance(operator, WindowUpdate):
            windows += [side.window for side in operator.sides]
        elif isinstance(operator, Aggregate):
            windows.append(operator.window)
        elif isinstance(operator, Table):
            windows.append(UnboundedWindow())
    if any(isinstance(window, (UnboundedWindow, UntilWindow)) for window in windows):
        return inf
    return max((w.reach_us for w in windows if isinstance(w, TimeWindow)), default=0)
