"""The compiled loop of an eddy: arrivals, services, pages, published statistics, and load sharing.

Under load sharing, copies of operators (boxes) split, slide and merge.
"""

from __future__ import annotations

import numpy as np

from headgate.model.uniform_hash import child_id, exponential, mix, results_of, tuple_id, uniform
from headgate.routing.monitor import UNKNOWN_SELECTIVITY, publish
from headgate.simulator.compilation import inlined, lean
from headgate.simulator.eddies import moves
from headgate.simulator.eddies import world as rows
from headgate.simulator.eddies.moves import dispatch, note, schedule
from headgate.simulator.eddies.world import CHECK_S, NONE, World
from headgate.simulator.results import Rows

REACHED, OVERLOADED, FULL, WAITING, PAUSED = range(5)
"""Why ``advance`` returns."""

_EVENTS_PER_CALL = 500_000
_FADE = 0.9
_MICRO = 1e6
_QUIET_S = 5.0
_YOUNG_S = 20.0
# the other copies must be able to take over with capacity to spare
_LIGHT = 0.5

_publish = inlined(publish)


@lean
def _broadcast(world: World, number: int, now: float) -> None:
    """Publish the statistics of a copy; other nodes know the old ones until the message arrives."""
    note(world, number, now, 0, 0, 0, 0, 0.0)
    copy = world.copies[number]
    copy.old_queue, copy.old_tickets = copy.known_queue, copy.known_tickets
    copy.old_selectivity, copy.old_seconds = copy.known_selectivity, copy.known_seconds
    _publish(copy, now)
    world.state[0].messages += 1


@inlined
def _new_tuple(
    world: World, plan: int, path: int, identity: int, birth: float, done: int, visits: int
) -> int:
    row = int(world.state[0].free_tuple)
    added = world.tuples[row]
    world.state[0].free_tuple = added.next
    world.state[0].free_tuples -= 1
    added.plan, added.path, added.done, added.visits = plan, path, done, visits
    added.identity, added.birth = identity, birth
    return row


@lean
def _arrive(world: World, number: int, now: float) -> None:
    state = world.state[0]
    if 0 < world.settings[0].tuples <= state.emitted:
        return
    state.emitted += 1
    source = world.sources[number]
    identity = tuple_id(source.key, np.uint64(source.emitted))
    source.emitted += 1
    for plan in range(source.plan_at, source.plan_end):
        paths, path = world.plans[plan].paths, 0
        if paths > 1:
            chance = uniform(world.settings[0].path_key, identity)
            while path < paths - 1 and chance >= world.path_bounds[plan, path]:
                path += 1
        dispatch(world, _new_tuple(world, plan, path, identity, now, 0, 0), source.node, now)
    gap = source.gap * exponential(uniform(source.gap_key, identity))
    schedule(world, now + gap, rows.ARRIVAL, number, 0)


@inlined
def _without(listed: Rows, count: int, number: int) -> int:
    """Remove a number from a list; the new length."""
    left = 0
    for place in range(count):
        if listed[place] != number:
            listed[left] = listed[place]
            left += 1
    return left


@lean
def _leave_node(world: World, copy: int) -> None:
    node = world.copies[copy].node
    world.nodes[node].boxes = _without(world.boxes_of[node], world.nodes[node].boxes, copy)


@lean
def _complete(world: World, number: int, now: float) -> None:
    copy = world.copies[number]
    moves.attain(world, copy.node, now)
    row = copy.head
    tuple_row = world.tuples[row]
    plan, place = tuple_row.plan, tuple_row.place
    copy.head = tuple_row.next
    node = copy.node
    world.nodes[node].length -= 1
    world.nodes[node].serving = NONE
    operator = world.operators[copy.operator]
    chance = uniform(operator.hash_key, tuple_row.identity)
    results = results_of(world.selectivities[plan, place], chance)
    operator.visits += 1
    operator.passed += results
    service_s = now - copy.started
    operator.busy += service_s
    operator.recent_work += operator.per_tuple
    copy.recent_work += operator.per_tuple
    copy.busy_lately += service_s
    note(world, number, now, -1, 0, 1, results, service_s)
    if copy.done >= world.settings[0].interval_tuples:
        _broadcast(world, number, now)
    if copy.queue > 0:
        moves.start(world, number, now)
    else:
        world.nodes[node].busy -= 1
        if not copy.active:
            _leave_node(world, number)
    moves.schedule_end(world, node, now)
    tuple_row.done = moves.history_after(world, plan, tuple_row.done, place)
    tuple_row.visits += 1
    parent, birth, done = tuple_row.identity, tuple_row.birth, tuple_row.done
    visits, path = tuple_row.visits, tuple_row.path
    if results == 0:
        moves.free_row(world, row)
    else:
        dispatch(world, row, node, now)
    for result in range(1, results):
        # the results of a tuple have identities of their own, which depend on the operator
        identity = child_id(mix(parent ^ operator.hash_key), np.uint64(result))
        dispatch(world, _new_tuple(world, plan, path, identity, birth, done, visits), node, now)


