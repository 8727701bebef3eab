"""Compiled functions that allocate nothing.

Without Numba's counting of references, which such functions do not need, the loop is eight times as fast; and
twice as fast again where the small functions of its hot path are put in line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])


def lean(function: _F) -> _F:
    """Compile on first use; the machine code is kept on disk where there is a place for it."""
    return _jitted(function, _nrt=False)


def inlined(function: _F) -> _F:
    """The same, as a part of whoever calls it."""
    return _jitted(function, _nrt=False, forceinline=True)


def _jitted(function: _F, **options: Any) -> _F:
    try:
        return cast(_F, numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return cast(_F, numba.njit(**options)(function))
