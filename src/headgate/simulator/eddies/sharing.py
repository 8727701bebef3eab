"""Load sharing between nodes: boxes split, slide and merge back."""

from __future__ import annotations

from headgate.simulator.eddies.lean import lean
from headgate.simulator.eddies.world import World

CHECK_S = 1.0
_QUIET_S = 5.0
_YOUNG_S = 20.0
# the others must be able to take over, with room to spare
_LIGHT = 0.5


@lean
def _busiest_copy(world: World, node: int) -> int:
    """The copy with the longest queue of a node."""
    best, most = -1, 0
    for place in range(world.nodes[node].boxes):
        number = world.boxes_of[node, place]
        copy = world.copies[number]
        if copy.active and copy.length > most:
            best, most = number, copy.length
    return best


@lean
def _hosts(world: World, node: int, operator: int) -> bool:
    for number in range(world.operators[operator].copies):
        if world.copies[world.copies_of[operator, number]].node == node:
            return True
    return False


@lean
def _receiver(world: World, giver: int, operator: int) -> int:
    """The node with least waiting, in seconds, of those that accept a copy."""
    best, least = -1, 0.0
    for node in range(len(world.nodes)):
        if node == giver or world.nodes[node].length >= world.settings[0].accept_below:
            continue
        if _hosts(world, node, operator):
            continue
        waiting = (1.0 + world.nodes[node].length) / world.nodes[node].speed
        if best < 0 or waiting < least:
            best, least = node, waiting
    return best


@lean
def _work_share(world: World, copy: int) -> float:
    """The part of a copy in all the work that waits at its node."""
    node, own, whole = world.copies[copy].node, 0.0, 0.0
    for place in range(world.nodes[node].boxes):
        number = world.boxes_of[node, place]
        other = world.copies[number]
        work = other.length * world.operators[other.operator].per_tuple
        whole += work
        if number == copy:
            own = work
    return own / whole if whole > 0 else 1.0


@lean
def new_copy(world: World, parent: int, node: int, now: float) -> int:
    """Another copy of an operator, which knows what its parent has learnt; -1 if there is no room."""
    state = world.state[0]
    number = -1
    for row in range(state.copies):
        if not world.copies[row].active and world.copies[row].length == 0:
            number = row
            break
    if number < 0:
        if state.copies == len(world.copies):
            return -1
        number = int(state.copies)
        state.copies += 1
    operator = world.copies[parent].operator
    copy = world.copies[number]
    copy.operator = operator
    copy.node = node
    world.boxes_of[node, world.nodes[node].boxes] = number
    world.nodes[node].boxes += 1
    copy.active = 1
    copy.born = now
    copy.length = 0
    copy.tickets = 0.0
    copy.selectivity = world.copies[parent].selectivity
    copy.begin = now
    copy.received = 0
    copy.done = 0
    copy.out = 0
    copy.area = 0.0
    copy.changed = now
    copy.head = -1
    copy.busy = 0.0
    copy.busy_lately = 0.0
    copy.sent = now
    copy.known_queue = 0.0
    copy.known_tickets = 0.0
    copy.known_selectivity = copy.selectivity
    copy.known_seconds = world.operators[operator].per_tuple / world.nodes[node].speed
    copy.old_queue = 0.0
    copy.old_tickets = 0.0
    copy.old_selectivity = copy.selectivity
    copy.old_seconds = copy.known_seconds
    world.copies_of[operator, world.operators[operator].copies] = number
    world.operators[operator].copies += 1
    return number


@lean
def drop_box(world: World, copy: int) -> None:
    """A copy that has nothing left to do leaves its node."""
    node = world.nodes[world.copies[copy].node]
    boxes = world.boxes_of[world.copies[copy].node]
    kept = 0
    for place in range(node.boxes):
        if boxes[place] != copy:
            boxes[kept] = boxes[place]
            kept += 1
    node.boxes = kept


@lean
def remove_copy(world: World, copy: int) -> None:
    """Take a copy from those that tuples are sent to."""
    operator = world.operators[world.copies[copy].operator]
    listed = world.copies_of[world.copies[copy].operator]
    world.copies[copy].active = 0
    if world.copies[copy].length == 0:
        drop_box(world, copy)
    kept = 0
    for number in range(operator.copies):
        if listed[number] != copy:
            listed[kept] = listed[number]
            kept += 1
    operator.copies = kept


@lean
def what_to_split(world: World, node: int, now: float) -> tuple[int, int, bool]:
    """For an overloaded node: the copy to give, the node that takes it, and whether all of it slides."""
    if now < world.nodes[node].quiet_until:
        return -1, -1, False
    copy = _busiest_copy(world, node)
    if copy < 0 or world.copies[copy].length < world.settings[0].split_at:
        return -1, -1, False
    receiver = _receiver(world, node, world.copies[copy].operator)
    if receiver < 0:
        return -1, -1, False
    world.nodes[node].quiet_until = now + _QUIET_S
    is_single = world.operators[world.copies[copy].operator].copies == 1
    slides = is_single and world.nodes[node].boxes > 1 and _work_share(world, copy) <= 0.5
    return copy, receiver, slides


@lean
def what_to_merge(world: World, operator: int, now: float) -> int:
    """The youngest copy of an operator whose others could do its work; -1 if there is none."""
    copies = world.operators[operator].copies
    if copies < 2:
        return -1
    busy, youngest = 0.0, -1
    for number in range(copies):
        copy = world.copies[world.copies_of[operator, number]]
        busy += copy.busy_lately
        if copy.length > world.settings[0].interval_tuples:
            return -1
        if youngest < 0 or copy.born > world.copies[youngest].born:
            youngest = world.copies_of[operator, number]
    if now - world.copies[youngest].born < _YOUNG_S or busy > _LIGHT * (copies - 1) * CHECK_S:
        return -1
    return youngest
