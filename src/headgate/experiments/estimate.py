"""Means of simulated figures, and how far they may be off by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

_BATCHES = 25
# the chance that all of some fifty intervals hold what they should is then above 0.99
_CHANCE = 1e-4


@dataclass(frozen=True)
class Estimate:
    """A mean, and half of the width of its confidence interval."""

    mean: float
    within: float


def batch_means(values: NDArray[np.float64]) -> Estimate:
    """From consecutive batches, which hardly depend on each other; the first tenth does not count."""
    steady = values[len(values) // 10 :]
    means = steady[: len(steady) // _BATCHES * _BATCHES].reshape(_BATCHES, -1).mean(axis=1)
    quantile = float(stdtrit(_BATCHES - 1, 1 - _CHANCE / 2))
    return Estimate(float(means.mean()), quantile * float(means.std(ddof=1)) / math.sqrt(_BATCHES))
