"""The work that one tuple makes, all the way to the outputs: its distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from headgate.queueing.plan import Plan
from headgate.queueing.service import Discrete, Points

# more values than this are moved to as many equal steps, keeping the mean
_MOST_EXACT = 16
_STEPS = 64
# copies of a tuple beyond this many differ little from their mean
_MOST_COPIES = 64

Work = tuple[tuple[float, float], ...]
NONE: Work = ((1.0, 0.0),)


def work_of(plan: Plan, cuts: frozenset[tuple[str, str]] = frozenset()) -> Mapping[str, Work]:
    """Processor time from each operator on; what lies behind one of ``cuts`` (from, to) is not counted."""
    found: dict[str, Work] = {}
    for name in reversed(list(plan.network.operators)):
        profile = plan.profile[name]
        below = NONE
        for reader in plan.network.readers(name):
            if (name, reader) not in cuts:
                below = _both(below, found[reader])
        copies = _copies(below, profile.selectivity)
        found[name] = tuple((p, s + profile.seconds_per_tuple) for p, s in copies)
    return found


def mixture(parts: list[tuple[float, Work]]) -> Discrete:
    """Work of tuples of several kinds, by their rates."""
    total = sum(rate for rate, _ in parts)
    merged: dict[float, float] = {}
    for rate, work in parts:
        for p, seconds in work:
            share = rate / total if total > 0 else 1 / len(parts)
            merged[seconds] = merged.get(seconds, 0.0) + share * p
    return Discrete(_simpler(merged))


def together(works: list[Work]) -> Work:
    """One tuple that makes all of this work."""
    total = NONE
    for work in works:
        total = _both(total, work)
    return total


def thinned(work: Work, share: float) -> Work:
    """The work of a tuple that is dropped before, unless it belongs to the share that is kept."""
    return work if share == 1 else ((1 - share, 0.0), *((share * p, s) for p, s in work))


def _copies(work: Work, selectivity: float) -> Work:
    """A tuple survives with its selectivity; above 1 it multiplies to the whole numbers around it."""
    whole = math.floor(selectivity)
    if whole >= _MOST_COPIES:
        mean = sum(p * s for p, s in work)
        return ((1.0, mean * selectivity),)
    several = NONE
    for _ in range(whole):
        several = _both(several, work)
    share = selectivity - whole
    if share == 0:
        return several
    one_more = _both(several, work)
    merged: dict[float, float] = {}
    for weight, kind in ((1 - share, several), (share, one_more)):
        for p, seconds in kind:
            merged[seconds] = merged.get(seconds, 0.0) + weight * p
    return _simpler(merged)


def _both(one: Work, other: Work) -> Work:
    if other == NONE:
        return one
    merged: dict[float, float] = {}
    for p, a in one:
        for q, b in other:
            merged[a + b] = merged.get(a + b, 0.0) + p * q
    return _simpler(merged)


def _simpler(merged: Mapping[float, float]) -> Points:
    if len(merged) <= _MOST_EXACT:
        return tuple((p, s) for s, p in sorted(merged.items()))
    seconds, chances = np.array(list(merged)), np.array(list(merged.values()))
    step_s = seconds.max() / _STEPS
    below = np.minimum(np.floor(seconds / step_s), _STEPS - 1).astype(np.int64)
    share = seconds / step_s - below
    on_steps = np.bincount(below, chances * (1 - share), _STEPS + 1)
    on_steps += np.bincount(below + 1, chances * share, _STEPS + 1)
    return tuple((float(p), float(k * step_s)) for k, p in enumerate(on_steps) if p > 0)
