"""Chance by a hash of (seed, tuple, operator) alone, so that strategies are compared on paired runs."""

from __future__ import annotations

import hashlib
import math

_MASK = (1 << 64) - 1
# odd constants of the splitmix64 generator
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_UNIFORM = 2.0**-53


def mix(bits: int) -> int:
    bits = (bits + _GOLDEN) & _MASK
    bits = ((bits ^ (bits >> 30)) * _FIRST) & _MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND) & _MASK
    return bits ^ (bits >> 31)


def key_of(seed: int, kind: str, name: str) -> int:
    """64 bits for a name: what an operator or a stream adds to the hash."""
    digest = hashlib.blake2b(f"{seed} {kind} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def tuple_id(stream_key: int, number: int) -> int:
    return mix(stream_key ^ mix(number))


def child_id(parent: int, number: int) -> int:
    """The identity of the n-th result of a tuple; the only one keeps that of the tuple."""
    return mix(parent ^ mix(number)) if number else parent


def uniform(operator_key: int, identity: int) -> float:
    """A number in ``[0, 1)``."""
    return (mix(operator_key ^ identity) >> 11) * _UNIFORM


def results_of(selectivity: float, chance: float) -> int:
    """How many results one tuple has: the selectivity on average."""
    return math.floor(selectivity + chance)


def exponential(chance: float) -> float:
    return -math.log1p(-chance)
