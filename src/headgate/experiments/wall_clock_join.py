"""A window join that runs in real time: tuples arrive by the wall clock, one at a time, and wait for service.

The join is the paper's symmetric hash join: a tuple is inserted into the table of its own window, expired
tuples leave both windows, and the bucket of the other window is compared with it. The loop is compiled, so
that a service takes the same tens of microseconds each time, and reads the clock of the operating system.
"""

from __future__ import annotations

import ctypes
import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# of each table; the key of a tuple has as many values
BUCKETS = 8
ATTRIBUTES = 4
# The condition of the join: a distance, smoothed along the bucket from the oldest tuple on, is below CLOSE.
# It is a chain of operations each of which needs the last one, so that it takes the same time, some 40 ns for
# a tuple, whatever else runs on the other thread of the same core.
SMOOTHING = 0.5
CLOSE = 0.52
# of the buffer that results are written to, again and again
_RESULTS = 1 << 12
# two readings of the clock in a row are 30 ns apart; with more between them, something else had the processor
_STALL_NS = 1_000
_MOST_STALLS = 1 << 16
_NONE = -1
# rows of a window that is bounded by time alone, and time of one that is bounded by rows
_ALL_ROWS = np.iinfo(np.int64).max
_ALL_TIME = np.inf

_clock_gettime = ctypes.CDLL(None).clock_gettime
_clock_gettime.argtypes = [ctypes.c_int, ctypes.c_void_p]
_clock_gettime.restype = ctypes.c_int
_CLOCK = time.CLOCK_MONOTONIC


@dataclass(frozen=True, eq=False)
class JoinArrivals:
    """Tuples of two streams in order of arrival; the mean time between two of them is 1.

    ``sides`` are 0 for the left stream and 1 for the right one.
    """

    times: Floats
    sides: Integers
    keys: Integers
    attributes: Floats

    @staticmethod
    def at(times: Floats, seed: int) -> JoinArrivals:
        """Random tuples at these times, each of either stream with the same chance."""
        generator, count = np.random.default_rng(seed), len(times)
        return JoinArrivals(
            (times - times[0]) * (count - 1) / (times[-1] - times[0]),
            generator.integers(0, 2, count),
            generator.integers(0, BUCKETS, count),
            generator.random((count, ATTRIBUTES)),
        )


@dataclass(frozen=True)
class TimeWindows:
    """Windows by time, that hold so many tuples of the left and of the right stream on average."""

    tuples: tuple[int, int]

    @property
    def limits(self) -> tuple[Floats, Integers]:
        # each stream brings half of the tuples
        return 2.0 * np.array(self.tuples), np.full(2, _ALL_ROWS)


@dataclass(frozen=True)
class RowWindows:
    """Windows of the latest so many tuples of the left and of the right stream."""

    tuples: tuple[int, int]

    @property
    def limits(self) -> tuple[Floats, Integers]:
        return np.full(2, _ALL_TIME), np.array(self.tuples)


Windows = TimeWindows | RowWindows


class _State(NamedTuple):
    """The tables of the join: a chain of tuples for each bucket, from the oldest on."""

    following: Integers
    oldest: Integers
    newest: Integers
    # of each side, its tuples in order of arrival, and which of them are in the window
    of_side: Integers
    first: Integers
    end: Integers


class _Log(NamedTuple):
    """What the loop writes down; times in nanoseconds from the first arrival."""

    starts_ns: Integers
    ends_ns: Integers
    held: Integers
    matches: Integers
    results: Integers
    stalls_ns: Integers


@dataclass(frozen=True, eq=False)
class JoinRun:
    """One run in real time; entry n of an array belongs to the n-th tuple that arrived. Times are in seconds.

    ``stalls`` are (begin, length) of interruptions while the join was idle, in which it did not see arrivals;
    those during a service are part of it.
    """

    arrivals_s: Floats
    starts_s: Floats
    ends_s: Floats
    sides: Integers
    held: Integers
    """Tuples of both windows when a tuple is served."""
    matches: int
    stalls: Floats

    @cached_property
    def waits_s(self) -> Floats:
        return self.starts_s - self.arrivals_s

    @cached_property
    def services_s(self) -> Floats:
        return self.ends_s - self.starts_s

    @property
    def seconds(self) -> float:
        return float(self.arrivals_s[-1] - self.arrivals_s[0])

    @property
    def rate(self) -> float:
        """Tuples per second of both streams together."""
        return (len(self.arrivals_s) - 1) / self.seconds

    @property
    def utilisation(self) -> float:
        return self.rate * float(self.services_s.mean())

    def after(self, share: float) -> JoinRun:
        """The run without its first arrivals."""
        first = int(share * len(self.arrivals_s))
        begin_s = self.arrivals_s[first]
        return replace(
            self,
            arrivals_s=self.arrivals_s[first:],
            starts_s=self.starts_s[first:],
            ends_s=self.ends_s[first:],
            sides=self.sides[first:],
            held=self.held[first:],
            stalls=self.stalls[self.stalls[:, 0] >= begin_s],
        )


def measured_run(arrivals: JoinArrivals, windows: Windows, seconds_per_arrival: float) -> JoinRun:
    """Run the join while tuples arrive by the wall clock; windows are full from the first one on.

    With 0 s per arrival there is no clock to wait for: every tuple is served after the one before it.
    """
    filling = fill_count(windows)
    times, (range_, rows) = arrivals.times, windows.limits
    state, log = _new_state(arrivals), _new_log(len(times) - filling)
    due_ns = np.rint((times[filling:] - times[filling]) * seconds_per_arrival * 1e9).astype(np.int64)
    data = (times, arrivals.sides, arrivals.keys, arrivals.attributes)
    stalls = _serve(filling, due_ns, range_, rows, *data, state, log, np.zeros(2, np.int64))
    return JoinRun(
        due_ns / 1e9,
        log.starts_ns / 1e9,
        log.ends_ns / 1e9,
        arrivals.sides[filling:],
        log.held,
        int(log.matches[0]),
        log.stalls_ns[: min(stalls, _MOST_STALLS)] / 1e9,
    )


