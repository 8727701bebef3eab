"""Compiled functions with a cache on disk.

Numba's own cache depends on the file of a function alone. An edit in another file, of a function or constant
that becomes part of the machine code, would leave the old code in use; so here the cache depends on all files
of the folders that compiled functions come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import register_jitable

from headgate.model import uniform_hash

_F = TypeVar("_F", bound=Callable[..., Any])

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = ("model", "routing", "simulator")

# compiled functions may call them; they want their arguments as unsigned integers of 64 bits
for _name in ("mix", "tuple_id", "child_id", "uniform", "results_of", "exponential"):
    register_jitable(getattr(uniform_hash, _name))


def jit(function: _F, **options: Any) -> _F:
    """Compile on first use; the machine code is kept on disk where a folder can be written."""
    dispatcher: Any = numba.njit(**options)(function)
    # without a folder to write to, every process compiles for itself
    with suppress(RuntimeError):
        dispatcher._cache = _SourcesCache(function)
    return cast(_F, dispatcher)


def lean(function: _F) -> _F:
    """Compile a function that allocates nothing, without the counting of references.

    Without it, the loop of an eddy is eight times as fast. Threads may run it at the same time.
    """
    return jit(function, _nrt=False, nogil=True)


def inlined(function: _F) -> _F:
    """The same, as a part of its callers: on a hot path, small functions are twice as fast again."""
    return jit(function, _nrt=False, forceinline=True)


class _SourcesCache(FunctionCache):
    """Numba's cache, valid as long as no source and no version of NumPy changes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        stamp = (_digest(), np.__version__)
        self._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
            self.cache_path, self._impl.filename_base, stamp
        )


@cache
def _digest() -> str:
    """A hash of all sources that machine code is made of."""
    hashed = hashlib.sha256()
    for folder in _FOLDERS:
        for file in sorted((_PACKAGE / folder).rglob("*.py")):
            source = file.read_bytes()
            hashed.update(f"{file.relative_to(_PACKAGE)} {len(source)}\n".encode() + source)
    return hashed.hexdigest()
