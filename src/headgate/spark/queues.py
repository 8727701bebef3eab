"""Queue lengths: what is ready at the start of a tick, and the backlog after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.model.operator import Eddy
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profiles
from headgate.runtime.forecast import ForecastQueue
from headgate.spark.arrival.intake import Arrival
from headgate.spark.eddies.queue import EddySnapshot
from headgate.spark.manifest import BlockRef, Manifest, OperatorState
from headgate.spark.prepared import Prepared, streams_below
from headgate.spark.rows import progress_of
from headgate.spark.sql import END_US


class Queues:
    """Queue lengths of a network. ``streams_of`` are the streams below each operator."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._network = prepared.network
        self.streams_of = streams_below(prepared.network)

    def forecast(
        self,
        before: Manifest,
        arrivals: Mapping[str, Arrival],
        now_s: float,
        snapshots: Mapping[str, EddySnapshot],
        profiles: Profiles,
    ) -> dict[str, ForecastQueue]:
        """Queue lengths at the start of a tick, and the share of each that can be taken."""
        queues: dict[str, ForecastQueue] = {}
        for name, operator in self._network.operators.items():
            if isinstance(operator, Eddy):
                queues[name] = _inside(snapshots[name], operator, arrivals, now_s)
                continue
            bound = self._ready_bound(name, before, arrivals)
            ready = blocked = 0.0
            oldest_s = now_s
            for block, waiting, beyond in self._waiting(name, before, bound, profiles):
                ready, blocked = ready + max(0.0, waiting - beyond), blocked + min(waiting, beyond)
                if waiting:
                    oldest_s = min(oldest_s, block.arrived_us / 1e6)
            for source in operator.inputs:
                if isinstance(source, StreamInput):
                    rows = arrivals[source.stream].rows
                    share = rows.share_below(bound)
                    ready, blocked = ready + rows.count * share, blocked + rows.count * (1 - share)
                elif source.operator in snapshots:
                    for block in snapshots[source.operator].finished:
                        beyond = block.rows_from(bound)
                        ready, blocked = ready + block.rows - beyond, blocked + beyond
                        oldest_s = min(oldest_s, block.arrived_us / 1e6)
            share = ready / (ready + blocked) if ready + blocked else 1.0
            is_ordered = self._prepared.operators[name].is_ordered
            if is_ordered and not any(isinstance(i, StreamInput) for i in operator.inputs):
                share = self._incoming_share(name, arrivals, bound)
            queues[name] = ForecastQueue(ready, blocked, oldest_s, share)
        return queues

    def _waiting(
        self, name: str, manifest: Manifest, bound: int, profiles: Profiles
    ) -> Iterator[tuple[BlockRef, float, float]]:
        """Blocks, each with the approximate number of tuples that wait, and that wait beyond a bound."""
        state = manifest.operators.get(name, OperatorState())
        for number, blocks in enumerate(state.blocks):
            passed_ts, selectivity = END_US, 1.0
            for select in self._prepared.through(name, number) or ():
                # tuples that a selection has not passed on yet wait for the selection
                below = manifest.operators.get(select.name, OperatorState())
                passed_ts = min(passed_ts, below.progress_ts if any(below.blocks) else END_US)
                selectivity *= profiles[select.name].selectivity
            for block in blocks:
                unpassed = block.rows_from(passed_ts) if passed_ts < END_US else 0.0
                waiting = max(0.0, block.rows_from(state.progress_ts) - unpassed) * selectivity
                beyond = max(0.0, block.rows_from(bound) - unpassed) * selectivity
                yield block, waiting, beyond

    def _ready_bound(self, name: str, before: Manifest, arrivals: Mapping[str, Arrival]) -> int:
        """How far an operator could progress with what the operators below it have passed on so far."""
        if not self._prepared.operators[name].is_ordered:
            return END_US
        bound = progress_of([arrivals[stream].rows for stream in self.streams_of[name]])
        return min([bound, *self._held_back_at(name, before)])

    def _held_back_at(self, name: str, before: Manifest) -> list[int]:
        """Progress of operators below that still hold tuples: nothing beyond it may be taken."""
        found = []
        for source in self._network.operators[name].inputs:
            if isinstance(source, OperatorInput):
                below = before.operators.get(source.operator, OperatorState())
                if isinstance(self._network.operators[source.operator], Eddy):
                    found += [block.min_ts for side in below.blocks for block in side]
                elif any(below.blocks):
                    found.append(below.progress_ts)
                found += self._held_back_at(source.operator, before)
        return found

    def _incoming_share(self, name: str, arrivals: Mapping[str, Arrival], bound: int) -> float:
        reaching = [arrivals[stream].rows for stream in self.streams_of[name]]
        total = sum(rows.count for rows in reaching)
        return sum(rows.count * rows.share_below(bound) for rows in reaching) / total if total else 1.0

    def lengths(self, after: Manifest, profiles: Profiles) -> dict[str, tuple[float, float]]:
        """Tuples and bytes that wait before each operator."""
        found = {}
        for name in self._network.operators:
            tuples = size = 0.0
            for block, waiting, _ in self._waiting(name, after, END_US, profiles):
                tuples += waiting
                size += block.bytes * waiting / block.rows
            found[name] = tuples, size
        return found

    def backlog(self, after: Manifest, lengths: Mapping[str, tuple[float, float]]) -> tuple[int, int, int]:
        """Tuples and bytes that wait, and bytes held by windows; a shared block counts once."""
        tuples = sum(length for length, _ in lengths.values())
        size = sum(own for _, own in lengths.values())
        for stream in after.streams.values():
            waiting = sum(block.rows_from(stream.watermark_ts) for block in stream.tail)
            tuples += waiting
            size += sum(b.bytes / b.rows * b.rows_from(stream.watermark_ts) for b in stream.tail)
        held = {block.path: block.bytes for block in after.block_refs()}
        return round(tuples), round(size), max(0, round(sum(held.values()) - size))


def _inside(
    snapshot: EddySnapshot, eddy: Eddy, arrivals: Mapping[str, Arrival], now_s: float
) -> ForecastQueue:
    """Tuples inside an eddy are work of its pools, not of the tick."""
    rows = float(sum(block.rows for block in snapshot.inside))
    if isinstance(eddy.input, StreamInput):
        rows += arrivals[eddy.input.stream].rows.count
    oldest_s = min([now_s, *(block.arrived_us / 1e6 for block in snapshot.inside)])
    return ForecastQueue(0.0, rows, oldest_s, ready_share=0.0)
