"""16 queries with 116 operators, from single selections to four joins over five streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headgate.experiments.plan import Box, Streams, scenario
from headgate.simulator import Scenario
from headgate.workload.superposed import Superposed

STREAMS = ("r", "s", "t", "u", "v")
QUERIES, OPERATORS = 16, 116
# tuples a second and stream, 30 seconds each; on average over the run, nine tenths of what can be processed
_RATES = (4.0, 8.0, 12.0, 16.0, 20.0)
_PHASE_S = 30.0
_LOAD = 0.9


@dataclass(frozen=True)
class Shape:
    """A query: its joins, selections before them on each side, operators after the last."""

    joins: int
    before: int
    after: int

    @property
    def operators(self) -> int:
        """How many there are in all."""
        return (self.joins + 1) * self.before + self.joins + self.after


SHAPES = (
    *(Shape(0, length, 1) for length in (2, 2, 3, 3, 4, 4)),
    *(Shape(1, 2, 1) for _ in range(4)),
    *(Shape(2, 2, 1) for _ in range(3)),
    *(Shape(3, 2, 1) for _ in range(2)),
    Shape(4, 2, 3),
)


def self_similar(seed: int = 1) -> Streams:
    """Five sums of 64 or 128 on/off flows, their rates rising over five phases."""
    return {
        name: Superposed(_RATES, until=len(_RATES) * _PHASE_S, flows=64 if number % 2 else 128).times_s(
            seed + number
        )
        for number, name in enumerate(STREAMS)
    }


def sixteen_queries(streams: Streams, seed: int = 1) -> Scenario:
    """The plan; selections are quick, joins slow, and each has figures of its own."""
    random = np.random.default_rng(seed)
    boxes: dict[str, Box] = {}
    outputs: dict[str, str] = {}
    for number, shape in enumerate(SHAPES, start=1):
        query = f"q{number}"
        # streams in turn, so that all are read alike
        own = [STREAMS[(number + side) % len(STREAMS)] for side in range(shape.joins + 1)]
        boxes |= dict(_query(query, shape, own, random))
        outputs[query] = list(boxes)[-1]
    return scenario(streams, boxes, outputs, load=_LOAD)


def _query(
    query: str, shape: Shape, streams: list[str], random: np.random.Generator
) -> Iterator[tuple[str, Box]]:
    tops = []
    for stream in streams:
        top = stream
        for number in range(1, shape.before + 1):
            name = f"{query}.{stream}{number}"
            yield name, Box(top, random.uniform(0.5, 2.0), random.uniform(0.3, 0.9))
            top = name
        tops.append(top)
    top = tops[0]
    for number, side in enumerate(tops[1:], start=1):
        name = f"{query}.join{number}"
        yield name, Box(f"{top} {side}", random.uniform(2.0, 6.0), random.uniform(0.4, 1.0))
        top = name
    for number in range(1, shape.after + 1):
        name = f"{query}.after{number}"
        yield name, Box(top, random.uniform(1.0, 4.0), random.uniform(0.5, 1.0))
        top = name
