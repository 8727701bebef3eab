"""Operators with a processor of their own and one input each, run one operator after the other.

Nobody competes for such a processor, and entries come in the order they leave the operator below. So an entry
starts when it has come and the one before it has gone, whatever happens elsewhere, and no events are needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.simulator.jit import child_id, compiled, exponential, nearest, tuple_id, uniform
from headgate.simulator.kernel import Rows
from headgate.simulator.layout import Layout
from headgate.simulator.records import Floats, Integers, Records
from headgate.simulator.scenario import Figures, OnePerOperator, Scenario


def are_independent(scenario: Scenario) -> bool:
    """Whether no operator's order of service depends on another's."""
    return (
        isinstance(scenario.processors, OnePerOperator)
        and scenario.time_unit_s is None
        and all(len(operator.inputs) == 1 for operator in scenario.network.operators.values())
    )


@dataclass(frozen=True)
class Flow:
    """Entries on their way, in timestamp order: when they come to the next operator, and what they are."""

    ticks: Integers
    ranks: Integers
    identities: Rows
    amount: float
    width: float


def run_servers(scenario: Scenario, layout: Layout) -> Records:
    """The same records as the other loops give, operator by operator instead of in order of time."""
    flows: dict[int, Flow] = {}
    changes, outputs = _Changes(layout), _Outputs(layout)
    busy, turns = np.zeros(len(layout.names), np.int64), np.zeros(len(layout.names), np.int64)
    for stream, places in enumerate(layout.leaves):
        if places:
            flow = _arriving(layout, stream)
            changes.note(flow.ticks, flow.ranks, layout.grid.units(1.0) * len(places))
            flows.update({operator: flow for operator, _ in places})
    # layouts number operators in topological order
    for operator, name in enumerate(layout.names):
        coming, figures = flows.pop(operator), scenario.figures[name]
        ends = _ends(
            coming.ticks,
            coming.identities,
            figures.seconds * coming.amount,
            figures.service == "exponential",
            np.uint64(layout.service_keys[operator]),
            layout.grid.ticks_per_s,
        )
        busy[operator], turns[operator] = _busy(coming.ticks, ends), len(ends)
        going = _results(scenario, layout, operator, figures, coming, ends)
        outputs.note(operator, going)
        _note_changes(changes, layout, operator, coming, ends, going)
        if going.amount == 0:
            going = Flow(ends[:0], coming.ranks[:0], coming.identities[:0], 0.0, going.width)
        for reader, _ in layout.readers[operator]:
            flows[reader] = going
    changed, put_out = changes.columns(), outputs.columns()
    return Records(
        changed[0], changed[1], changed[2], put_out[0], put_out[1], put_out[2], put_out[3], busy, turns
    )


def _note_changes(
    changes: _Changes, layout: Layout, operator: int, coming: Flow, ends: Integers, going: Flow
) -> None:
    taken = layout.grid.units(coming.amount * coming.width)
    given = layout.grid.units(going.amount * going.width) * len(layout.readers[operator])
    if going.ticks is ends:
        changes.note(ends, coming.ranks, given - taken)
    else:
        changes.note(ends, coming.ranks, -taken)
        changes.note(going.ticks, going.ranks, given)


def _arriving(layout: Layout, stream: int) -> Flow:
    arrivals = layout.arrivals
    ranks = np.flatnonzero(arrivals.streams == stream)
    identities = _tuple_ids(np.uint64(layout.stream_keys[stream]), arrivals.numbers[ranks])
    return Flow(arrivals.ticks[ranks], ranks, identities, 1.0, 1.0)


def _results(
    scenario: Scenario, layout: Layout, operator: int, figures: Figures, coming: Flow, ends: Integers
) -> Flow:
    width = coming.width * figures.size_ratio
    if scenario.fate == "page" or figures.selectivity == 1:
        return Flow(ends, coming.ranks, coming.identities, coming.amount * figures.selectivity, width)
    key = np.uint64(layout.fate_keys[operator])
    parents, identities = _children(coming.identities, key, figures.selectivity)
    return Flow(ends[parents], coming.ranks[parents], identities, 1.0, width)


def _busy(ticks: Integers, ends: Integers) -> int:
    """Time from start to end, summed: an entry starts when it comes or when the one before it ends."""
    if not len(ends):
        return 0
    starts = np.maximum(ticks[1:], ends[:-1])
    return int(ends[0] - ticks[0] + (ends[1:] - starts).sum())


@compiled
def _tuple_ids(stream_key: np.uint64, numbers: Integers) -> Rows:
    identities = np.empty(len(numbers), np.uint64)
    for i in range(len(numbers)):
        identities[i] = tuple_id(stream_key, numbers[i])
    return identities


@compiled
def _ends(
    ticks: Integers, identities: Rows, seconds: float, random: bool, key: np.uint64, ticks_per_s: float
) -> Integers:
    ends = np.empty(len(ticks), np.int64)
    end, constant = 0, nearest(seconds * ticks_per_s)
    for i in range(len(ticks)):
        service = constant
        if random:
            service = nearest(seconds * exponential(uniform(key, identities[i])) * ticks_per_s)
        end = max(end, ticks[i]) + service
        ends[i] = end
    return ends


@compiled
def _children(identities: Rows, key: np.uint64, selectivity: float) -> tuple[Integers, Rows]:
    """The results of every entry: whose they are, and who they are."""
    counts = np.empty(len(identities), np.int64)
    for i in range(len(identities)):
        counts[i] = int(np.floor(selectivity + uniform(key, identities[i])))
    parents, children = np.empty(counts.sum(), np.int64), np.empty(counts.sum(), np.uint64)
    place = 0
    for i in range(len(identities)):
        for number in range(counts[i]):
            parents[place] = i
            children[place] = child_id(identities[i], number)
            place += 1
    return parents, children


class _Changes:
    """Changes of the backlog."""

    def __init__(self, layout: Layout) -> None:
        self._streams = layout.arrivals.streams
        self._parts: list[tuple[Integers, Integers, Integers]] = []

    def note(self, ticks: Integers, ranks: Integers, units: int) -> None:
        self._parts.append((ticks, np.full(len(ticks), units), self._streams[ranks]))

    def columns(self) -> tuple[Integers, Integers, Integers]:
        ticks, units, streams = zip(*self._parts, strict=True)
        return np.concatenate(ticks), np.concatenate(units), np.concatenate(streams)


class _Outputs:
    """Results of queries."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._parts: list[tuple[Integers, Integers, Floats, Integers]] = []

    def note(self, operator: int, flow: Flow) -> None:
        arrived = self._layout.arrivals.ticks[flow.ranks]
        for query in self._layout.outputs[operator]:
            count = len(flow.ticks)
            self._parts.append((flow.ticks, np.full(count, query), np.full(count, flow.amount), arrived))

    def columns(self) -> tuple[Integers, Integers, Floats, Integers]:
        if not self._parts:
            none = np.empty(0, np.int64)
            return none, none, np.empty(0), none
        ticks, queries, amounts, arrived = zip(*self._parts, strict=True)
        return tuple(map(np.concatenate, (ticks, queries, amounts, arrived)))  # type: ignore[return-value]
