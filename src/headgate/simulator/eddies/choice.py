"""Policies inside of the compiled loop: the same formulas as in ``routing``, over rows."""

from __future__ import annotations

import numpy as np

from headgate.routing.sc import benefit
from headgate.routing.scq import behind
from headgate.simulator.eddies.lean import inlined
from headgate.simulator.eddies.world import World
from headgate.simulator.jit import mixed, uniform

POLICIES = ("t", "q", "sc", "wsc", "scq", "wscq", "optimal")
_T, _Q, _SC, _WSC, _SCQ, _WSCQ, _OPTIMAL = range(len(POLICIES))

_benefit = inlined(benefit)
_behind = inlined(behind)


@inlined
def is_ready(world: World, plan: int, done: int, place: int) -> bool:
    """Whether a tuple of this history may go to the operator at a place of its plan."""
    if world.plans[plan].is_listed:
        return bool(world.follows[plan, done, place] >= 0)
    return (done >> place) & 1 == 0 and world.needs[plan, place] & ~done == 0


@inlined
def after(world: World, plan: int, done: int, place: int) -> int:
    """The history after the operator at a place."""
    if world.plans[plan].is_listed:
        return int(world.follows[plan, done, place])
    return int(done | (1 << place))


@inlined
def _add_copies(world: World, plan: int, place: int, found: int) -> int:
    operator = world.plan_operators[plan, place]
    for number in range(world.operators[operator].copies):
        world.candidates[found, 0] = world.copies_of[operator, number]
        world.candidates[found, 1] = place
        found += 1
    return found


@inlined
def _gather(world: World, row: int, policy: int) -> int:
    """All copies of operators that a tuple is ready for; under a fixed path, of the next one alone."""
    plan, done = world.tuples[row].plan, world.tuples[row].done
    size = world.plans[plan].size
    if policy == _OPTIMAL:
        for number in range(size):
            place = world.paths[plan, world.tuples[row].path, number]
            if place >= 0 and is_ready(world, plan, done, place):
                return _add_copies(world, plan, place, 0)
    found = 0
    for place in range(size):
        if is_ready(world, plan, done, place):
            found = _add_copies(world, plan, place, found)
    return found


@inlined
def _score(world: World, copy: int, at_node: int, policy: int, now: float) -> float:
    """What is known of a copy, as a score; at another node the latest message may not have arrived yet."""
    known = world.copies[copy]
    queue, tickets = known.known_queue, known.known_tickets
    selectivity, seconds = known.known_selectivity, known.known_seconds
    if world.settings[0].has_links and at_node >= 0 and at_node != known.node:
        link = world.links[known.node * len(world.nodes) + at_node]
        if now < known.sent + world.settings[0].tuple_bytes / link.bytes_per_s:
            queue, tickets = known.old_queue, known.old_tickets
            selectivity, seconds = known.old_selectivity, known.old_seconds
    if policy == _T:
        return float(tickets)
    if policy == _Q:
        return float(-queue)
    if policy == _SC:
        return float(_benefit(selectivity, seconds))
    if policy == _WSC:
        return float(_benefit(selectivity, seconds) ** 2)
    if policy == _SCQ:
        return float(_behind(queue, _benefit(selectivity, seconds)))
    if policy == _OPTIMAL:
        # among copies of one operator
        return float(1.0 / ((1.0 + queue) * seconds) ** 2)
    return float(_behind(queue, _benefit(selectivity, seconds)) ** 2)


@inlined
def _largest(world: World, found: int, chance: float) -> int:
    """The largest score; among equals, chance decides."""
    best, equals = world.scores[0], 0
    for number in range(found):
        best = max(best, world.scores[number])
    for number in range(found):
        equals += world.scores[number] == best
    left = int(chance * equals)
    for number in range(found):
        if world.scores[number] == best:
            if left == 0:
                return number
            left -= 1
    return 0


@inlined
def _in_proportion(world: World, found: int, chance: float) -> int:
    """At random, by the scores; by nothing if nobody scores."""
    total = 0.0
    for number in range(found):
        total += world.scores[number]
    if total <= 0.0:
        return int(chance * found)
    left = chance * total
    for number in range(found):
        left -= world.scores[number]
        if left < 0.0:
            return number
    return found - 1


@inlined
def choose(world: World, row: int, at_node: int, now: float) -> int:
    """The candidate that a tuple goes to next; -1 if it is done."""
    policy = world.settings[0].policy
    found = _gather(world, row, policy)
    if found <= 1:
        return found - 1
    most_tickets = 0.0
    for number in range(found):
        score = _score(world, world.candidates[number, 0], at_node, policy, now)
        world.scores[number] = score
        most_tickets = max(most_tickets, score)
    if policy == _T and most_tickets <= 0.0:
        for number in range(found):
            world.scores[number] = _score(world, world.candidates[number, 0], at_node, _Q, now)
    visits = np.uint64(world.tuples[row].visits)
    chance = uniform(mixed(world.settings[0].route_key ^ visits), world.tuples[row].identity)
    if policy in (_WSC, _WSCQ, _OPTIMAL):
        return _in_proportion(world, found, chance)
    return _largest(world, found, chance)
