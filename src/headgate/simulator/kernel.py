"""The compiled loop: what ``VirtualEngine`` does under a static priority, with rows for objects.

Every step is the same as there, in the same order and with the same arithmetic. One thing is left out: at
the end of a time unit in which nothing arrived or ended, a static priority chooses what is under way already.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.simulator.jit import child_id, compiled, exponential, nearest, tuple_id, uniform
from headgate.simulator.rows import CHANGE, ENTRY, OUTPUT, Rules

Rows = NDArray[Any]

NONE = -1
_NEVER = np.iinfo(np.int64).max


class Tables(NamedTuple):
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
    work: Rows
    """What every processor does, in order of starting."""


@compiled
def _grown(rows: Rows) -> Rows:
    more = np.empty(2 * len(rows), rows.dtype)
    more[: len(rows)] = rows
    return more


@compiled
def _goes_before(one: Any, other: Any) -> bool:
    return bool(one.rank < other.rank or (one.rank == other.rank and one.edge < other.edge))


@compiled
def _note_head(operator: Any, entries: Rows, begun_first: int) -> None:
    """Keep what decides about a queue beside it: entries lie scattered."""
    head = entries[operator.head]
    operator.head_arrival = head.arrival
    begun = 1 if begun_first != 0 and head.remaining >= 0 else 0
    operator.head_position = operator.position - begun


@compiled
def _insert(
    operator: Any, levels: Rows, entries: Rows, number: int, before_equals: bool, begun_first: int
) -> None:
    """Put an entry where its timestamp belongs in the queue."""
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


@compiled
def _take(operator: Any, levels: Rows, entries: Rows, begun_first: int) -> int:
    """Take the head from a queue."""
    number = int(operator.head)
    operator.head = entries[number].next
    if operator.head == NONE:
        operator.tail = NONE
        levels[operator.level].queues -= 1
    else:
        entries[operator.head].previous = NONE
        _note_head(operator, entries, begun_first)
    return number


@compiled
def _oldest_rank(index: int, operators: Rows, entries: Rows, work: Rows, otherwise: int) -> int:
    """The least rank before an operator, waiting or in service."""
    oldest = otherwise
    if operators[index].head != NONE:
        oldest = min(oldest, entries[operators[index].head].rank)
    if operators[index].serving:
        for busy in work:
            if busy.operator == index:
                oldest = min(oldest, entries[busy.entry].rank)
    return oldest


@compiled
def _in_order(tables: Tables, index: int, entries: Rows, work: Rows) -> bool:
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
            oldest = _oldest_rank(tables.below[i], tables.operators, entries, work, head.rank + 1)
            if oldest < head.rank or (oldest == head.rank and edge < head.edge):
                return False
    return True


@compiled
def _choose(tables: Tables, entries: Rows, work: Rows, each: int) -> int:
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
            if operator.side_end > operator.side_at and not _in_order(tables, tables.peers[i], entries, work):
                continue
            best, best_position, best_arrival = tables.peers[i], position, arrival
        if best != NONE:
            return best
    return NONE


@compiled
def _service_ticks(operator: Any, entry: Any, ticks_per_s: float) -> int:
    seconds = operator.seconds * entry.amount
    if operator.exponential:
        seconds *= exponential(uniform(operator.service_key, entry.identity))
    return nearest(seconds * ticks_per_s)


@compiled
def run(tables: Tables, rules: Rules) -> tuple[Rows, Rows, int]:
    """Run to the end. Changes of the backlog, outputs, and how many entries nobody took."""
    operators, levels, work, arrivals = tables.operators, tables.levels, tables.work, tables.arrivals
    places, streams = tables.places, tables.streams
    entries, used, free = np.empty(1024, ENTRY), 0, NONE
    changes, change_count = np.empty(4096, CHANGE), 0
    outputs, output_count = np.empty(4096, OUTPUT), 0
    now = next_rank = under_way = waiting = 0
    changed = False
    whole = nearest(rules.units_per_tuple)
    while True:
        # on to the next instant
        instant = _NEVER
        if next_rank < len(arrivals):
            instant = arrivals[next_rank].tick
        for i in range(under_way):
            instant = min(instant, work[i].end)
        if instant == _NEVER:
            break
        if rules.time_unit and changed and (under_way or waiting):
            instant = min(instant, (now // rules.time_unit + 1) * rules.time_unit)
        now = instant

        # completions, in order of starting
        kept = 0
        for i in range(under_way):
            if work[i].end > now:
                work[kept] = work[i]
                kept += 1
                continue
            changed = True
            operator, entry = operators[work[i].operator], entries[work[i].entry]
            operator.busy += entry.remaining
            operator.turns += 1
            operator.serving -= 1
            rank, arrival, identity = entry.rank, entry.arrival, entry.identity
            change = -entry.units
            amount, width = entry.amount * operator.selectivity, entry.width * operator.size_ratio
            results = 1
            if rules.random:
                chance = uniform(operator.fate_key, identity)
                results, amount = nearest(np.floor(operator.selectivity + chance)), 1.0
            entry.next = free
            free = work[i].entry
            units = nearest(amount * width * rules.units_per_tuple)
            for number in range(results):
                for j in range(operator.output_at, operator.output_end):
                    if output_count == len(outputs):
                        outputs = _grown(outputs)
                    outputs[output_count].tick = now
                    outputs[output_count].query = tables.queries[j]
                    outputs[output_count].amount = amount
                    outputs[output_count].arrival = arrival
                    output_count += 1
                if amount <= 0:
                    continue
                for j in range(operator.reader_at, operator.reader_end):
                    if free == NONE:
                        if used == len(entries):
                            entries = _grown(entries)
                        free, used = used, used + 1
                        entries[free].next = NONE
                    added, new = free, entries[free]
                    free = new.next
                    new.rank, new.arrival, new.edge = rank, arrival, places[j].edge
                    new.identity = child_id(identity, number)
                    new.amount, new.width, new.units, new.remaining = amount, width, units, NONE
                    _insert(operators[places[j].operator], levels, entries, added, False, rules.begun_first)
                    waiting += 1
                    change += units
            if change_count == len(changes):
                changes = _grown(changes)
            changes[change_count].tick, changes[change_count].units = now, change
            changes[change_count].stream = arrivals[rank].stream
            change_count += 1
        under_way = kept

        # arrivals
        while next_rank < len(arrivals) and arrivals[next_rank].tick == now:
            changed = True
            stream = streams[arrivals[next_rank].stream]
            stream.arrived_rank = next_rank
            for j in range(stream.leaf_at, stream.leaf_end):
                if free == NONE:
                    if used == len(entries):
                        entries = _grown(entries)
                    free, used = used, used + 1
                    entries[free].next = NONE
                added, new = free, entries[free]
                free = new.next
                new.rank, new.arrival, new.edge = next_rank, now, places[j].edge
                new.identity = tuple_id(stream.key, arrivals[next_rank].number)
                new.amount, new.width, new.units, new.remaining = 1.0, 1.0, whole, NONE
                _insert(operators[places[j].operator], levels, entries, added, False, rules.begun_first)
                waiting += 1
                if change_count == len(changes):
                    changes = _grown(changes)
                changes[change_count].tick, changes[change_count].units = now, whole
                changes[change_count].stream = arrivals[next_rank].stream
                change_count += 1
            next_rank += 1

        # the end of a time unit: last started first, so that equals get back their old order
        if rules.time_unit and changed and now % rules.time_unit == 0:
            for i in range(under_way - 1, -1, -1):
                operator, entry = operators[work[i].operator], entries[work[i].entry]
                remaining = work[i].end - now
                operator.busy += entry.remaining - remaining
                entry.remaining = remaining
                operator.serving -= 1
                _insert(operator, levels, entries, work[i].entry, True, rules.begun_first)
                waiting += 1
            under_way = 0
            changed = False

        # new turns
        while waiting and (rules.each or under_way < rules.processors):
            chosen = _choose(tables, entries, work[:under_way], rules.each)
            if chosen == NONE:
                break
            operator = operators[chosen]
            taken = _take(operator, levels, entries, rules.begun_first)
            waiting -= 1
            operator.serving += 1
            if entries[taken].remaining < 0:
                entries[taken].remaining = _service_ticks(operator, entries[taken], rules.ticks_per_s)
            work[under_way].entry, work[under_way].operator = taken, chosen
            work[under_way].end = now + entries[taken].remaining
            under_way += 1
    return changes[:change_count], outputs[:output_count], waiting
