"""Paths cut into segments, and the segments that are served."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.pages import Path, network_of, profiles_of

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.scheduling.capacity import (
    SegmentStrategy,
    SimplifiedSegment,
    maximal,
    processing_per_s,
    release_per_s,
)
from headgate.scheduling.chain_envelope import Chain, Mixed

PROFILES = {"a": Profile(1.0, 0.5, 10), "b": Profile(2.0, 0.1, 20), "c": Profile(10.0, 1.0, 5)}


def test_capacities_follow_their_formulas() -> None:
    assert processing_per_s(("a", "b", "c"), PROFILES) == pytest.approx(1 / (1 + 0.5 * 2 + 0.05 * 10))
    assert release_per_s(("a",), ("b",), PROFILES) == pytest.approx(10 - 0.5 * 20)
    assert release_per_s(("b",), ("c",), PROFILES) == pytest.approx((20 - 0.1 * 5) / 2)
    assert release_per_s(("a", "b", "c"), (), PROFILES) == pytest.approx(10 / 2.5)
    assert release_per_s(("a", "b"), ("c",), PROFILES) == pytest.approx((10 - 0.05 * 5) / 2)


def cut_points(strategy: SegmentStrategy, path: Path) -> list[tuple[str, ...]]:
    network = network_of([path])
    return list(strategy.segments_of(network.paths()[0], network, profiles_of([path])))


def test_segments_end_where_the_memory_released_falls() -> None:
    # released per unit: 0.1, 0.3, 0.3, 0.05 and 0.25 at the output
    path = Path((1, 1, 1, 1, 1), (0.9, 0.6, 0.3, 0.25, 0.1))
    # per second of an operator's own work on a whole tuple the same sizes weigh less late in the path
    assert cut_points(SegmentStrategy(), path) == [("0.0", "0.1", "0.2"), ("0.3", "0.4")]


def test_simplified_segments_are_two_at_most_and_forgive_small_falls() -> None:
    path = Path((1, 1, 1, 1), (0.6, 0.25, 0.2, 0.1))
    assert cut_points(SegmentStrategy(), path) == [("0.0",), ("0.1",), ("0.2", "0.3")]
    assert cut_points(SimplifiedSegment(), path) == [("0.0", "0.1"), ("0.2", "0.3")]
    assert cut_points(SimplifiedSegment(gamma=0.1), path) == [("0.0", "0.1", "0.2", "0.3")]


segments = st.lists(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True).map(tuple), max_size=12
)


@given(segments, st.data())
def test_a_segment_is_served_unless_it_is_part_of_another(
    found: list[tuple[str, ...]], data: st.DataObject
) -> None:
    served = maximal(found)
    assert served == maximal(data.draw(st.permutations(found)))
    sets = [frozenset(segment) for segment in served]
    assert all(not a < b for a in sets for b in sets)
    assert all(any(frozenset(segment) <= longer for longer in sets) for segment in found)
    assert set(served) <= set(found)


def joined() -> Network:
    """Two streams, a selection each, a join and a selection above it."""
    operators = (
        Synthetic("left", (StreamInput("s", "s", ()),)),
        Synthetic("right", (StreamInput("r", "r", ()),)),
        Synthetic("join", (OperatorInput("left"), OperatorInput("right")), ordered=True),
        Synthetic("top", (OperatorInput("join"),)),
    )
    streams = (StreamDefinition("s", "synthetic", None), StreamDefinition("r", "synthetic", None))
    return Network(streams, (), operators, (QueryDefinition("q", ("top",), SinkDefinition("none")),))


def test_both_sides_of_a_join_share_what_lies_above_it() -> None:
    network = joined()
    assert set(network.paths()) == {("left", "join", "top"), ("right", "join", "top")}
    profiles = {
        "left": Profile(1, 0.1),
        "right": Profile(1, 0.9),
        "join": Profile(1, 1.5),
        "top": Profile(1, 0.1),
    }
    chain = Chain()
    chain.prepare(network, profiles)
    assert {unit.operators for unit in chain.units} == {("left",), ("join", "top"), ("right", "join", "top")}
    # above the join there is one place, that of the steeper segment
    assert chain.positions["join"].route == ("join", "top")


def test_mixed_merges_what_is_flat() -> None:
    path = Path((1, 1, 1, 1), (0.4, 0.2, 0.1, 0.01))
    network, profiles = network_of([path]), profiles_of([path])

    def lengths(least_slope: float) -> list[int]:
        mixed = Mixed(least_slope)
        mixed.prepare(network, profiles)
        return [len(unit.operators) for unit in mixed.units]

    assert lengths(0.0)[:2] == [1, 1]
    assert lengths(0.3) == [1, 1, 2]
    assert lengths(0.5) == [1, 3]
    assert lengths(1.1) == [4]