def fill_count(windows: Windows) -> int:
    """Tuples that arrive before a run, so that no window is still filling: the paper's transition phase."""
    return int(2.5 * max(windows.tuples))


def _new_state(arrivals: JoinArrivals) -> _State:
    of_side = np.zeros((2, len(arrivals.times)), np.int64)
    for side in (0, 1):
        own = np.flatnonzero(arrivals.sides == side)
        of_side[side, : len(own)] = own
    chains = np.full((3, 2, BUCKETS), _NONE)
    following = np.full(len(arrivals.times), _NONE)
    return _State(following, chains[0], chains[1], of_side, np.zeros(2, np.int64), np.zeros(2, np.int64))


def _new_log(count: int) -> _Log:
    # written once before the run: a page that is touched for the first time interrupts it
    starts, ends, held = (np.full(count, _NONE) for _ in range(3))
    results, stalls = np.full((_RESULTS, 2), _NONE), np.full((_MOST_STALLS, 2), _NONE)
    return _Log(starts, ends, held, np.zeros(1, np.int64), results, stalls)


@numba.njit
def _now_ns(buffer: Any) -> Any:
    _clock_gettime(_CLOCK, buffer.ctypes.data)
    return buffer[0] * 1_000_000_000 + buffer[1]


def longest_gap_s(seconds: float) -> float:
    """The longest time between two readings of the clock, which is read for so long."""
    return float(_longest_gap_ns(int(seconds * 1e9), np.zeros(2, np.int64)) / 1e9)


@numba.njit
def _longest_gap_ns(length_ns: Any, buffer: Any) -> Any:
    now_ns = _now_ns(buffer)
    end_ns, longest_ns = now_ns + length_ns, np.int64(0)
    while now_ns < end_ns:
        later_ns = _now_ns(buffer)
        longest_ns = max(longest_ns, later_ns - now_ns)
        now_ns = later_ns
    return longest_ns


@numba.njit
def _expire(side: Any, now: Any, range_: Any, rows: Any, times: Any, keys: Any, state: Any) -> None:
    """Remove what has left the window of a side; tuples leave a bucket in the order in which they came."""
    first, end = state.first[side], state.end[side]
    while first < end:
        eldest = state.of_side[side, first]
        if end - first <= rows[side] and times[eldest] > now - range_[side]:
            break
        bucket = keys[eldest]
        state.oldest[side, bucket] = state.following[eldest]
        if state.oldest[side, bucket] == _NONE:
            state.newest[side, bucket] = _NONE
        first += 1
    state.first[side] = first


@numba.njit
def _insert(tuple_: Any, side: Any, keys: Any, state: Any) -> None:
    bucket = keys[tuple_]
    last = state.newest[side, bucket]
    if last == _NONE:
        state.oldest[side, bucket] = tuple_
    else:
        state.following[last] = tuple_
    state.newest[side, bucket] = tuple_
    state.end[side] += 1


@numba.njit
def _probe(tuple_: Any, other: Any, keys: Any, attributes: Any, state: Any, log: Any) -> None:
    """Compare with one bucket of the other window, and write down the pairs that match."""
    candidate = state.oldest[other, keys[tuple_]]
    distance = 1.0
    while candidate != _NONE:
        for column in range(attributes.shape[1]):
            difference = attributes[candidate, column] - attributes[tuple_, column]
            distance = math.sqrt(SMOOTHING * distance + difference * difference)
        if distance <= CLOSE:
            place = log.matches[0] % log.results.shape[0]
            log.results[place, 0] = tuple_
            log.results[place, 1] = candidate
            log.matches[0] += 1
        candidate = state.following[candidate]


@numba.njit
def _serve(
    filling: Any,
    due_ns: Any,
    range_: Any,
    rows: Any,
    times: Any,
    sides: Any,
    keys: Any,
    attributes: Any,
    state: Any,
    log: Any,
    buffer: Any,
) -> Any:
    """Fill the windows, then serve every tuple when it is due or later; returns the number of stalls."""
    for tuple_ in range(filling):
        side = sides[tuple_]
        _insert(tuple_, side, keys, state)
        _expire(side, times[tuple_], range_, rows, times, keys, state)
    stalls = 0
    begin_ns = _now_ns(buffer)
    now_ns = np.int64(0)
    for place in range(len(due_ns)):
        while now_ns < due_ns[place]:
            later_ns = _now_ns(buffer) - begin_ns
            if later_ns - now_ns > _STALL_NS:
                if stalls < log.stalls_ns.shape[0]:
                    log.stalls_ns[stalls, 0] = now_ns
                    log.stalls_ns[stalls, 1] = later_ns - now_ns
                stalls += 1
            now_ns = later_ns
        tuple_ = filling + place
        side = sides[tuple_]
        log.starts_ns[place] = now_ns
        _insert(tuple_, side, keys, state)
        _expire(side, times[tuple_], range_, rows, times, keys, state)
        _expire(1 - side, times[tuple_], range_, rows, times, keys, state)
        _probe(tuple_, 1 - side, keys, attributes, state, log)
        log.held[place] = state.end[0] - state.first[0] + state.end[1] - state.first[1]
        # the end of a service is the start of the next one if a tuple waits, so that no time is lost between
        now_ns = _now_ns(buffer) - begin_ns
        log.ends_ns[place] = now_ns
    return stalls
