"""How tuples move: the policies' choice of the next operator, queues, links between nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from headgate.model.uniform_hash import exponential, mix, uniform
from headgate.routing.monitor import observe
from headgate.routing.policies import behind_queue, benefit
from headgate.simulator.compilation import inlined, lean
from headgate.simulator.eddies.world import DELIVERY, DONE, NONE, POLICIES, TIMER, World

_T, _Q, _SC, _WSC, _SCQ, _WSCQ, _OPTIMAL = range(len(POLICIES))

# the same formulas as in the engine
_benefit = inlined(benefit)
_behind_queue = inlined(behind_queue)
_observe = inlined(observe)


@inlined
def schedule(world: World, time: float, kind: int, which: int, number: int) -> None:
    """Add an event to the heap, which is in order of time."""
    events = world.events
    place = world.state[0].events
    while place > 0:
        above = (place - 1) >> 1
        if events[above].time <= time:
            break
        events[place] = events[above]
        place = above
    event = events[place]
    event.time, event.kind, event.which, event.number = time, kind, which, number
    world.state[0].events += 1


@inlined
def remove_first(world: World) -> None:
    events = world.events
    last = world.state[0].events - 1
    time = events[last].time
    place = 0
    while True:
        below = 2 * place + 1
        if below >= last:
            break
        if below + 1 < last and events[below + 1].time < events[below].time:
            below += 1
        if events[below].time >= time:
            break
        events[place] = events[below]
        place = below
    events[place] = events[last]
    world.state[0].events = last


@inlined
def free_row(world: World, row: int) -> None:
    world.tuples[row].next = world.state[0].free_tuple
    world.state[0].free_tuple = row
    world.state[0].free_tuples += 1


@inlined
def _append(world: World, queue: Any, row: int) -> None:
    """Add a tuple to a list with a head and a tail."""
    world.tuples[row].next = NONE
    if queue.head == NONE:
        queue.head = row
    else:
        world.tuples[queue.tail].next = row
    queue.tail = row


@inlined
def note(
    world: World, number: int, now: float, change: int, received: int, done: int, out: int, busy_s: float
) -> None:
    """Record that the queue of a copy has changed, and what the copy has done."""
    copy = world.copies[number]
    world.operators[copy.operator].area += copy.queue * (now - copy.changed_s)
    _observe(copy, now, copy.queue + change, received, done, out, busy_s, world.settings[0].ticket_limit)


@inlined
def _is_eligible(world: World, plan: int, done: int, place: int) -> bool:
    """Whether a tuple with this history may visit the operator at a place of its plan."""
    if world.plans[plan].is_listed:
        return bool(world.follows[plan, done, place] >= 0)
    return (done >> place) & 1 == 0 and world.needs[plan, place] & ~done == 0


@inlined
def history_after(world: World, plan: int, done: int, place: int) -> int:
    if world.plans[plan].is_listed:
        return int(world.follows[plan, done, place])
    return int(done | (1 << place))


@inlined
def _add_copies(world: World, plan: int, place: int, count: int) -> int:
    operator = world.plan_operators[plan, place]
    for number in range(world.operators[operator].copies):
        world.candidates[count, 0] = world.copies_of[operator, number]
        world.candidates[count, 1] = place
        count += 1
    return count


@inlined
def _gather(world: World, row: int, policy: int) -> int:
    """Count and list the copies of all eligible operators; on a fixed path, of the next one only."""
    plan, done = world.tuples[row].plan, world.tuples[row].done
    size = world.plans[plan].size
    if policy == _OPTIMAL:
        for number in range(size):
            place = world.paths[plan, world.tuples[row].path, number]
            if place >= 0 and _is_eligible(world, plan, done, place):
                return _add_copies(world, plan, place, 0)
    count = 0
    for place in range(size):
        if _is_eligible(world, plan, done, place):
            count = _add_copies(world, plan, place, count)
    return count


@inlined
def _score(world: World, copy: int, at_node: int, policy: int, now: float) -> float:
    """Score of a copy, by its latest message that has arrived at a node."""
    known = world.copies[copy]
    queue, tickets = known.known_queue, known.known_tickets
    selectivity, seconds = known.known_selectivity, known.known_seconds
    is_recent = now < known.begin_s + world.settings[0].slowest_message_s
    if is_recent and at_node >= 0 and at_node != known.node:
        link = world.links[known.node * len(world.nodes) + at_node]
        if now < known.begin_s + world.settings[0].tuple_bytes / link.bytes_per_s:
            queue, tickets = known.old_queue, known.old_tickets
            selectivity, seconds = known.old_selectivity, known.old_seconds
    if policy == _T:
        return float(tickets)
    if policy == _Q:
        return float(-queue)
    if policy >= _OPTIMAL:
        # between copies of one operator
        return float(1.0 / ((1.0 + queue) * seconds) ** 2)
    score = _benefit(selectivity, seconds)
    if policy in (_SCQ, _WSCQ):
        score = _behind_queue(score, queue)
    return float(score**2 if policy in (_WSC, _WSCQ) else score)


@inlined
def _in_proportion(world: World, count: int, chance: float) -> int:
    """A candidate drawn in proportion to the scores; with equal weights if all are 0."""
    total = 0.0
    for number in range(count):
        total += world.scores[number]
    if total <= 0.0:
        return int(chance * count)
    left = chance * total
    for number in range(count):
        left -= world.scores[number]
        if left < 0.0:
            return number
    return count - 1


@inlined
def _choose(world: World, row: int, count: int, at_node: int, policy: int, now: float) -> int:
    if count == 1:
        return 0
    most_tickets = 0.0
    for number in range(count):
        score = _score(world, world.candidates[number, 0], at_node, policy, now)
        world.scores[number] = score
        most_tickets = max(most_tickets, score)
    if policy == _T and most_tickets <= 0.0:
        for number in range(count):
            world.scores[number] = _score(world, world.candidates[number, 0], at_node, _Q, now)
    # a router in Python has used the first key for its choice of the operator
    key = world.settings[0].route_key if policy < len(POLICIES) else world.settings[0].path_key
    visits = np.uint64(world.tuples[row].visits)
    chance = uniform(mix(key ^ visits), world.tuples[row].identity)
    if policy in (_T, _Q, _SC, _SCQ):
        # one of the largest scores
        best = world.scores[0]
        for number in range(count):
            best = max(best, world.scores[number])
        for number in range(count):
            world.scores[number] = world.scores[number] == best
    return _in_proportion(world, count, chance)


@inlined
def attain(world: World, number: int, now: float) -> None:
    """Bring a node up to date: its busy boxes have shared it equally."""
    node = world.nodes[number]
    if node.busy > 0:
        node.attained += (now - node.updated) * node.speed / node.busy
    node.updated = now


@inlined
def _work(world: World, number: int) -> float:
    """What the tuple at the head of a copy's queue consumes."""
    copy = world.copies[number]
    operator = world.operators[copy.operator]
    work = operator.per_tuple
    if world.settings[0].exponential:
        work *= exponential(uniform(operator.service_key, world.tuples[copy.head].identity))
    return float(work)