@lean
def _deliver(world: World, slot: int, now: float) -> None:
    row = world.pages[slot].head
    world.pages[slot].next = world.state[0].free_page
    world.state[0].free_page = slot
    world.state[0].free_pages += 1
    while row != NONE:
        following = world.tuples[row].next
        moves.enqueue(world, row, now)
        row = following


@lean
def _retire(world: World, number: int) -> None:
    """Send no more tuples to a copy."""
    copy = world.copies[number]
    copy.active = 0
    if copy.queue == 0:
        _leave_node(world, number)
    operator = world.operators[copy.operator]
    operator.copies = _without(world.copies_of[copy.operator], operator.copies, number)


@lean
def _add_copy(world: World, parent: int, node: int, now: float) -> int:
    """Add a copy of an operator, which knows what a new operator would; NONE if there is no row left."""
    state = world.state[0]
    number = 0
    while number < state.copies and (world.copies[number].active or world.copies[number].queue > 0):
        number += 1
    if number == len(world.copies):
        return NONE
    state.copies = max(state.copies, number + 1)
    operator = world.copies[parent].operator
    copy = world.copies[number]
    copy.operator, copy.node = operator, node
    world.boxes_of[node, world.nodes[node].boxes] = number
    world.nodes[node].boxes += 1
    copy.active = 1
    copy.born = copy.begin_s = copy.changed_s = now
    copy.queue = copy.done = copy.out = 0
    copy.tickets = copy.queue_s = copy.busy_s = copy.busy_lately = copy.recent_work = 0.0
    copy.head = NONE
    copy.known_queue = copy.old_queue = copy.known_tickets = copy.old_tickets = 0.0
    copy.known_selectivity = copy.old_selectivity = UNKNOWN_SELECTIVITY
    copy.known_seconds = copy.old_seconds = world.operators[operator].per_tuple / world.nodes[node].speed
    world.copies_of[operator, world.operators[operator].copies] = number
    world.operators[operator].copies += 1
    return number


@lean
def _receiver(world: World, giver: int, operator: int) -> int:
    """Of the nodes that accept a copy, the one with the least work waiting, in seconds."""
    best, least = NONE, 0.0
    for node in range(len(world.nodes)):
        accepts = node != giver and world.nodes[node].length < world.settings[0].accept_below
        for number in range(world.operators[operator].copies):
            accepts &= world.copies[world.copies_of[operator, number]].node != node
        waiting = (1.0 + world.nodes[node].length) / world.nodes[node].speed
        if accepts and (best == NONE or waiting < least):
            best, least = node, waiting
    return best


@lean
def _copy_to_split(world: World, node: int, now: float) -> tuple[int, int, bool]:
    """For an overloaded node: the copy to share, the receiving node, and whether it slides as a whole.

    That is the copy of the operator that has used most of the node lately.
    """
    if now < world.nodes[node].quiet_until or world.nodes[node].length < world.settings[0].split_at:
        return NONE, NONE, False
    most, work, copy = 0.0, 0.0, NONE
    for place in range(world.nodes[node].boxes):
        number = world.boxes_of[node, place]
        box = world.copies[number]
        work += box.recent_work
        if box.active and box.recent_work > most:
            copy, most = number, box.recent_work
    if copy == NONE:
        return NONE, NONE, False
    operator = world.copies[copy].operator
    receiver = _receiver(world, node, operator)
    if receiver != NONE:
        world.nodes[node].quiet_until = now + _QUIET_S
    slides = world.operators[operator].copies == 1 and world.nodes[node].boxes > 1 and most <= 0.5 * work
    return copy, receiver, slides


