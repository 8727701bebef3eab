"""Delays along a path, and the predicted latency and memory of operators, paths and queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headgate.queueing.distributions import first_true
from headgate.queueing.load_model import LoadModel
from headgate.queueing.mg1 import MG1
from headgate.queueing.service_times import check_share


@dataclass(frozen=True)
class Delay:
    """A delay known by two moments: a fixed time, and with ``chance_none`` nothing more, else a gamma."""

    mean_s: float
    var_s: float
    fixed_s: float = 0.0
    chance_none: float = 0.0

    @staticmethod
    def of(mean_s: float, second: float, chance_none: float) -> Delay:
        """Without a fixed time, by the mean and the second moment."""
        return Delay(mean_s, max(0.0, second - mean_s**2), 0.0, chance_none)

    def __add__(self, other: Delay) -> Delay:
        # taken as independent
        return Delay(
            self.mean_s + other.mean_s,
            self.var_s + other.var_s,
            self.fixed_s + other.fixed_s,
            self.chance_none * other.chance_none,
        )

    def percentile(self, p: float) -> float:
        p = check_share("p", p)
        if p <= self.chance_none or self.mean_s <= self.fixed_s:
            return self.fixed_s
        some = 1 - self.chance_none
        mean_s = (self.mean_s - self.fixed_s) / some
        var_s = (self.var_s + (self.mean_s - self.fixed_s) ** 2) / some - mean_s**2
        if var_s <= 1e-12 * mean_s**2:
            return self.mean_s
        from scipy.special import gammaincinv

        shape, scale = mean_s**2 / var_s, var_s / mean_s
        return self.fixed_s + float(gammaincinv(shape, (p - self.chance_none) / some)) * scale


def fixed(seconds: float) -> Delay:
    return Delay(seconds, 0.0, seconds, 1.0)


@dataclass(frozen=True)
class QueueDelay:
    """The wait in an M/G/1 queue, then a fixed time; ``chance`` is how much rarer a wait is in a pool."""

    queue: MG1
    fixed_s: float = 0.0
    chance: float = 1.0

    @property
    def mean_s(self) -> float:
        return self.chance * self.queue.mean_wait + self.fixed_s

    def percentile(self, p: float) -> float:
        # P(W > t) is chance times that of the queue
        within = 1 - (1 - check_share("p", p)) / self.chance if self.chance > 0 else 0.0
        return self.fixed_s + (self.queue.wait_percentile(within) if within > 0 else 0.0)

    @property
    def delay(self) -> Delay:
        """The same by its moments alone, which can be added to others."""
        wait_s = self.queue.mean_wait
        second = self.chance * (self.queue.var_wait + wait_s**2)
        waits = Delay.of(self.chance * wait_s, second, 1 - self.chance * self.queue.utilisation)
        return waits + fixed(self.fixed_s)


@dataclass(frozen=True)
class TickLatency:
    """From an arrival during one tick to the end of the next tick.

    Ticks take ``tick_s`` on average. Their lengths follow a gamma distribution whose standard deviation is
    the share ``variation`` of that. More tuples arrive during long ticks than during short ones. A tick that
    is longer than the mean by a second makes the next one longer by ``memory`` seconds, since it has more to
    do. ``burst_s`` is the work of those who arrive with a tuple, as the next tick does it, too.
    """

    tick_s: float
    variation: float = 0.0
    memory: float = 0.0
    burst_s: float = 0.0

    @property
    def mean_s(self) -> float:
        return self.tick_s * (1.5 + (0.5 + self.memory) * self.variation**2) + self.burst_s

    def percentile(self, p: float) -> float:
        check_share("p", p)
        if self.variation < _LEAST_VARIATION:
            return self.tick_s * (1 + p) + self.burst_s
        # in steps, so that a search over loads computes few of them
        steps = math.ceil(math.log(self.variation) / _VARIATION_STEP - 1e-9)
        memory = math.ceil(self.memory / _MEMORY_STEP - 1e-9) * _MEMORY_STEP
        ticks = _ticks_at(math.exp(steps * _VARIATION_STEP), min(memory, _MOST_MEMORY), p)
        return self.tick_s * ticks + self.burst_s

    @property
    def delay(self) -> Delay:
        """The same by its moments alone, which can be added to others."""
        memory, squared = self.memory, self.variation**2
        # of the tick in which a tuple arrives, as seen by tuples; the rest of it is a random share
        mean, second = 1 + squared, (1 + squared) * (1 + 2 * squared)
        var = (1 / 3 + memory + memory**2) * second - ((0.5 + memory) * mean) ** 2
        var += squared * (1 - memory**2)
        least = max(0.0, 1 - 2 * self.variation)
        return Delay(self.mean_s, self.tick_s**2 * var, self.tick_s * least)


_LEAST_VARIATION = 0.002
_VARIATION_STEP = 0.03
_MEMORY_STEP = 0.05
# beyond, ticks differ by what they remember alone
_MOST_MEMORY = 0.95
_LENGTHS = 128
_NEXT_LENGTHS = 64
# what a tick takes at least, as a share of the mean
_SHORTEST = 1e-3


def _shares(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of a distribution from 0 to 1, denser at both ends, where its tails are, and their weights."""
    x = (np.arange(count) + 0.5) / count
    return x * x * (3 - 2 * x), 6 * x * (1 - x) / count


@lru_cache(maxsize=1024)
def _lengths(variation: float) -> NDArray[np.float64]:
    """Lengths of the tick that a tuple arrives in, in mean lengths."""
    from scipy.special import gammaincinv

    # tuples arrive in proportion to the length of a tick: that of theirs has one more in its shape
    return np.asarray(variation**2 * gammaincinv(variation**-2 + 1, _shares(_LENGTHS)[0]))