@inlined
def _serve_next(world: World, number: int, now: float) -> None:
    """Begin the next service of a node that serves its busy boxes by turns."""
    node = world.nodes[number]
    if node.serving != NONE or node.busy == 0:
        return
    for _ in range(node.boxes):
        node.turn = (node.turn + 1) % node.boxes
        if world.copies[world.boxes_of[number, node.turn]].queue > 0:
            break
    node.serving = world.boxes_of[number, node.turn]
    node.number += 1
    schedule(world, now + _work(world, node.serving) / node.speed, DONE, node.serving, node.number)


@inlined
def schedule_end(world: World, number: int, now: float) -> None:
    """Schedule the end of the next service of a node; if boxes share it, a later change invalidates it."""
    if world.settings[0].by_turns:
        _serve_next(world, number, now)
        return
    node = world.nodes[number]
    node.number += 1
    if node.busy == 0:
        return
    ends, which = 0.0, NONE
    for place in range(node.boxes):
        copy = world.boxes_of[number, place]
        if world.copies[copy].queue > 0 and (which == NONE or world.copies[copy].ends < ends):
            ends, which = world.copies[copy].ends, copy
    left = max(0.0, ends - node.attained) * node.busy / node.speed
    schedule(world, now + left, DONE, which, node.number)


@inlined
def start(world: World, number: int, now: float) -> None:
    """Begin to serve the head of a copy's queue, or to wait for its turn; the node must be up to date."""
    copy = world.copies[number]
    copy.started = now
    if not world.settings[0].by_turns:
        copy.ends = world.nodes[copy.node].attained + _work(world, number)