@lean
def _copy_to_merge(world: World, operator: int, now: float) -> int:
    """The youngest copy of an operator if the other copies can do its work, otherwise NONE."""
    copies = world.operators[operator].copies
    if copies < 2:
        return NONE
    busy, youngest = 0.0, NONE
    for number in range(copies):
        copy = world.copies[world.copies_of[operator, number]]
        busy += copy.busy_lately
        if copy.queue > world.settings[0].interval_tuples:
            return NONE
        if youngest == NONE or copy.born > world.copies[youngest].born:
            youngest = world.copies_of[operator, number]
    if now - world.copies[youngest].born < _YOUNG_S or busy > _LIGHT * (copies - 1) * CHECK_S:
        return NONE
    return youngest


@lean
def _share(world: World, now: float) -> None:
    """Split or slide operators of overloaded nodes, merge copies that are no longer needed."""
    state = world.state[0]
    for node in range(len(world.nodes)):
        copy, receiver, slides = _copy_to_split(world, node, now)
        if receiver == NONE:
            continue
        created = _add_copy(world, copy, receiver, now)
        if created == NONE:
            continue
        schedule(world, now + world.settings[0].interval_s, rows.MESSAGE, created, int(now * _MICRO))
        if slides:
            # the same operator, elsewhere
            world.copies[created].known_selectivity = world.copies[copy].known_selectivity
            world.copies[created].old_selectivity = world.copies[copy].known_selectivity
            _retire(world, copy)
            moves.move_queue(world, copy, created, 1, now)
            state.slides += 1
        else:
            moves.move_queue(world, copy, created, 2, now)
            _broadcast(world, copy, now)
            state.splits += 1
        _broadcast(world, created, now)
    for operator in range(len(world.operators)):
        merged = _copy_to_merge(world, operator, now)
        if merged != NONE:
            _retire(world, merged)
            moves.move_queue(world, merged, world.copies_of[operator, 0], 1, now)
            state.merges += 1


@lean
def _balance(world: World, now: float) -> None:
    if world.settings[0].is_sharing:
        _share(world, now)
    for number in range(world.state[0].copies):
        world.copies[number].busy_lately = 0.0
        world.copies[number].recent_work *= _FADE
    for number in range(len(world.operators)):
        world.operators[number].recent_work *= _FADE
    schedule(world, now + CHECK_S, rows.BALANCE, 0, 0)


@lean
def is_drained(world: World) -> bool:
    """Whether sources have sent all that they should, and the last tuple has left."""
    state = world.state[0]
    return bool(0 < world.settings[0].tuples <= state.emitted and state.free_tuples == len(world.tuples))


@lean
def advance(world: World, until: float, room: int) -> int:
    """Process events until a time is reached, a node is overloaded, rows run out or tuples wait for a router.

    Also until the last tuple has left. ``room`` is the number of rows that one event may need. After many
    events it pauses, so that the caller can show progress, and be interrupted.
    """
    state = world.state[0]
    for _ in range(_EVENTS_PER_CALL):
        if state.free_tuples < room or state.free_pages < room or len(world.events) - state.events < room:
            return FULL
        event = world.events[0]
        now, kind, which, number = event.time, event.kind, event.which, event.number
        if now > until:
            state.now = until
            return REACHED
        state.now = now
        moves.remove_first(world)
        if kind == rows.ARRIVAL:
            _arrive(world, which, now)
        elif kind == rows.DONE:
            if world.nodes[world.copies[which].node].number == number:
                _complete(world, which, now)
        elif kind == rows.TIMER:
            if world.links[which].number == number:
                moves.transmit(world, which, now)
        elif kind == rows.DELIVERY:
            _deliver(world, which, now)
        elif kind == rows.MESSAGE:
            copy = world.copies[which]
            if copy.active and int(copy.born * _MICRO) == number:
                if now >= copy.begin_s + world.settings[0].interval_s:
                    _broadcast(world, which, now)
                schedule(world, copy.begin_s + world.settings[0].interval_s, rows.MESSAGE, which, number)
        else:
            _balance(world, now)
        if world.waiting[0].head != NONE:
            return WAITING
        if is_drained(world):
            return REACHED
        if state.overloaded >= 0 and world.settings[0].stop_at > 0:
            return OVERLOADED
    return PAUSED
