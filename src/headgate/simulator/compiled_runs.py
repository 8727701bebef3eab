"""Runs in compiled code: under a static priority, and where every operator has a processor of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from headgate.errors import StalledError
from headgate.model.uniform_hash import exponential, mix, tuple_id, uniform
from headgate.simulator import priority_kernel as kernel
from headgate.simulator.compilation import jit
from headgate.simulator.results import Records, Report, Rows, columns, silent
from headgate.simulator.scenario import Integers, OnePerOperator, Pool, Scenario
from headgate.simulator.virtual_engine import StaticPriority

_REPORT_EVERY_S = 0.2


def run_priority(scenario: Scenario, priority: StaticPriority, report: Report = silent) -> Records:
    """The same records as ``VirtualEngine`` gives, with the changes of one completion combined."""
    pool, unit_s, grid = scenario.processors, scenario.time_unit_s, scenario.numbered.grid
    rules = kernel.Rules(
        ticks_per_s=grid.ticks_per_s,
        units_per_tuple=grid.units_per_tuple,
        time_unit=0 if unit_s is None else grid.ticks(unit_s),
        processors=pool.processors if isinstance(pool, Pool) else 0,
        each=int(not isinstance(pool, Pool)),
        random=int(scenario.fate == "random"),
        begun_first=int(priority.begun_first),
    )
    tables = _tables(scenario, priority)
    expected = max(scenario.entries, 1.0)
    changes, outputs, left = _watched(tables, rules, lambda turns: report(turns / expected))
    if left:
        raise StalledError(f"{left} entries are left that no operator takes")
    return Records(columns(changes), columns(outputs), tables.operators["busy"], tables.operators["turns"])


def _watched(
    tables: kernel.RunTables, rules: kernel.Rules, report: Callable[[int], None]
) -> tuple[Rows, Rows, int]:
    """Run beside this thread, which reports turns, and stops the run when it is interrupted."""
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(kernel.run_kernel, tables, rules)
        try:
            while not wait([future], _REPORT_EVERY_S).done:
                report(int(tables.control["turns"][0]))
        finally:
            tables.control["is_stopped"] = not future.done()
        return future.result()


def _tables(scenario: Scenario, priority: StaticPriority) -> kernel.RunTables:
    pool, numbered, arrivals = scenario.processors, scenario.numbered, scenario.numbered.arrivals
    behaviours = [scenario.behaviours[name] for name in numbered.names]
    below = [[sorted(side.operators) for side in upstream or ()] for upstream in numbered.upstream]
    sources = [[sorted(side.streams) for side in upstream or ()] for upstream in numbered.upstream]
    in_order = [numbered.names.index(name) for name in priority.scan]
    levels = range(max(priority.levels) + 1)
    peers = [[i for i in in_order if priority.levels[i] == level] for level in levels]
    operators = _fill(
        kernel.OPERATOR,
        len(behaviours),
        seconds=[b.seconds for b in behaviours],
        selectivity=[b.selectivity for b in behaviours],
        size_ratio=[b.size_ratio for b in behaviours],
        exponential=[b.service == "exponential" for b in behaviours],
        fate_key=np.array(numbered.fate_keys, np.uint64),
        service_key=np.array(numbered.service_keys, np.uint64),
        level=priority.levels,
        position=priority.positions,
        reader=_ranges(numbered.readers),
        output=_ranges(numbered.outputs),
        side=_ranges(below),
        head=kernel.NONE,
        tail=kernel.NONE,
    )
    streams = _fill(
        kernel.STREAM,
        len(numbered.leaves),
        key=np.array(numbered.stream_keys, np.uint64),
        leaf=_ranges(numbered.leaves) + len(_flat(numbered.readers)),
        last_rank=arrivals.last_ranks,
        arrived_rank=kernel.NONE,
    )
    ticks, numbers = arrivals.ticks, arrivals.numbers
    return kernel.RunTables(
        operators=operators,
        streams=streams,
        # first those of operators, then those of streams
        places=np.array([*_flat(numbered.readers), *_flat(numbered.leaves)], kernel.PLACE),
        queries=np.array(_flat(numbered.outputs), np.int64),
        sides=_fill(
            kernel.SIDE, len(_flat(below)), below=_ranges(_flat(below)), source=_ranges(_flat(sources))
        ),
        below=np.array(_flat(_flat(below)), np.int64),
        sources=np.array(_flat(_flat(sources)), np.int64),
        levels=_fill(kernel.LEVEL, len(peers), peer=_ranges(peers)),
        peers=np.array(_flat(peers), np.int64),
        arrivals=_fill(kernel.ARRIVAL, len(ticks), tick=ticks, stream=arrivals.streams, number=numbers),
        services=np.zeros(pool.processors if isinstance(pool, Pool) else len(behaviours), kernel.SERVICE),
        control=np.zeros(1, kernel.CONTROL),
    )


def _fill(kind: np.dtype[Any], length: int, **columns: Any) -> Rows:
    """Rows of zeros but for some columns; a pair of columns ``x_at`` and ``x_end`` may be given as ``x``."""
    rows = np.zeros(length, kind)
    for name, values in columns.items():
        if f"{name}_at" in (kind.names or ()):
            rows[f"{name}_at"], rows[f"{name}_end"] = values[:-1], values[1:]
        else:
            rows[name] = values
    return rows


def _flat(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return list(chain.from_iterable(lists))


def _ranges(lists: Sequence[Sequence[Any]]) -> Integers:
    """Where each list begins once they are flat, and the end of the last."""
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def are_independent(scenario: Scenario) -> bool:
    """Whether no operator's order of service depends on another's: see ``run_servers``."""
    return (
        isinstance(scenario.processors, OnePerOperator)
        and scenario.time_unit_s is None
        and all(len(operator.inputs) == 1 for operator in scenario.network.operators.values())
    )


@dataclass(frozen=True)
class Batch:
    """Entries between two operators, in timestamp order, and when they arrive at the next one."""

    ticks: Integers
    ranks: Integers
    identities: Any
    amount: float
    width: float


def run_servers(scenario: Scenario, report: Report = silent) -> Records:
    """The same records, operator by operator instead of in order of time.

    No operator competes for its processor, and entries arrive in the order in which they leave the operator
    below. So an entry starts when it has arrived and its predecessor has left, whatever happens elsewhere,
    and no events are needed.
    """
    numbered = scenario.numbered
    arrivals, grid = numbered.arrivals, numbered.grid
    none = np.empty(0, np.int64)
    changes, outputs = [(none, none, none)], [(none, none, none, np.empty(0))]
    busy, turns = np.zeros((2, len(numbered.names)), np.int64)
    batches: dict[int, Batch] = {}

    def add_change(batch: Batch, units: int) -> None:
        changes.append((batch.ticks, np.full(len(batch.ticks), units), arrivals.streams[batch.ranks]))

    for stream, readers in enumerate(numbered.leaves):
        if readers:
            ranks, key = np.flatnonzero(arrivals.streams == stream), _unsigned(numbered.stream_keys[stream])
            identities = tuple_id(key, _unsigned(arrivals.numbers[ranks]))
            batch = Batch(arrivals.ticks[ranks], ranks, identities, 1.0, 1.0)
            add_change(batch, grid.units(1.0) * len(readers))
            batches.update({operator: batch for operator, _ in readers})
    # operators are numbered in topological order
    for operator, readers in enumerate(numbered.readers):
        report(operator / len(numbered.readers))
        coming = batches.pop(operator)
        service = _service_ticks(scenario, operator, coming)
        done = np.cumsum(service)
        ends = done + np.maximum.accumulate(coming.ticks - (done - service))
        busy[operator], turns[operator] = service.sum(), len(service)
        served = replace(coming, ticks=ends)
        going = _results(scenario, operator, served)
        taken = grid.units(coming.amount * coming.width)
        given = grid.units(going.amount * going.width) * len(readers)
        if going.ticks is ends:
            add_change(served, given - taken)
        else:
            add_change(served, -taken)
            add_change(going, given)
        arrived = arrivals.ticks[going.ranks]
        for query in numbered.outputs[operator]:
            queries, amounts = np.full(len(arrived), query), np.full(len(arrived), going.amount)
            outputs.append((going.ticks, queries, arrived, amounts))
        if going.amount == 0:
            going = Batch(none, none, _unsigned(none), 0.0, going.width)
        batches.update({reader: going for reader, _ in readers})
    all_changes: Any = map(np.concatenate, zip(*changes, strict=True))
    all_outputs: Any = map(np.concatenate, zip(*outputs, strict=True))
    return Records(tuple(all_changes), tuple(all_outputs), busy, turns)


def _unsigned(values: Any) -> Any:
    """As ``uniform_hash`` wants its arguments; it works on arrays of them as well."""
    return np.asarray(values, np.uint64)


def _service_ticks(scenario: Scenario, operator: int, coming: Batch) -> Integers:
    numbered = scenario.numbered
    behaviour = scenario.behaviours[numbered.names[operator]]
    seconds, grid = behaviour.seconds * coming.amount, numbered.grid
    if behaviour.service == "constant":
        return np.full(len(coming.ticks), grid.ticks(seconds))
    key = np.uint64(numbered.service_keys[operator])
    return _random_ticks(coming.identities, key, seconds, grid.ticks_per_s)


@jit
def _random_ticks(identities: Rows, key: Any, seconds: float, ticks_per_s: float) -> Integers:
    ticks = np.empty(len(identities), np.int64)
    for i in range(len(identities)):
        ticks[i] = kernel.nearest(seconds * exponential(uniform(key, identities[i])) * ticks_per_s)
    return ticks


def _results(scenario: Scenario, operator: int, served: Batch) -> Batch:
    behaviour = scenario.behaviours[scenario.numbered.names[operator]]
    width, identities = served.width * behaviour.size_ratio, served.identities
    if scenario.fate == "page" or behaviour.selectivity == 1:
        return replace(served, amount=served.amount * behaviour.selectivity, width=width)
    chances = uniform(_unsigned(scenario.numbered.fate_keys[operator]), identities)
    counts = np.floor(behaviour.selectivity + chances).astype(np.int64)
    parents = np.repeat(np.arange(len(counts)), counts)
    # of the results of an entry, the first keeps its identity (see ``child_id``)
    numbers = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    parent_ids = identities[parents]
    children = np.where(numbers == 0, parent_ids, mix(parent_ids ^ mix(_unsigned(numbers))))
    return Batch(served.ticks[parents], served.ranks[parents], children, 1.0, width)