@inlined
def enqueue(world: World, row: int, now: float) -> None:
    """Add a tuple to the queue of its copy, or of another copy if that one is gone."""
    tuple_row = world.tuples[row]
    operator = world.plan_operators[tuple_row.plan, tuple_row.place]
    number = tuple_row.copy
    if not world.copies[number].active or world.copies[number].operator != operator:
        number = world.copies_of[operator, 0]
        tuple_row.copy = number
    note(world, number, now, 1, 1, 0, 0, 0.0)
    copy = world.copies[number]
    _append(world, copy, row)
    node = world.nodes[copy.node]
    node.length += 1
    node.longest = max(node.longest, node.length)
    limit = world.settings[0].stop_at
    if 0 < limit < node.length and world.state[0].overloaded < 0:
        world.state[0].overloaded = now
    if copy.queue == 1:
        attain(world, copy.node, now)
        node.busy += 1
        start(world, number, now)
        schedule_end(world, copy.node, now)


@lean
def transmit(world: World, number: int, now: float) -> None:
    """Send the page of a link, full or not, after the pages before it."""
    link = world.links[number]
    state = world.state[0]
    slot = int(state.free_page)
    state.free_page = world.pages[slot].next
    state.free_pages -= 1
    state.pages += 1
    world.pages[slot].head = link.head
    begin = max(now, link.free)
    link.free = begin + link.length * world.settings[0].tuple_bytes / link.bytes_per_s
    schedule(world, link.free, DELIVERY, slot, 0)
    link.head = NONE
    link.length = 0
    # invalidates the timer of this page
    link.number += 1


@inlined
def _send(world: World, row: int, count: int, at_node: int, policy: int, now: float) -> None:
    """Send a tuple to one of the candidates: over a link if that is on another node."""
    chosen = _choose(world, row, count, at_node, policy, now)
    world.tuples[row].copy = world.candidates[chosen, 0]
    world.tuples[row].place = world.candidates[chosen, 1]
    to_node = world.copies[world.tuples[row].copy].node
    if not world.settings[0].has_links or at_node < 0 or at_node == to_node:
        enqueue(world, row, now)
        return
    number = at_node * len(world.nodes) + to_node
    link = world.links[number]
    if link.head == NONE:
        schedule(world, now + world.settings[0].page_timer_s, TIMER, number, link.number)
    _append(world, link, row)
    link.length += 1
    if link.length >= world.settings[0].page_tuples:
        transmit(world, number, now)


@inlined
def dispatch(world: World, row: int, at_node: int, now: float) -> None:
    """Send a tuple to the next operator or to the sink, or let it wait for a router in Python."""
    policy = world.settings[0].policy
    count = _gather(world, row, policy)
    tuple_row = world.tuples[row]
    if count == 0:
        plan = world.plans[tuple_row.plan]
        if tuple_row.birth >= world.settings[0].warm_up_s:
            plan.response += now - tuple_row.birth
            plan.delivered += 1
        free_row(world, row)
    elif policy < len(POLICIES) or world.candidates[0, 1] == world.candidates[count - 1, 1]:
        _send(world, row, count, at_node, policy, now)
    else:
        _append(world, world.waiting[0], row)
        world.waiting[0].node = at_node


@lean
def send_to_place(world: World, row: int, place: int, now: float) -> None:
    """Send a waiting tuple to the operator at a place of its plan, as a router in Python has chosen."""
    count = _add_copies(world, world.tuples[row].plan, place, 0)
    policy = world.settings[0].policy
    _send(world, row, count, world.waiting[0].node, policy, now)


@lean
def move_queue(world: World, giver: int, receiver: int, every: int, now: float) -> None:
    """Move every n-th waiting tuple of a copy to another copy; the tuple in service stays."""
    copy = world.copies[giver]
    before = copy.head
    if before == NONE:
        return
    seen = 0
    row = world.tuples[before].next
    while row != NONE:
        following = world.tuples[row].next
        seen += 1
        if seen % every == 0:
            world.tuples[before].next = following
            if copy.tail == row:
                copy.tail = before
            world.nodes[copy.node].length -= 1
            note(world, giver, now, -1, 0, 0, 0, 0.0)
            world.tuples[row].copy = receiver
            enqueue(world, row, now)
        else:
            before = row
        row = following
