"""Compiled functions that keep their types, and chance as in ``fate`` for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_UNIFORM = 2.0**-53


def compiled(function: _F) -> _F:
    """Compile on first use; the machine code is kept on disk where there is a place for it."""
    jitted: Any
    try:
        jitted = numba.njit(cache=True)(function)
    except RuntimeError:
        jitted = numba.njit(function)
    return cast(_F, jitted)


@compiled
def mixed(bits: np.uint64) -> np.uint64:
    """As ``fate.mixed``."""
    golden = bits + _GOLDEN
    once = (golden ^ (golden >> np.uint64(30))) * _FIRST
    twice = (once ^ (once >> np.uint64(27))) * _SECOND
    result: np.uint64 = twice ^ (twice >> np.uint64(31))
    return result


@compiled
def tuple_id(stream_key: np.uint64, number: int) -> np.uint64:
    """As ``fate.tuple_id``."""
    return mixed(stream_key ^ mixed(np.uint64(number)))


@compiled
def child_id(parent: np.uint64, number: int) -> np.uint64:
    """As ``fate.child_id``."""
    return mixed(parent ^ mixed(np.uint64(number))) if number else parent


@compiled
def uniform(operator_key: np.uint64, identity: np.uint64) -> float:
    """As ``fate.uniform``."""
    return float(mixed(operator_key ^ identity) >> np.uint64(11)) * _UNIFORM


@compiled
def exponential(chance: float) -> float:
    """As ``fate.exponential``."""
    return -math.log1p(-chance)


@compiled
def nearest(value: float) -> int:
    """As ``Grid.ticks`` and ``Grid.units`` round."""
    return math.floor(value + 0.5)
