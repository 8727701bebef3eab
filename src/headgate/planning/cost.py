"""The cost model: what operators pass on, and the processor time they take, in closed form.

A window counts its *active* tuples: those of the stream as declared that are still there behind selections.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from headgate.model.window import RowWindow, TimeWindow


@dataclass(frozen=True)
class Flow:
    """Tuples on their way: how many come a second, and how many a window over them holds."""

    tuples_per_s: float
    window_tuples: float


@dataclass(frozen=True)
class WindowSeconds:
    """What a window takes for each tuple that enters it, leaves it, or looks for its matches in it."""

    insert_seconds: float = 0.0
    expire_seconds: float = 0.0
    probe_seconds: float = 0.0

    @property
    def upkeep_seconds(self) -> float:
        """For a tuple to enter, and for another to leave in its place."""
        return self.insert_seconds + self.expire_seconds


NO_TIME = WindowSeconds()


def window_tuples(window: RowWindow | TimeWindow, tuples_per_s: float) -> float:
    """How many tuples the window holds in the mean."""
    return window.rows if isinstance(window, RowWindow) else tuples_per_s * window.range_us / 1e6


def source(window: RowWindow | TimeWindow, tuples_per_s: float, keep: float = 1.0) -> Flow:
    """A stream behind a drop box: a time window holds less then, a row window reaches further back."""
    kept_per_s = keep * tuples_per_s
    return Flow(kept_per_s, window_tuples(window, kept_per_s))


def selected(flow: Flow, selectivity: float) -> Flow:
    """What passes a selection; with a selectivity of 1, a projection."""
    return Flow(selectivity * flow.tuples_per_s, selectivity * flow.window_tuples)


def joined(left: Flow, right: Flow, selectivity: float) -> Flow:
    """What a window join passes on; a selectivity of 1 is a cross product."""
    return Flow(
        selectivity * (right.window_tuples * left.tuples_per_s + left.window_tuples * right.tuples_per_s),
        selectivity * left.window_tuples * right.window_tuples,
    )


def joined_with_relation(flow: Flow, rows: float, selectivity: float) -> Flow:
    """What a join with a stored relation passes on."""
    return selected(flow, selectivity * rows)


def joined_all(flows: tuple[Flow, ...], selectivity: float) -> Flow:
    """The join of any number of flows, the same in every order; ``selectivity`` is of all predicates."""
    return selected(reduce(lambda left, right: joined(left, right, 1.0), flows), selectivity)


def pass_cost_per_s(flow: Flow, seconds_per_tuple: float) -> float:
    """Processor time of a selection, a projection or a join with a stored relation."""
    return flow.tuples_per_s * seconds_per_tuple


def join_cost_per_s(left: Flow, right: Flow, of_left: WindowSeconds, of_right: WindowSeconds) -> float:
    """Processor time of a window join: a tuple enters the window of its own side and searches the other's."""
    return left.tuples_per_s * (of_left.upkeep_seconds + of_right.probe_seconds) + right.tuples_per_s * (
        of_right.upkeep_seconds + of_left.probe_seconds
    )
