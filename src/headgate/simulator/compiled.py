"""A scenario under a static priority, run by the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import StalledError
from headgate.simulator import rows
from headgate.simulator.kernel import NONE, Tables, run
from headgate.simulator.layout import Layout
from headgate.simulator.priority import StaticPriority
from headgate.simulator.records import Records
from headgate.simulator.scenario import Pool, Scenario


def run_compiled(scenario: Scenario, layout: Layout, priority: StaticPriority) -> Records:
    """The same records as ``VirtualEngine`` gives, changes by one completion taken together."""
    tables = tables_of(scenario, layout, priority)
    changes, outputs, left = run(tables, rules_of(scenario, layout, priority))
    if left:
        raise StalledError(f"{left} entries are left that no operator takes")
    return Records(
        change_ticks=changes["tick"],
        change_units=changes["units"],
        change_streams=changes["stream"],
        output_ticks=outputs["tick"],
        output_queries=outputs["query"],
        output_amounts=outputs["amount"],
        output_arrival_ticks=outputs["arrival"],
        busy_ticks=tables.operators["busy"],
        turns=tables.operators["turns"],
    )


def rules_of(scenario: Scenario, layout: Layout, priority: StaticPriority) -> rows.Rules:
    """Numbers of the whole run."""
    pool, unit_s = scenario.processors, scenario.time_unit_s
    return rows.Rules(
        ticks_per_s=layout.grid.ticks_per_s,
        units_per_tuple=layout.grid.units_per_tuple,
        time_unit=0 if unit_s is None else layout.grid.ticks(unit_s),
        processors=pool.processors if isinstance(pool, Pool) else 0,
        each=int(not isinstance(pool, Pool)),
        random=int(scenario.fate == "random"),
        begun_first=int(priority.begun_first),
    )


def tables_of(scenario: Scenario, layout: Layout, priority: StaticPriority) -> Tables:
    """The layout as rows, all queues empty."""
    pool = scenario.processors
    sides = [side for upstream in layout.upstream for side in upstream or ()]
    index = {name: number for number, name in enumerate(layout.names)}
    in_order = [index[name] for name in priority.scan]
    peers = [
        [i for i in in_order if priority.levels[i] == level] for level in range(max(priority.levels) + 1)
    ]
    arrivals = layout.arrivals
    return Tables(
        operators=_operators(scenario, layout, priority),
        streams=_streams(layout),
        # first those of operators, then those of streams
        places=np.array([*_flat(layout.readers), *_flat(layout.leaves)], rows.PLACE),
        queries=np.array(_flat(layout.outputs), np.int64),
        sides=_filled(
            rows.SIDE,
            len(sides),
            below=_ranges(s.operators for s in sides),
            source=_ranges(s.streams for s in sides),
        ),
        below=np.array(_flat([s.operators for s in sides]), np.int64),
        sources=np.array(_flat([s.streams for s in sides]), np.int64),
        levels=_filled(rows.LEVEL, len(peers), peer=_ranges(peers)),
        peers=np.array(_flat(peers), np.int64),
        arrivals=_filled(
            rows.ARRIVAL,
            len(arrivals.ticks),
            tick=arrivals.ticks,
            stream=arrivals.streams,
            number=arrivals.numbers,
        ),
        work=np.zeros(pool.processors if isinstance(pool, Pool) else len(layout.names), rows.WORK),
    )


def _operators(scenario: Scenario, layout: Layout, priority: StaticPriority) -> NDArray[Any]:
    figures = [scenario.figures[name] for name in layout.names]
    return _filled(
        rows.OPERATOR,
        len(layout.names),
        seconds=[f.seconds for f in figures],
        selectivity=[f.selectivity for f in figures],
        size_ratio=[f.size_ratio for f in figures],
        exponential=[f.service == "exponential" for f in figures],
        fate_key=np.array(layout.fate_keys, np.uint64),
        service_key=np.array(layout.service_keys, np.uint64),
        level=priority.levels,
        position=priority.positions,
        reader=_ranges(layout.readers),
        output=_ranges(layout.outputs),
        side=_ranges(upstream or () for upstream in layout.upstream),
        head=NONE,
        tail=NONE,
    )


def _streams(layout: Layout) -> NDArray[Any]:
    return _filled(
        rows.STREAM,
        len(layout.leaves),
        key=np.array(layout.stream_keys, np.uint64),
        leaf=_ranges(layout.leaves) + len(_flat(layout.readers)),
        last_rank=layout.arrivals.last_ranks,
        arrived_rank=NONE,
    )


def _filled(kind: np.dtype[Any], length: int, **columns: Any) -> NDArray[Any]:
    """Rows of zeros but for some columns; a pair of columns ``x_at`` and ``x_end`` may be given as ``x``."""
    filled = np.zeros(length, kind)
    for name, values in columns.items():
        if f"{name}_at" in (kind.names or ()):
            filled[f"{name}_at"], filled[f"{name}_end"] = values[:-1], values[1:]
        else:
            filled[name] = values
    return filled


def _flat(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [value for values in lists for value in values]


def _ranges(lists: Any) -> NDArray[np.int64]:
    """Where each list begins once they are flat, and the end of the last."""
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)
