"""The rows that the compiled loop works on; ``x_at`` and ``x_end`` are a range of another table's rows.

Few tables of many columns: to hand an array to a compiled function costs more than most of what it does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

OPERATOR = np.dtype(
    [
        ("seconds", np.float64),
        ("selectivity", np.float64),
        ("size_ratio", np.float64),
        ("exponential", np.int64),
        ("fate_key", np.uint64),
        ("service_key", np.uint64),
        ("level", np.int64),
        ("position", np.int64),
        # places of readers, queries that it is the output of, sides if it needs timestamp order
        ("reader_at", np.int64),
        ("reader_end", np.int64),
        ("output_at", np.int64),
        ("output_end", np.int64),
        ("side_at", np.int64),
        ("side_end", np.int64),
        # its queue: a doubly linked list of entries, and what decides about its head
        ("head", np.int64),
        ("tail", np.int64),
        ("head_arrival", np.int64),
        ("head_position", np.int64),
        ("serving", np.int64),
        ("busy", np.int64),
        ("turns", np.int64),
    ]
)
STREAM = np.dtype(
    [
        ("key", np.uint64),
        ("leaf_at", np.int64),
        ("leaf_end", np.int64),
        ("last_rank", np.int64),
        ("arrived_rank", np.int64),
    ]
)
PLACE = np.dtype([("operator", np.int64), ("edge", np.int64)])
SIDE = np.dtype(
    [("below_at", np.int64), ("below_end", np.int64), ("source_at", np.int64), ("source_end", np.int64)]
)
LEVEL = np.dtype([("peer_at", np.int64), ("peer_end", np.int64), ("queues", np.int64)])
ARRIVAL = np.dtype([("tick", np.int64), ("stream", np.int64), ("number", np.int64)])
ENTRY = np.dtype(
    [
        ("rank", np.int64),
        ("arrival", np.int64),
        ("edge", np.int64),
        ("identity", np.uint64),
        ("amount", np.float64),
        ("width", np.float64),
        ("units", np.int64),
        ("remaining", np.int64),
        ("next", np.int64),
        ("previous", np.int64),
    ]
)
WORK = np.dtype([("entry", np.int64), ("operator", np.int64), ("end", np.int64)])
CHANGE = np.dtype([("tick", np.int64), ("units", np.int64), ("stream", np.int64)])
OUTPUT = np.dtype([("tick", np.int64), ("query", np.int64), ("amount", np.float64), ("arrival", np.int64)])


class Rules(NamedTuple):
    """Numbers that hold for the whole run; 1 for yes."""

    ticks_per_s: float
    units_per_tuple: float
    time_unit: int
    processors: int
    each: int
    random: int
    begun_first: int
