"""The compiled loop of an eddy: arrivals, services, pages, messages, and looks at the load."""

from __future__ import annotations

import math

from headgate.simulator.eddies.choice import after
from headgate.simulator.eddies.heap import pop
from headgate.simulator.eddies.lean import lean
from headgate.simulator.eddies.moves import (
    ARRIVAL,
    DELIVERY,
    DONE,
    LOOK,
    MESSAGE,
    NONE,
    TIMER,
    attain,
    dispatch,
    enqueue,
    new_row,
    note_length,
    release,
    schedule,
    schedule_end,
    ship,
    start,
    transmit,
)
from headgate.simulator.eddies.sharing import (
    CHECK_S,
    drop_box,
    new_copy,
    remove_copy,
    what_to_merge,
    what_to_split,
)
from headgate.simulator.eddies.world import World
from headgate.simulator.jit import child_id, exponential, mixed, tuple_id, uniform

REACHED, OVERLOADED, FULL = range(3)

_OLD = 0.8
_FADE = 0.9
_MICRO = 1e6


@lean
def publish(world: World, number: int, now: float) -> None:
    """Tell the others what a copy has learnt since the last message."""
    note_length(world, number, 0, now)
    copy = world.copies[number]
    copy.old_queue = copy.known_queue
    copy.old_tickets = copy.known_tickets
    copy.old_selectivity = copy.known_selectivity
    copy.old_seconds = copy.known_seconds
    if copy.done > 0:
        copy.selectivity = _OLD * copy.selectivity + (1.0 - _OLD) * copy.out / copy.done
        copy.known_seconds = _OLD * copy.known_seconds + (1.0 - _OLD) * copy.busy / copy.done
    span = now - copy.begin
    copy.known_queue = copy.area / span if span > 0 else float(copy.length)
    copy.known_tickets = copy.tickets
    copy.known_selectivity = copy.selectivity
    copy.sent = now
    copy.begin = now
    copy.received = 0
    copy.done = 0
    copy.out = 0
    copy.busy = 0.0
    copy.area = 0.0
    world.state[0].messages += 1


@lean
def _arrive(world: World, number: int, now: float) -> None:
    source = world.sources[number]
    identity = tuple_id(source.key, source.emitted)
    source.emitted += 1
    for place in range(source.plan_at, source.plan_end):
        plan = world.source_plans[place]
        row = new_row(world)
        tuple_row = world.tuples[row]
        tuple_row.plan = plan
        tuple_row.done = 0
        tuple_row.identity = identity
        tuple_row.birth = now
        tuple_row.visits = 0
        tuple_row.path = 0
        paths = world.plans[plan].paths
        if paths > 1:
            chance = uniform(world.settings[0].path_key, identity)
            path = 0
            while path < paths - 1 and chance >= world.path_bounds[plan, path]:
                path += 1
            tuple_row.path = path
        dispatch(world, row, source.node, now)
    gap = source.gap * exponential(uniform(source.gap_key, identity))
    schedule(world, now + gap, ARRIVAL, number, 0)


