"""The compiled loop: what ``VirtualEngine`` does under a static priority, with rows for objects.

Every step is the same as there, in the same order and with the same arithmetic, except one: at the end of a
time unit in which nothing arrived or ended, a static priority chooses what is in service already.

The rows are few tables of many columns: passing an array to a compiled function costs more than most of what
it does. Columns ``x_at`` and ``x_end`` are a range of another table's rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headgate.model.uniform_hash import child_id, exponential, results_of, tuple_id, uniform
from headgate.simulator import scenario
from headgate.simulator.compilation import jit
from headgate.simulator.results import CHANGE, OUTPUT, Rows, row

NONE = -1
_NEVER = np.iinfo(np.int64).max

nearest = jit(scenario.nearest)


OPERATOR = row(
    f8="seconds selectivity size_ratio",
    u8="fate_key service_key",
    i8="exponential level position "
    # places of readers, queries that it is the output of, sides if it needs timestamp order
    "reader_at reader_end output_at output_end side_at side_end "
    # its queue: a doubly linked list of entries, and what decides about its head
    "head tail head_arrival head_position serving busy turns",
)
STREAM = row(u8="key", i8="leaf_at leaf_end last_rank arrived_rank")
PLACE = row(i8="operator edge")
SIDE = row(i8="below_at below_end source_at source_end")
LEVEL = row(i8="peer_at peer_end queues")
ARRIVAL = row(i8="tick stream number")
ENTRY = row(f8="amount width", u8="identity", i8="rank arrival edge units remaining next previous")
SERVICE = row(i8="entry operator end")
CONTROL = row(i8="is_stopped turns")


class Rules(NamedTuple):
    """Numbers that hold for the whole run; 1 for yes."""

    ticks_per_s: float
    units_per_tuple: float
    time_unit: int
    processors: int
    each: int
    random: int
    begun_first: int


class RunTables(NamedTuple):
    """All rows of a run but those that grow."""

    operators: Rows
    streams: Rows
    places: Rows
    queries: Rows
    sides: Rows
    below: Rows
    sources: Rows
    levels: Rows
    peers: Rows
    arrivals: Rows
    services: Rows
    """What every processor does, in order of starting."""
    control: Rows
    """One row, through which another thread watches the run, and stops it."""


@jit
def _grow(rows: Rows) -> Rows:
    more = np.empty(2 * len(rows), rows.dtype)
    more[: len(rows)] = rows
    return more


@jit
def _goes_before(one: Any, other: Any) -> bool:
    return bool(one.rank < other.rank or (one.rank == other.rank and one.edge < other.edge))


@jit
def _note_head(operator: Any, entries: Rows, begun_first: int) -> None:
    """Copy what decides about a queue from its head to the operator: entries lie scattered."""
    head = entries[operator.head]
    operator.head_arrival = head.arrival
    begun = 1 if begun_first != 0 and head.remaining >= 0 else 0
    operator.head_position = operator.position - begun


@jit
def _insert(
    operator: Any, levels: Rows, entries: Rows, number: int, before_equals: bool, begun_first: int
) -> None:
    entry = entries[number]
    if before_equals:
        after = operator.head
        while after != NONE and _goes_before(entries[after], entry):
            after = entries[after].next
        before = operator.tail if after == NONE else entries[after].previous
    else:
        before = operator.tail
        while before != NONE and _goes_before(entry, entries[before]):
            before = entries[before].previous
        after = operator.head if before == NONE else entries[before].next
    entry.next = after
    entry.previous = before
    if after == NONE:
        operator.tail = number
    else:
        entries[after].previous = number
    if before != NONE:
        entries[before].next = number
        return
    if after == NONE:
        levels[operator.level].queues += 1
    operator.head = number
    _note_head(operator, entries, begun_first)


@jit
def _in_order(tables: RunTables, index: int, entries: Rows, services: Rows) -> bool:
    """Whether nothing that goes before the head can still come from below another input."""
    operator = tables.operators[index]
    if operator.serving:
        return False
    head = entries[operator.head]
    for number in range(operator.side_at, operator.side_end):
        edge, side = number - operator.side_at, tables.sides[number]
        if edge == head.edge:
            continue
        for i in range(side.source_at, side.source_end):
            stream = tables.streams[tables.sources[i]]
            if stream.arrived_rank < head.rank and stream.arrived_rank < stream.last_rank:
                return False
        for i in range(side.below_at, side.below_end):
            below = tables.operators[tables.below[i]]
            oldest = entries[below.head].rank if below.head != NONE else head.rank + 1
            if below.serving:
                for busy in services:
                    if busy.operator == tables.below[i]:
                        oldest = min(oldest, entries[busy.entry].rank)
            if oldest < head.rank or (oldest == head.rank and edge < head.edge):
                return False
    return True


@jit
def _choose(tables: RunTables, entries: Rows, services: Rows, each: int) -> int:
    """The ready operator that goes first; NONE if there is none."""
    for level in tables.levels:
        if level.queues == 0:
            continue
        best = NONE
        best_position = best_arrival = 0
        for i in range(level.peer_at, level.peer_end):
            operator = tables.operators[tables.peers[i]]
            if operator.head == NONE or (each != 0 and operator.serving != 0):
                continue
            position, arrival = operator.head_position, operator.head_arrival
            if best != NONE and (
                position > best_position or (position == best_position and arrival >= best_arrival)
            ):
                continue
            needs_order = operator.side_end > operator.side_at
            if needs_order and not _in_order(tables, tables.peers[i], entries, services):
                continue
            best, best_position, best_arrival = tables.peers[i], position, arrival
        if best != NONE:
            return best
    return NONE


@partial(jit, nogil=True)
def run_kernel(tables: RunTables, rules: Rules) -> tuple[Rows, Rows, int]:
    """Run to the end, or to a stop. Changes of the backlog, outputs, and the number of entries left over."""
    operators, levels, services, arrivals = tables.operators, tables.levels, tables.services, tables.arrivals
    places, first = tables.places, rules.begun_first
    entries, used, free = np.empty(1024, ENTRY), 0, NONE
    changes, change_count = np.empty(4096, CHANGE), 0
    outputs, output_count = np.empty(4096, OUTPUT), 0
    now = next_rank = under_way = waiting = 0
    changed = False
    while tables.control[0].is_stopped == 0:
        # on to the next instant
        instant = _NEVER
        if next_rank < len(arrivals):
            instant = arrivals[next_rank].tick
        for i in range(under_way):
            instant = min(instant, services[i].end)
        if instant == _NEVER:
            break
        if rules.time_unit and changed and (under_way or waiting):
            instant = min(instant, (now // rules.time_unit + 1) * rules.time_unit)
        now = instant

        # completions in order of starting, then arrivals
        left, coming = 0, next_rank
        while coming < len(arrivals) and arrivals[coming].tick == now:
            coming += 1
        for i in range(under_way + coming - next_rank):
            if i < under_way and services[i].end > now:
                services[left] = services[i]
                left += 1
                continue
            changed = True
            if i < under_way:
                operator, entry = operators[services[i].operator], entries[services[i].entry]
                operator.busy += entry.remaining
                operator.turns += 1
                tables.control[0].turns += 1
                operator.serving -= 1
                rank, arrival, identity, change = entry.rank, entry.arrival, entry.identity, -entry.units
                amount, width = entry.amount * operator.selectivity, entry.width * operator.size_ratio
                results = 1
                if rules.random:
                    chance = uniform(operator.fate_key, identity)
                    results, amount = results_of(operator.selectivity, chance), 1.0
                entry.next = free
                free = services[i].entry
                reader_at, reader_end = operator.reader_at, operator.reader_end
                output_at, output_end = operator.output_at, operator.output_end
            else:
                rank, arrival, change = next_rank + i - under_way, now, 0
                stream = tables.streams[arrivals[rank].stream]
                stream.arrived_rank = rank
                identity = tuple_id(stream.key, np.uint64(arrivals[rank].number))
                amount, width, results = 1.0, 1.0, 1
                reader_at, reader_end, output_at, output_end = stream.leaf_at, stream.leaf_end, 0, 0
                if reader_at == reader_end:
                    continue
            units = nearest(amount * width * rules.units_per_tuple)
            for number in range(results):
                for j in range(output_at, output_end):
                    if output_count == len(outputs):
                        outputs = _grow(outputs)
                    outputs[output_count].tick = now
                    outputs[output_count].query = tables.queries[j]
                    outputs[output_count].amount = amount
                    outputs[output_count].arrival = arrival
                    output_count += 1
                if amount <= 0:
                    continue
                for j in range(reader_at, reader_end):
                    if free == NONE:
                        if used == len(entries):
                            entries = _grow(entries)
                        free, used = used, used + 1
                        entries[free].next = NONE
                    added, new = free, entries[free]
                    free = new.next
                    new.rank, new.arrival, new.edge = rank, arrival, places[j].edge
                    new.identity = child_id(identity, np.uint64(number))
                    new.amount, new.width, new.units, new.remaining = amount, width, units, NONE
                    _insert(operators[places[j].operator], levels, entries, added, False, first)
                    waiting += 1
                    change += units
            if change_count == len(changes):
                changes = _grow(changes)
            changes[change_count].tick, changes[change_count].units = now, change
            changes[change_count].stream = arrivals[rank].stream
            change_count += 1
        under_way, next_rank = left, coming

        # the end of a time unit: last started first, so that equals get back their old order
        if rules.time_unit and changed and now % rules.time_unit == 0:
            for i in range(under_way - 1, -1, -1):
                operator, entry = operators[services[i].operator], entries[services[i].entry]
                remaining = services[i].end - now
                operator.busy += entry.remaining - remaining
                entry.remaining = remaining
                operator.serving -= 1
                _insert(operator, levels, entries, services[i].entry, True, first)
                waiting += 1
            under_way = 0
            changed = False

        # new turns
        while waiting and (rules.each or under_way < rules.processors):
            chosen = _choose(tables, entries, services[:under_way], rules.each)
            if chosen == NONE:
                break
            operator = operators[chosen]
            taken = int(operator.head)
            operator.head = entries[taken].next
            if operator.head == NONE:
                operator.tail = NONE
                levels[operator.level].queues -= 1
            else:
                entries[operator.head].previous = NONE
                _note_head(operator, entries, first)
            waiting -= 1
            operator.serving += 1
            entry = entries[taken]
            if entry.remaining < 0:
                seconds = operator.seconds * entry.amount
                if operator.exponential:
                    seconds *= exponential(uniform(operator.service_key, entry.identity))
                entry.remaining = nearest(seconds * rules.ticks_per_s)
            services[under_way].entry, services[under_way].operator = taken, chosen
            services[under_way].end = now + entry.remaining
            under_way += 1
    return changes[:change_count], outputs[:output_count], waiting
