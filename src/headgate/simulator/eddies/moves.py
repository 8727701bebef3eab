"""How tuples move: into queues, over links, from copy to copy."""

from __future__ import annotations

from headgate.simulator.eddies.choice import choose
from headgate.simulator.eddies.heap import push
from headgate.simulator.eddies.lean import inlined, lean
from headgate.simulator.eddies.world import World
from headgate.simulator.jit import exponential, uniform

ARRIVAL, DONE, TIMER, DELIVERY, MESSAGE, LOOK = range(6)
NONE = -1


@inlined
def schedule(world: World, time: float, kind: int, which: int, number: int) -> None:
    """Note what will happen when."""
    world.state[0].events = push(world.events, world.state[0].events, time, kind, which, number)


@inlined
def release(world: World, row: int) -> None:
    """A tuple is no more."""
    world.tuples[row].next = world.state[0].free_tuple
    world.state[0].free_tuple = row
    world.state[0].free_tuples += 1


@inlined
def new_row(world: World) -> int:
    """A row for a tuple."""
    row = int(world.state[0].free_tuple)
    world.state[0].free_tuple = world.tuples[row].next
    world.state[0].free_tuples -= 1
    return row


@inlined
def note_length(world: World, number: int, change: int, now: float) -> None:
    """A queue grows or shrinks: keep its area over time."""
    copy = world.copies[number]
    area = copy.length * (now - copy.changed)
    copy.area += area
    world.operators[copy.operator].area += area
    copy.changed = now
    copy.length += change


@inlined
def attain(world: World, number: int, now: float) -> None:
    """Bring a node's boxes up to date: those with work have had equal parts of it."""
    node = world.nodes[number]
    if node.busy > 0:
        node.attained += (now - node.updated) * node.speed / node.busy
    node.updated = now


@inlined
def schedule_end(world: World, number: int, now: float) -> None:
    """When the next service of a node ends, if nothing changes before."""
    node = world.nodes[number]
    node.number += 1
    if node.busy == 0:
        return
    ends, which = 0.0, NONE
    for place in range(node.boxes):
        copy = world.boxes_of[number, place]
        if world.copies[copy].length > 0 and (which == NONE or world.copies[copy].ends < ends):
            ends, which = world.copies[copy].ends, copy
    left = max(0.0, ends - node.attained) * node.busy / node.speed
    schedule(world, now + left, DONE, which, node.number)


@inlined
def start(world: World, number: int, now: float) -> None:
    """Begin to serve the head of a copy's queue; the node must be up to date."""
    copy = world.copies[number]
    operator = world.operators[copy.operator]
    work = operator.per_tuple
    if world.settings[0].exponential:
        work *= exponential(uniform(operator.service_key, world.tuples[copy.head].identity))
    copy.ends = world.nodes[copy.node].attained + work
    copy.started = now


@inlined
def enqueue(world: World, row: int, now: float) -> None:
    """A tuple arrives at the copy it was sent to, or at another one if that is gone."""
    tuple_row = world.tuples[row]
    operator = world.plan_operators[tuple_row.plan, tuple_row.place]
    number = tuple_row.copy
    if not world.copies[number].active or world.copies[number].operator != operator:
        number = world.copies_of[operator, 0]
        tuple_row.copy = number
    tuple_row.next = NONE
    note_length(world, number, 1, now)
    copy = world.copies[number]
    copy.received += 1
    copy.tickets += 1.0
    if copy.length > world.settings[0].overloaded_at:
        copy.tickets = 0.0
    if copy.head == NONE:
        copy.head = row
    else:
        world.tuples[copy.tail].next = row
    copy.tail = row
    node = world.nodes[copy.node]
    node.length += 1
    node.longest = max(node.longest, node.length)
    limit = world.settings[0].stop_at
    if 0 < limit < node.length and world.state[0].overloaded < 0:
        world.state[0].overloaded = now
    if copy.length == 1:
        attain(world, copy.node, now)
        node.busy += 1
        start(world, number, now)
        schedule_end(world, copy.node, now)


@lean
def transmit(world: World, number: int, now: float) -> None:
    """Send the page of a link, full or not, behind the pages before it."""
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
    # the timer of this page has no meaning any more
    link.number += 1


@inlined
def send(world: World, row: int, at_node: int, now: float) -> None:
    """To a copy: over a link if it is on another node."""
    to_node = world.copies[world.tuples[row].copy].node
    if not world.settings[0].has_links or at_node < 0 or at_node == to_node:
        enqueue(world, row, now)
        return
    number = at_node * len(world.nodes) + to_node
    link = world.links[number]
    world.tuples[row].next = NONE
    if link.head == NONE:
        link.head = row
        schedule(world, now + world.settings[0].page_timer_s, TIMER, number, link.number)
    else:
        world.tuples[link.tail].next = row
    link.tail = row
    link.length += 1
    if link.length >= world.settings[0].page_tuples:
        transmit(world, number, now)


@inlined
def dispatch(world: World, row: int, at_node: int, now: float) -> None:
    """Where next: to the copy that the policy chooses, or to the sink."""
    chosen = choose(world, row, at_node, now)
    tuple_row = world.tuples[row]
    if chosen < 0:
        plan = world.plans[tuple_row.plan]
        if tuple_row.birth >= world.settings[0].warm_up_s:
            plan.response += now - tuple_row.birth
            plan.delivered += 1
        release(world, row)
        return
    tuple_row.copy = world.candidates[chosen, 0]
    tuple_row.place = world.candidates[chosen, 1]
    send(world, row, at_node, now)


@lean
def ship(world: World, giver: int, receiver: int, every: int, now: float) -> None:
    """Move every n-th of the tuples that wait at a copy to another copy; who is in service stays."""
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
            note_length(world, giver, -1, now)
            world.tuples[row].copy = receiver
            enqueue(world, row, now)
        else:
            before = row
        row = following
