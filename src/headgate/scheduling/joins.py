"""The profile of a window join, from what is known of its two inputs."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.errors import SetupError
from headgate.model.profile import Profile


@dataclass(frozen=True)
class Side:
    """One input of a join: tuples a second, what one of them costs and finds on the other side, its width."""

    tuples_per_s: float
    seconds_per_tuple: float
    matches_per_tuple: float
    bytes_per_tuple: float = Profile.bytes_per_tuple


def join_profile(left: Side, right: Side) -> Profile:
    """Means over both inputs, weighted by their rates: what a chart of either path uses."""
    rate = left.tuples_per_s + right.tuples_per_s
    if not rate > 0:
        raise SetupError("a join without arrivals has no mean; give one side a rate above 0")

    def mean(of_left: float, of_right: float) -> float:
        return (left.tuples_per_s * of_left + right.tuples_per_s * of_right) / rate

    return Profile(
        mean(left.seconds_per_tuple, right.seconds_per_tuple),
        mean(left.matches_per_tuple, right.matches_per_tuple),
        mean(left.bytes_per_tuple, right.bytes_per_tuple),
    )
