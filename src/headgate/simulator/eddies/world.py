"""The rows of a simulated eddy: what the compiled loop works on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]

# a tuple on its way; ``next`` links it into the queue, the page or the list of free rows it is in
TUPLE = np.dtype(
    [
        ("done", np.int64),
        ("identity", np.uint64),
        ("birth", np.float64),
        ("next", np.int32),
        ("plan", np.int32),
        ("copy", np.int32),
        ("place", np.int32),
        ("visits", np.int32),
        ("path", np.int32),
    ],
    align=True,
)
EVENT = np.dtype(
    [("time", np.float64), ("kind", np.int32), ("which", np.int32), ("number", np.int64)], align=True
)
SOURCE = np.dtype(
    [
        ("next", np.float64),
        ("gap", np.float64),
        ("key", np.uint64),
        ("gap_key", np.uint64),
        ("emitted", np.int64),
        ("node", np.int32),
        ("plan_at", np.int32),
        ("plan_end", np.int32),
    ],
    align=True,
)
PLAN = np.dtype(
    [
        ("size", np.int32),
        ("is_listed", np.int32),
        ("response", np.float64),
        ("delivered", np.int64),
        ("paths", np.int32),
    ],
    align=True,
)
OPERATOR = np.dtype(
    [
        ("per_tuple", np.float64),
        ("fate_key", np.uint64),
        ("service_key", np.uint64),
        ("copies", np.int32),
        ("visits", np.int64),
        ("passed", np.int64),
        ("busy", np.float64),
        ("area", np.float64),
        ("recent_work", np.float64),
    ],
    align=True,
)
NODE = np.dtype(
    [
        ("speed", np.float64),
        ("boxes", np.int32),
        ("busy", np.int32),
        # what every busy box has got so far, when that was, and which event ends the next service
        ("attained", np.float64),
        ("updated", np.float64),
        ("number", np.int64),
        ("length", np.int64),
        ("longest", np.int64),
        ("quiet_until", np.float64),
    ],
    align=True,
)
COPY = np.dtype(
    [
        ("operator", np.int32),
        ("node", np.int32),
        ("active", np.int32),
        ("head", np.int32),
        ("tail", np.int32),
        # the attained service at which the one under way ends, and when it began
        ("ends", np.float64),
        ("started", np.float64),
        ("born", np.float64),
        ("length", np.int64),
        ("tickets", np.float64),
        ("selectivity", np.float64),
        # of the interval since the last message
        ("begin", np.float64),
        ("received", np.int64),
        ("done", np.int64),
        ("out", np.int64),
        ("busy", np.float64),
        ("area", np.float64),
        ("changed", np.float64),
        # since the last look at the load
        ("busy_lately", np.float64),
        # what the others know, and what they knew before the latest message arrived
        ("sent", np.float64),
        ("known_queue", np.float64),
        ("known_tickets", np.float64),
        ("known_selectivity", np.float64),
        ("known_seconds", np.float64),
        ("old_queue", np.float64),
        ("old_tickets", np.float64),
        ("old_selectivity", np.float64),
        ("old_seconds", np.float64),
    ],
    align=True,
)
LINK = np.dtype(
    [
        ("bytes_per_s", np.float64),
        ("free", np.float64),
        ("head", np.int32),
        ("tail", np.int32),
        ("length", np.int32),
        ("number", np.int64),
    ],
    align=True,
)
PAGE = np.dtype([("head", np.int32), ("next", np.int32)], align=True)

# one row each
SETTINGS = np.dtype(
    [
        ("policy", np.int32),
        ("exponential", np.int32),
        ("has_links", np.int32),
        ("is_sharing", np.int32),
        ("interval_s", np.float64),
        ("interval_tuples", np.int64),
        ("overloaded_at", np.int64),
        ("stop_at", np.int64),
        ("split_at", np.int64),
        ("accept_below", np.int64),
        ("page_tuples", np.int32),
        ("tuple_bytes", np.float64),
        ("page_timer_s", np.float64),
        ("warm_up_s", np.float64),
        ("route_key", np.uint64),
        ("path_key", np.uint64),
    ],
    align=True,
)
STATE = np.dtype(
    [
        ("now", np.float64),
        ("events", np.int64),
        ("free_tuple", np.int64),
        ("free_tuples", np.int64),
        ("free_page", np.int64),
        ("free_pages", np.int64),
        ("copies", np.int64),
        ("messages", np.int64),
        ("pages", np.int64),
        ("splits", np.int64),
        ("slides", np.int64),
        ("merges", np.int64),
        ("overloaded", np.float64),
        ("steps", np.int64),
    ],
    align=True,
)


class World(NamedTuple):
    """All rows of a run."""

    settings: Rows
    state: Rows
    tuples: Rows
    events: Rows
    sources: Rows
    plans: Rows
    operators: Rows
    nodes: Rows
    copies: Rows
    links: Rows
    pages: Rows
    source_plans: Rows
    """Plans in order of their sources."""
    plan_operators: Rows
    """By plan and place."""
    needs: Rows
    """By plan and place: the bitmap of what must be done before."""
    selectivities: Rows
    """By plan and place."""
    follows: Rows
    """By listed plan, state and place: the state after it, or -1."""
    copies_of: Rows
    """By operator: its copies, as many as it has."""
    paths: Rows
    """By plan and path: the places in order; for the policy that follows paths."""
    path_bounds: Rows
    """By plan and path: the upper end of the stretch of [0, 1) that takes it."""
    boxes_of: Rows
    """By node: the copies on it, as many as it has boxes."""
    candidates: Rows
    scores: Rows
