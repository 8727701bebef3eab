"""Pareto flows: bursts that begin like a Poisson process and last a heavy-tailed time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headgate.workload.pareto import TruncatedPareto
from headgate.workload.times import Times, check_expected, check_positive


@dataclass(frozen=True)
class ParetoFlows:
    """Flows begin every ``gap`` seconds on average; each sends ``rate`` tuples a second for a Pareto time.

    Times last from ``shortest`` to ``longest`` seconds. ``rate`` is that of one flow while it sends.
    """

    until: float
    rate: float = 1.0
    gap: float = 1.0
    shape: float = 1.5
    shortest: float = 1.0
    longest: float = 1000.0

    def __post_init__(self) -> None:
        check_positive(until=self.until, rate=self.rate, gap=self.gap)
        check_expected(self.until / self.gap * self.durations.mean * self.rate)

    @property
    def durations(self) -> TruncatedPareto:
        """How long a flow sends, in seconds."""
        return TruncatedPareto(self.shape, self.shortest, self.longest)

    @property
    def mean_rate(self) -> float:
        """Tuples a second of all flows together, once as many end as begin."""
        return self.rate * self.durations.mean / self.gap

    def times_s(self, seed: int) -> Times:
        """Arrival times in seconds, in order."""
        generator = np.random.default_rng(seed)
        starts = generator.uniform(0, self.until, generator.poisson(self.until / self.gap))
        durations = self.durations.at(generator.random(len(starts)))
        counts = np.ceil(durations * self.rate).astype(np.int64)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        sent = np.repeat(starts, counts) + (np.arange(counts.sum()) - first) / self.rate
        return np.sort(sent[sent < self.until])
