"""Random texts as Arrow columns, drawn from hashes: a text depends on its key and length alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.model.uniform_hash import mix

_BYTES_PER_WORD = 8


class Alphabet:
    """Symbols (ASCII) of which texts consist; one that is written twice is drawn twice as often."""

    def __init__(self, symbols: str) -> None:
        # 16 random bits give two symbols: the first by the whole part of a product, the second by its rest
        codes = np.frombuffer(symbols.encode("ascii"), np.uint8)
        scaled = np.arange(1 << 16) * len(codes)
        pairs = np.stack([codes[scaled >> 16], codes[(scaled & 0xFFFF) * len(codes) >> 16]], axis=1)
        self._pairs = pairs.reshape(-1).view(np.uint16)

    def texts(self, keys: NDArray[np.uint64], lengths: NDArray[np.int64]) -> pa.Array:
        """One text per key, of the given length."""
        width = -(-int(lengths.max(initial=0)) // _BYTES_PER_WORD) * _BYTES_PER_WORD
        words: Any = np.arange(width // _BYTES_PER_WORD, dtype=np.uint64)
        bits: NDArray[np.uint64] = mix(keys[:, None] ^ mix(words))  # type: ignore[arg-type, assignment]
        symbols = self._pairs[bits.view(np.uint16)]
        # what is beyond the length of a text is an element of its own, which is left out
        begins = np.arange(len(keys), dtype=np.int64) * width
        cuts = np.append(np.stack([begins, begins + lengths], axis=1), len(keys) * width).astype(np.int32)
        elements = pa.StringArray.from_buffers(2 * len(keys), pa.py_buffer(cuts), pa.py_buffer(symbols))
        return elements.take(pa.array(np.arange(0, 2 * len(keys), 2)))


LETTERS = Alphabet("abcdefghijklmnopqrstuvwxyz")
DIGITS = Alphabet("0123456789")


def letters_and(other: str) -> Alphabet:
    """Letters, and another symbol for one in thirteen of them."""
    return Alphabet("abcdefghijklmnopqrstuvwxyz" * 12 + other * 26)
