"""What is known of an operator's cost: measured while it runs, assumed before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Per-tuple figures of one operator.

    ``selectivity`` is output tuples per input tuple and may exceed 1 for joins.
    """

    seconds_per_tuple: float = 1e-6
    selectivity: float = 1.0
    bytes_per_tuple: float = 64.0
    samples: int = 0

    def blended(self, measured: Profile, weight: float) -> Profile:
        """This profile moved towards a measured one; the first measurement replaces it."""
        share = 1.0 if self.samples == 0 else weight
        return Profile(
            seconds_per_tuple=_towards(self.seconds_per_tuple, measured.seconds_per_tuple, share),
            selectivity=_towards(self.selectivity, measured.selectivity, share),
            bytes_per_tuple=_towards(self.bytes_per_tuple, measured.bytes_per_tuple, share),
            samples=self.samples + 1,
        )


def _towards(old: float, new: float, share: float) -> float:
    return old + share * (new - old)


Profiles = Mapping[str, Profile]
