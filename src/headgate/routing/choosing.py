"""From scores to weights."""

from __future__ import annotations

from collections.abc import Mapping


def largest(scores: Mapping[str, float]) -> dict[str, float]:
    """All to the largest; equals share."""
    most = max(scores.values())
    best = [name for name, score in scores.items() if score == most]
    return {name: 1.0 / len(best) if name in best else 0.0 for name in scores}


def in_proportion(scores: Mapping[str, float]) -> dict[str, float]:
    """To each as much as it scores; to all alike if nobody scores."""
    most = max(scores.values())
    if most <= 0:
        return {name: 1.0 / len(scores) for name in scores}
    # by the largest first: squares of tiny scores would vanish
    total = sum(score / most for score in scores.values())
    return {name: score / most / total for name, score in scores.items()}
