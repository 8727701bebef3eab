"""Simplified segment: at most two segments a path."""

from __future__ import annotations

from itertools import pairwise

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling.segment import SegmentStrategy, releases
from headgate.scheduling.segment_list import Operators


class SimplifiedSegment(SegmentStrategy):
    """The leaf and those after it while each frees ``gamma`` times what the one before does; the rest."""

    name = "simplified-segment"

    def __init__(self, gamma: float = 0.75, round_s: float = 1.0) -> None:
        super().__init__(round_s)
        self._gamma = gamma

    def segments_of(self, path: Operators, network: Network, profiles: Profiles) -> tuple[Operators, ...]:
        """One cut, where the memory released falls below ``gamma`` times what it was."""
        release = pairwise(releases(path, network, profiles))
        cut = next((i for i, (here, after) in enumerate(release, 1) if after < self._gamma * here), None)
        return (path,) if cut is None else (path[:cut], path[cut:])
