"""For engines that move blocks: where every tuple goes, drawn so that a replay sends it the same way."""

from __future__ import annotations

from collections.abc import Mapping

_MASK = (1 << 64) - 1
# odd constants of the splitmix64 generator
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def bounds(weights: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """The stretch of [0, 1) that leads to each operator, for engines that draw a number per tuple."""
    total = sum(weights.values())
    found, begin = {}, 0.0
    for name, weight in weights.items():
        end = begin + weight / total
        found[name] = begin, end
        begin = end
    last = [name for name, weight in weights.items() if weight > 0][-1]
    # whatever rounding leaves belongs to somebody
    found[last] = found[last][0], 1.0
    return found


def draw(seed: int, tuple_number: int, visit: int) -> float:
    """A number in [0, 1) that depends on nothing else, so that routing can be replayed."""
    bits = _mixed(seed & _MASK) ^ _mixed(tuple_number & _MASK)
    return (_mixed(_mixed(bits) ^ visit) >> 11) * 2.0**-53


def target(weights: Mapping[str, float], chance: float) -> str:
    """The operator in whose stretch a number falls."""
    for name, (begin, end) in bounds(weights).items():
        if begin <= chance < end:
            return name
    raise ValueError(f"{chance} is not in [0, 1)")


def _mixed(bits: int) -> int:
    bits = (bits + _GOLDEN) & _MASK
    bits = ((bits ^ (bits >> 30)) * _FIRST) & _MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND) & _MASK
    return bits ^ (bits >> 31)
