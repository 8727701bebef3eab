"""The queues as a tick finds them, and what is left in them after it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.model.network import Network
from headgate.model.operator import Eddy, OperatorInput, StreamInput
from headgate.runtime.forecast import ForecastQueue
from headgate.spark.columns import END_US
from headgate.spark.eddies.line import Standing
from headgate.spark.intake import Inflow
from headgate.spark.manifest import Manifest, OperatorState
from headgate.spark.moves import is_ordered


class Queues:
    """Queue lengths of a network. ``streams_of`` are the streams that reach each operator."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.streams_of: dict[str, set[str]] = {}
        for name, operator in network.operators.items():
            self.streams_of[name] = set()
            for source in operator.inputs:
                below = (
                    {source.stream} if isinstance(source, StreamInput) else self.streams_of[source.operator]
                )
                self.streams_of[name] |= below

    def forecast(
        self,
        before: Manifest,
        inflows: Mapping[str, Inflow],
        now_s: float,
        standings: Mapping[str, Standing],
    ) -> dict[str, ForecastQueue]:
        """Queue lengths at the start of a tick, and which share of each can be taken."""
        queues: dict[str, ForecastQueue] = {}
        for name, operator in self._network.operators.items():
            if isinstance(operator, Eddy):
                queues[name] = _inside(standings[name], operator, inflows, now_s)
                continue
            state = before.operators.get(name, OperatorState())
            bound = self._ready_bound(name, before, inflows)
            ready = blocked = 0.0
            oldest_s = now_s
            for number, source in enumerate(operator.inputs):
                for block in state.blocks[number] if number < len(state.blocks) else ():
                    waiting, beyond = block.rows_from(state.frontier_ts), block.rows_from(bound)
                    ready, blocked = ready + max(0.0, waiting - beyond), blocked + min(waiting, beyond)
                    if waiting:
                        oldest_s = min(oldest_s, block.arrived_us / 1e6)
                if isinstance(source, StreamInput):
                    inflow = inflows[source.stream]
                    share = inflow.share_below(bound)
                    ready += inflow.rows * share
                    blocked += inflow.rows * (1 - share)
                elif source.operator in standings:
                    for block in standings[source.operator].finished:
                        beyond = block.rows_from(bound)
                        ready, blocked = ready + block.rows - beyond, blocked + beyond
                        oldest_s = min(oldest_s, block.arrived_us / 1e6)
            share = ready / (ready + blocked) if ready + blocked else 1.0
            if is_ordered(operator) and not any(isinstance(i, StreamInput) for i in operator.inputs):
                share = self._incoming_share(name, inflows, bound)
            queues[name] = ForecastQueue(ready, blocked, oldest_s, share)
        return queues

    def _ready_bound(self, name: str, before: Manifest, inflows: Mapping[str, Inflow]) -> int:
        """How far an operator could get with what the operators below it have passed on so far."""
        if not is_ordered(self._network.operators[name]):
            return END_US
        reaching = [inflows[stream] for stream in self.streams_of[name]]
        holding = [i.state.frontier_ts for i in reaching if not i.released]
        bound = min(holding) if holding else max(i.state.frontier_ts for i in reaching)
        return min([bound, *self._held_back_at(name, before)])

    def _held_back_at(self, name: str, before: Manifest) -> list[int]:
        """Frontiers of the operators below that still hold tuples: nothing beyond them may be taken."""
        frontiers = []
        for source in self._network.operators[name].inputs:
            if isinstance(source, OperatorInput):
                below = before.operators.get(source.operator, OperatorState())
                if isinstance(self._network.operators[source.operator], Eddy):
                    frontiers += [block.min_ts for side in below.blocks for block in side]
                elif any(below.blocks):
                    frontiers.append(below.frontier_ts)
                frontiers += self._held_back_at(source.operator, before)
        return frontiers

    def _incoming_share(self, name: str, inflows: Mapping[str, Inflow], bound: int) -> float:
        reaching = [inflows[stream] for stream in self.streams_of[name]]
        rows = sum(i.rows for i in reaching)
        return sum(i.rows * i.share_below(bound) for i in reaching) / rows if rows else 1.0


def _inside(standing: Standing, eddy: Eddy, inflows: Mapping[str, Inflow], now_s: float) -> ForecastQueue:
    """What is inside of an eddy is the work of pools, and none of the tick's."""
    rows = float(sum(block.rows for block in standing.inside))
    if isinstance(eddy.input, StreamInput):
        rows += inflows[eddy.input.stream].rows
    oldest_s = min([now_s, *(block.arrived_us / 1e6 for block in standing.inside)])
    return ForecastQueue(0.0, rows, oldest_s, ready_share=0.0)


def backlog(after: Manifest) -> tuple[int, int, int]:
    """Tuples and bytes that wait, and bytes of window contents."""
    tuples = size = window = 0.0
    for state in after.operators.values():
        for block in (block for side in state.blocks for block in side):
            waiting = block.rows_from(state.frontier_ts)
            tuples += waiting
            size += block.bytes * waiting / block.rows
            window += block.bytes * (1 - waiting / block.rows)
    for stream in after.streams.values():
        tuples += stream.waiting_rows
        size += sum(b.bytes * stream.waiting_rows / b.rows for b in stream.landed[-1:])
    return round(tuples), round(size), round(window)