@lean
def _complete(world: World, number: int, now: float) -> None:
    copy = world.copies[number]
    attain(world, copy.node, now)
    row = copy.head
    tuple_row = world.tuples[row]
    plan, place = tuple_row.plan, tuple_row.place
    copy.head = tuple_row.next
    node = copy.node
    world.nodes[node].length -= 1
    note_length(world, number, -1, now)
    operator = world.operators[copy.operator]
    chance = uniform(operator.fate_key, tuple_row.identity)
    results = math.floor(world.selectivities[plan, place] + chance)
    operator.visits += 1
    operator.passed += results
    service_s = now - copy.started
    operator.busy += service_s
    operator.recent_work += operator.per_tuple
    copy.done += 1
    copy.out += results
    copy.busy += service_s
    copy.busy_lately += service_s
    copy.tickets = max(0.0, copy.tickets - results)
    if copy.done >= world.settings[0].interval_tuples:
        publish(world, number, now)
    if copy.length > 0:
        start(world, number, now)
    else:
        world.nodes[node].busy -= 1
        if not copy.active:
            drop_box(world, number)
    schedule_end(world, node, now)
    tuple_row.done = after(world, plan, tuple_row.done, place)
    tuple_row.visits += 1
    parent, birth, done = tuple_row.identity, tuple_row.birth, tuple_row.done
    visits, path = tuple_row.visits, tuple_row.path
    if results == 0:
        release(world, row)
    else:
        dispatch(world, row, node, now)
    for result in range(1, results):
        other = new_row(world)
        sibling = world.tuples[other]
        sibling.plan = plan
        sibling.done = done
        # siblings of one tuple part at every operator where they are made
        sibling.identity = child_id(mixed(parent ^ operator.fate_key), result)
        sibling.birth = birth
        sibling.visits = visits
        sibling.path = path
        dispatch(world, other, node, now)


@lean
def _deliver(world: World, slot: int, now: float) -> None:
    row = world.pages[slot].head
    world.pages[slot].next = world.state[0].free_page
    world.state[0].free_page = slot
    world.state[0].free_pages += 1
    while row != NONE:
        following = world.tuples[row].next
        enqueue(world, row, now)
        row = following


@lean
def _share(world: World, now: float) -> None:
    """Split or slide what overloads a node, merge what is not needed any more."""
    state = world.state[0]
    for node in range(len(world.nodes)):
        copy, receiver, slides = what_to_split(world, node, now)
        if copy < 0:
            continue
        created = new_copy(world, copy, receiver, now)
        if created < 0:
            continue
        schedule(world, now + world.settings[0].interval_s, MESSAGE, created, int(now * _MICRO))
        if slides:
            remove_copy(world, copy)
            ship(world, copy, created, 1, now)
            state.slides += 1
        else:
            ship(world, copy, created, 2, now)
            publish(world, copy, now)
            state.splits += 1
        publish(world, created, now)
    for operator in range(len(world.operators)):
        gone = what_to_merge(world, operator, now)
        if gone >= 0:
            remove_copy(world, gone)
            ship(world, gone, world.copies_of[operator, 0], 1, now)
            state.merges += 1


@lean
def _look(world: World, now: float) -> None:
    if world.settings[0].is_sharing:
        _share(world, now)
    for number in range(world.state[0].copies):
        world.copies[number].busy_lately = 0.0
    for number in range(len(world.operators)):
        world.operators[number].recent_work *= _FADE
    schedule(world, now + CHECK_S, LOOK, 0, 0)


@lean
def advance(world: World, until: float, room: int) -> int:
    """Go on until a time, until a node is overloaded, or rows run out: ``room`` is what an event may need."""
    state = world.state[0]
    while True:
        if state.free_tuples < room or state.free_pages < room or len(world.events) - state.events < room:
            return FULL
        event = world.events[0]
        now, kind, which, number = event.time, event.kind, event.which, event.number
        if now > until:
            state.now = until
            return REACHED
        state.now = now
        state.steps += 1
        state.events = pop(world.events, state.events)
        if kind == ARRIVAL:
            _arrive(world, which, now)
        elif kind == DONE:
            if world.nodes[world.copies[which].node].number == number:
                _complete(world, which, now)
        elif kind == TIMER:
            if world.links[which].number == number:
                transmit(world, which, now)
        elif kind == DELIVERY:
            _deliver(world, which, now)
        elif kind == MESSAGE:
            copy = world.copies[which]
            if copy.active and int(copy.born * _MICRO) == number:
                if now - copy.begin >= world.settings[0].interval_s * (1 - 1e-9):
                    publish(world, which, now)
                schedule(world, copy.begin + world.settings[0].interval_s, MESSAGE, which, number)
        else:
            _look(world, now)
        if state.overloaded >= 0 and world.settings[0].stop_at > 0:
            return OVERLOADED
