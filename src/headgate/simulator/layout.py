"""A scenario by numbers: operators, streams and queries as indices, times and sizes on the grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.model.network import Network
from headgate.model.operator import StreamInput, is_ordered
from headgate.simulator.fate import key_of
from headgate.simulator.grid import Grid
from headgate.simulator.scenario import Scenario

Place = tuple[int, int]
"""An operator and which of its inputs."""


@dataclass(frozen=True)
class Upstream:
    """What lies below one input of an operator: from there, older tuples may still come."""

    operators: tuple[int, ...]
    streams: tuple[int, ...]


@dataclass(frozen=True)
class Arrivals:
    """All arrivals in order: by time, then stream, then number. A tuple's rank is its place in them."""

    ticks: NDArray[np.int64]
    streams: NDArray[np.int64]
    numbers: NDArray[np.int64]
    last_ranks: tuple[int, ...]
    """The rank of each stream's last tuple; -1 for a stream without any."""


@dataclass(frozen=True)
class Layout:
    """The network as both loops read it."""

    names: tuple[str, ...]
    readers: tuple[tuple[Place, ...], ...]
    leaves: tuple[tuple[Place, ...], ...]
    """Readers of every stream."""
    outputs: tuple[tuple[int, ...], ...]
    """Queries that end in the operator."""
    upstream: tuple[tuple[Upstream, ...] | None, ...]
    """For operators that need timestamp order: what lies below each input."""
    fate_keys: tuple[int, ...]
    service_keys: tuple[int, ...]
    stream_keys: tuple[int, ...]
    arrivals: Arrivals
    grid: Grid

    @staticmethod
    def of(scenario: Scenario) -> Layout:
        """Number everything."""
        network, seed = scenario.network, scenario.seed
        names, grid = tuple(network.operators), Grid.of(scenario)
        queries = list(network.queries.values())
        return Layout(
            names=names,
            readers=tuple(_places(network, operator=name) for name in names),
            leaves=tuple(_places(network, stream=name) for name in network.streams),
            outputs=tuple(tuple(i for i, q in enumerate(queries) if name in q.outputs) for name in names),
            upstream=tuple(_upstream(network, name) for name in names),
            fate_keys=tuple(key_of(seed, "fate", name) for name in names),
            service_keys=tuple(key_of(seed, "service", name) for name in names),
            stream_keys=tuple(key_of(seed, "stream", name) for name in network.streams),
            arrivals=_arrivals(scenario, grid),
            grid=grid,
        )


def _places(network: Network, operator: str | None = None, stream: str | None = None) -> tuple[Place, ...]:
    return tuple(
        (index, edge)
        for index, reader in enumerate(network.operators.values())
        for edge, source in enumerate(reader.inputs)
        if (source.stream == stream if isinstance(source, StreamInput) else source.operator == operator)
    )


def _upstream(network: Network, name: str) -> tuple[Upstream, ...] | None:
    operator = network.operators[name]
    if not is_ordered(operator) or len(operator.inputs) < 2:
        return None
    operators, streams = list(network.operators), list(network.streams)
    found = []
    for source in operator.inputs:
        below, sources, todo = set(), set(), [source]
        while todo:
            part = todo.pop()
            if isinstance(part, StreamInput):
                sources.add(streams.index(part.stream))
            elif part.operator not in below:
                below.add(part.operator)
                todo.extend(network.operators[part.operator].inputs)
        found.append(Upstream(tuple(sorted(map(operators.index, below))), tuple(sorted(sources))))
    return tuple(found)


def _arrivals(scenario: Scenario, grid: Grid) -> Arrivals:
    times = [grid.all_ticks(scenario.arrivals_s[stream]) for stream in scenario.network.streams]
    counts = [len(stream) for stream in times]
    ticks = np.concatenate([np.empty(0, np.int64), *times])
    streams = np.repeat(np.arange(len(times)), counts)
    numbers = np.concatenate([np.empty(0, np.int64), *map(np.arange, counts)])
    # stable: streams are concatenated in order of declaration, and each is sorted
    order = np.argsort(ticks, kind="stable")
    streams = streams[order]
    last = [int(np.flatnonzero(streams == i)[-1]) if count else -1 for i, count in enumerate(counts)]
    return Arrivals(ticks[order], streams, numbers[order], tuple(last))
