"""For engines that move blocks: how many tuples go where, and how many a pool can serve in a tick."""

from __future__ import annotations

from collections.abc import Mapping

_MASK = (1 << 64) - 1
# odd constants of the splitmix64 generator
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def split_counts(tuples: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Whole numbers in proportion to the weights that sum to ``tuples``; none is off by one or more."""
    total = sum(weights.values())
    exact = {name: tuples * weight / total for name, weight in weights.items()}
    counts = {name: int(amount) for name, amount in exact.items()}
    # largest remainders first; the order of names decides among equals
    by_remainder = sorted(weights, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: tuples - sum(counts.values())]:
        counts[name] += 1
    return counts


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


def pool_budgets(
    slots: Mapping[str, float], tick_s: float, seconds_per_tuple: Mapping[str, float]
) -> dict[str, int]:
    """How many tuples every pool serves within a tick; one at least, or dear operators would never begin."""
    return {pool: max(1, int(tick_s * slots[pool] / max(seconds_per_tuple[pool], 1e-12))) for pool in slots}


def _mixed(bits: int) -> int:
    bits = (bits + _GOLDEN) & _MASK
    bits = ((bits ^ (bits >> 30)) * _FIRST) & _MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND) & _MASK
    return bits ^ (bits >> 31)
