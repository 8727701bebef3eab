"""Segment: paths cut where the memory that operators release falls."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise

from headgate.model.network import Network
from headgate.model.profile import Profiles
from headgate.scheduling.capacity import processing_per_s, release_per_s
from headgate.scheduling.segment_list import Operators, SegmentList
from headgate.scheduling.units import Unit, UnitStrategy


class SegmentStrategy(UnitStrategy):
    """Segments of all queries, by the bytes they free a second; a turn takes what one does in ``round_s``."""

    name = "segment"

    def __init__(self, round_s: float = 1.0) -> None:
        self._round_s = round_s

    def segments_of(self, path: Operators, network: Network, profiles: Profiles) -> tuple[Operators, ...]:
        """Inside of a segment, the memory released never falls from an operator to the next."""
        release = releases(path, network, profiles)
        cuts = [i for i, (here, after) in enumerate(pairwise(release), 1) if here > after]
        return tuple(path[i:j] for i, j in pairwise([0, *cuts, len(path)]))

    def cut(self, network: Network, profiles: Profiles) -> Iterable[Unit]:
        """One unit a segment of the list."""
        listed = SegmentList()
        ends = {query.name: query.outputs for query in network.queries.values()}
        # what no query reads must be served as well
        ends[""] = tuple(name for name in network.operators if not network.readers(name))
        for query, outputs in ends.items():
            paths = [path for output in outputs for path in network.paths_to(output)]
            segments = (self.segments_of(path, network, profiles) for path in paths)
            listed.register(query, chain.from_iterable(segments))
        for segment in listed.segments:
            priority = release_per_s(segment, network.readers(segment[-1]), profiles)
            round_tuples = max(1.0, processing_per_s(segment, profiles) * self._round_s)
            yield Unit(segment, priority, round_tuples)


def releases(path: Operators, network: Network, profiles: Profiles) -> list[float]:
    """Bytes freed a second by each operator of a path."""
    # an operator is followed by the next one of the path, the last by whoever reads it
    following = [*((name,) for name in path[1:]), network.readers(path[-1])]
    return [release_per_s((name,), reader, profiles) for name, reader in zip(path, following, strict=True)]
