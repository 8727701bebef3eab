"""Figures that explain what was measured, where measurements alone cannot tell them apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def held(rows: Floats, seconds: ArrayLike, hold: ArrayLike, last: ArrayLike) -> Floats:
    """The figures, none below zero, by which sums over ``rows`` come nearest to ``seconds``.

    Each is held to its ``last`` value, the more so the larger its ``hold`` is.
    """
    # imported here: half a second that only those wait for who need it
    from scipy.optimize import nnls

    strength = np.asarray(hold, dtype=np.float64)
    explaining = np.vstack([rows, np.diag(strength)])
    figures: Floats = nnls(explaining, np.concatenate([seconds, strength * np.asarray(last)]))[0]
    return figures


def in_scale(rows: Floats, seconds: ArrayLike, hold: ArrayLike) -> Floats:
    """The same of figures that differ by orders of magnitude, each held to nothing; ``hold`` is in the scale
    of its column."""
    scale = np.maximum(np.linalg.norm(rows, axis=0), 1e-12)
    found: Floats = held(rows / scale, seconds, hold, np.zeros(len(scale))) / scale
    return found