@lru_cache(maxsize=1)
def _normal_quantiles() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from scipy.special import ndtri

    shares, weights = _shares(_NEXT_LENGTHS)
    return np.asarray(ndtri(shares)), weights


@lru_cache(maxsize=4096)
def _ticks_at(variation: float, memory: float, p: float) -> float:
    """A percentile of the rest of one tick and all of the next, in mean lengths of a tick."""
    lengths, (_, weights) = _lengths(variation), _shares(_LENGTHS)
    expected = np.maximum(1 + memory * (lengths - 1), _SHORTEST)
    shape = (expected**2 / (variation**2 * (1 - memory**2)))[:, None]
    # Wilson and Hilferty's quantiles of a gamma variable, which take a thousandth of the time of exact ones
    normal, next_weights = _normal_quantiles()
    following = np.maximum(0.0, 1 - 1 / (9 * shape) + normal / (3 * np.sqrt(shape))) ** 3 * expected[:, None]

    def is_within(ticks: float) -> bool:
        # anywhere in a tick with the same chance
        within = np.clip((ticks - following) / lengths[:, None], 0.0, 1.0)
        return bool(weights @ within @ next_weights >= p)

    high = 2.0
    while not is_within(high):
        high *= 2
    return first_true(is_within, 0.0, high, 20)


LatencyDistribution = Delay | QueueDelay | TickLatency


def order_delay(load: LoadModel, path: tuple[str, ...]) -> Delay:
    """The wait of a path for the next tuple of every other stream that it is ordered with."""
    streams = load.order_waits(path)
    if not streams:
        return fixed(0.0)
    # the longest wait of several is that for the slowest, or little more
    rate, patience_s = min(streams)
    if rate * patience_s < 1e-9:
        return fixed(patience_s)
    left = math.exp(-rate * patience_s)
    mean_s = (1 - left) / rate
    second = 2 * (1 - left * (1 + rate * patience_s)) / rate**2
    return Delay(mean_s, second - mean_s**2)


def in_order(
    latency: QueueDelay | TickLatency, load: LoadModel, path: tuple[str, ...]
) -> LatencyDistribution:
    """The latency of a path with its wait for other streams; exact if there is none."""
    return latency.delay + order_delay(load, path) if load.order_waits(path) else latency


@dataclass(frozen=True)
class OperatorPrediction:
    """One operator; ``delay`` is from a tuple's arrival in its queue to the end of its service."""

    tuples_per_s: float
    utilisation: float
    """Processors that it keeps busy."""
    delay: Delay
    tuples: float
    """In its queue and in service, on average."""
    bytes: float
    state_bytes: float
    """In its windows, which the queue does not include."""


@dataclass(frozen=True)
class PathPrediction:
    """One path from a stream to a query's output."""

    query: str
    operators: tuple[str, ...]
    latency: LatencyDistribution


@dataclass(frozen=True)
class LoadPrediction:
    """Latency and memory of a load under one latency model."""

    utilisation: float
    """Of all processors together, or of the busiest where each operator has its own."""
    operators: Mapping[str, OperatorPrediction]
    paths: tuple[PathPrediction, ...]
    memory: Mapping[str, Delay]
    """Bytes in the queues of each query, as a distribution."""

    def paths_of(self, query: str) -> tuple[PathPrediction, ...]:
        return tuple(path for path in self.paths if path.query == query)

    def latency_s(self, query: str, percentile: float) -> float:
        """The percentile of a query's slowest path."""
        return max((path.latency.percentile(percentile) for path in self.paths_of(query)), default=0.0)

    def queue_bytes(self, query: str, percentile: float) -> float:
        return self.memory[query].percentile(percentile)

    def queue_tuples(self, load: LoadModel, query: str) -> float:
        return sum(self.operators[name].tuples for name in load.network.operators_of(query))

    def state_bytes(self, load: LoadModel, query: str) -> float:
        return sum(self.operators[name].state_bytes for name in load.network.operators_of(query))


def prediction_of(
    load: LoadModel,
    utilisation: float,
    delays: Mapping[str, Delay],
    latency: Callable[[tuple[str, ...]], LatencyDistribution],
) -> LoadPrediction:
    """Queue lengths and memory from the delay at each operator, and the latency of every path."""
    operators = {}
    for name, delay in delays.items():
        rate, width = load.arriving[name], load.profile[name].bytes_per_tuple
        tuples, state_tuples = rate * delay.mean_s, load.state_tuples(name)
        state_bytes = state_tuples * width if state_tuples > 0 else 0.0
        operators[name] = OperatorPrediction(
            rate, load.busy[name], delay, tuples, tuples * width, state_bytes
        )
    queries = load.network.queries
    paths = tuple(PathPrediction(q, path, latency(path)) for q in queries for path in load.paths_of(q))
    return LoadPrediction(utilisation, operators, paths, {q: _memory(load, q, delays) for q in queries})


def _memory(load: LoadModel, query: str, delays: Mapping[str, Delay]) -> Delay:
    """Bytes in queues: a tuple leaves behind what arrived during its delay; queues swell together."""
    mean = counting = swelling = 0.0
    for name in load.network.operators_of(query):
        rate, width, delay = load.arriving[name], load.profile[name].bytes_per_tuple, delays[name]
        mean += rate * delay.mean_s * width
        counting += rate * delay.mean_s * width**2
        swelling += rate * delay.var_s**0.5 * width
    return Delay(mean, counting + swelling**2)
