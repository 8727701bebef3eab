"""Pareto durations with a longest value, so that the mean exists in practice and not only on paper.

An untruncated Pareto of shape 1.2 has a mean of six times its minimum, but the average of a million values
still falls short of it by 8 %, typically: a generator calibrated by that mean misses its rate. With a longest
value the mean is exact, small samples come close, and the process stays self-similar up to that time scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SetupError


@dataclass(frozen=True)
class TruncatedPareto:
    """Density proportional to ``x ** -(shape + 1)`` on ``[shortest, longest]``."""

    shape: float
    shortest: float
    longest: float

    def __post_init__(self) -> None:
        if not self.shape > 0:
            raise SetupError(f"a Pareto shape of {self.shape:g} is none; write a number above 0")
        if not 0 < self.shortest < self.longest:
            raise SetupError(f"durations from {self.shortest:g} to {self.longest:g} are no interval above 0")

    @property
    def mean(self) -> float:
        """The exact mean."""
        ratio = self.shortest / self.longest
        if self.shape == 1:
            return float(-self.shortest * np.log(ratio) / (1 - ratio))
        untruncated = self.shortest * self.shape / (self.shape - 1)
        return float(untruncated * (1 - ratio ** (self.shape - 1)) / (1 - ratio**self.shape))

    def at(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """The quantiles of numbers in ``[0, 1)``."""
        return _quantile(self.shape, self.shortest, self.longest, uniform)

    def residual_at(self, uniform: NDArray[np.float64], position: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is left of a duration met at a random moment.

        A random moment falls into a duration in proportion to its length, which takes one off the shape, and
        at a uniform ``position`` within it.
        """
        return position * _quantile(self.shape - 1, self.shortest, self.longest, uniform)


def _quantile(
    shape: float, shortest: float, longest: float, uniform: NDArray[np.float64]
) -> NDArray[np.float64]:
    ratio = longest / shortest
    if shape == 0:
        return np.asarray(shortest * ratio**uniform)
    return np.asarray(shortest * (1 - uniform * (1 - ratio**-shape)) ** (-1 / shape))
