"""The plans of the chain experiments; the paper's digits are lost, these have the shapes that it describes.

Times are relative; every plan is scaled to its load.
"""

from __future__ import annotations

from headgate.experiments.plan import Box, Streams, path_of, scenario
from headgate.simulator import Scenario

LOAD = 0.95

# a selective operator behind a weak one, and a slow last one
_HIDDEN = ((1.0, 0.9), (2.0, 0.95), (0.5, 0.1), (20.0, 1.0))
# the same, the second a join with a stored relation
_RELATION = ((1.0, 0.9), (1.0, 2.0), (0.5, 0.04), (30.0, 1.0))
# every operator releases less per second than the one before
_FALLING = ((1.0, 0.5), (2.0, 0.4), (6.0, 0.5), (20.0, 1.0))


def fast_then_slow(streams: Streams) -> Scenario:
    """Experiment 1: a fast and very selective operator, then a slow one."""
    return scenario(streams, path_of("r", (1.0, 0.1), (40.0, 1.0)), {"q": "r.2"}, LOAD)


def hidden_selective(streams: Streams) -> Scenario:
    """Experiment 2: four operators, the third fast and very selective but behind a weak second."""
    return scenario(streams, path_of("r", *_HIDDEN), {"q": "r.4"}, LOAD)


def stored_relation(streams: Streams) -> Scenario:
    """Experiment 3: the second operator doubles the tuples."""
    return scenario(streams, path_of("r", *_RELATION), {"q": "r.4"}, LOAD)


def falling(streams: Streams) -> Scenario:
    """Experiment 7: a chart that is convex, each operator a segment of its own."""
    return scenario(streams, path_of("r", *_FALLING), {"q": "r.4"}, LOAD)


def window_join(streams: Streams) -> Scenario:
    """Experiment 4: two streams, a selection on each, a window join, two selections above it."""
    return scenario(streams, _join("r", "s"), {"q": "top"}, LOAD)


def several_queries(streams: Streams) -> Scenario:
    """Experiment 5: the window join of experiment 4, and three queries over streams of their own."""
    boxes = {
        **_join("r", "s"),
        **path_of("t", *_HIDDEN),
        **path_of("u", *_RELATION),
        **path_of("v", *_HIDDEN),
    }
    return scenario(streams, boxes, {"q": "top", "t": "t.4", "u": "u.4", "v": "v.4"}, LOAD)


def _join(left: str, right: str) -> dict[str, Box]:
    return {
        "left": Box(left, 0.5, 0.8),
        "right": Box(right, 0.5, 0.8),
        "join": Box("left right", 1.0, 1.5, ordered=True),
        "above": Box("join", 0.3, 0.1),
        "top": Box("above", 10.0, 1.0),
    }
