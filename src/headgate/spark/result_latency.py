"""How long results have waited: they are counted by when the tuples that they consist of had arrived."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from headgate.model.network import QueryDefinition
from headgate.model.operator import Eddy
from headgate.spark import sql
from headgate.spark.columns import END_US, TS
from headgate.spark.manifest import Manifest, OperatorState
from headgate.spark.prepare import Prepared

# how many different instants of arrival the latency of a tick's results is resolved into
_INSTANTS = 8
# ticks whose arrival is remembered
_ARRIVALS_REMEMBERED = 10_000


class ArrivalTimes:
    """When the tuples of streams arrived, by timestamp."""

    def __init__(self, streams: Iterable[str]) -> None:
        self._known: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in streams}

    def note(self, stream: str, max_ts: int, now_us: int) -> None:
        """A stream has come as far as this."""
        reached, at_us = self._known[stream]
        if reached and max_ts <= reached[-1]:
            return
        reached.append(max_ts)
        at_us.append(now_us)
        if len(reached) > _ARRIVALS_REMEMBERED:
            del reached[: _ARRIVALS_REMEMBERED // 2], at_us[: _ARRIVALS_REMEMBERED // 2]

    def at_us(self, streams: Iterable[str], ts: int) -> int | None:
        """When the last of some streams had come as far as a timestamp; None if none of them has."""
        found = []
        for stream in streams:
            reached, at_us = self._known[stream]
            place = bisect_left(reached, ts)
            if place < len(reached):
                found.append(at_us[place])
        return max(found, default=None)

    def steps(self, streams: Iterable[str], from_ts: int, most: int) -> list[int]:
        """Timestamps between which all tuples arrived at one time; at most so many, evenly chosen."""
        found: set[int] = set()
        for stream in streams:
            reached, _ = self._known[stream]
            found.update(reached[bisect_left(reached, from_ts) :])
        steps = sorted(found)
        if len(steps) <= most:
            return steps
        return [steps[(place + 1) * len(steps) // most - 1] for place in range(most)]


class ResultLatency:
    """Finds when the tuples of results had arrived. ``streams_of`` are the streams below each operator."""

    def __init__(self, prepared: Prepared, streams_of: Mapping[str, Iterable[str]]) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self._streams_of = streams_of
        self.arrived = ArrivalTimes(self._network.streams)

    def steps(self, query: QueryDefinition, before: Manifest) -> list[int]:
        """Results up to each of these timestamps are to be counted."""
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
        # one of few numbers, so that Spark compiles few counts
        wanted = 1 << (len(found) - 1).bit_length() if found else 0
        return found + [END_US] * (wanted - len(found))

    def _may_have_waited(self, query: QueryDefinition, before: Manifest) -> bool:
        """Whether some results may be of tuples that arrived in an earlier tick."""
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
        """When results' tuples had arrived, and how many results have tuples of that time."""
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
    return f"array({', '.join(f'count_if({own} <= {sql.Bound(step).at(own)})' for step in steps)})"
