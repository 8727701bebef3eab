"""Paths cut into segments, and the segments that are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.pages import Path, network_of, profiles_of

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.model.profile import Profile
from headgate.scheduling.capacity import (
    SegmentList,
    SegmentStrategy,
    SimplifiedSegment,
    processing_per_s,
    release_per_s,
)
from headgate.scheduling.chain_envelope import Chain, Mixed
from headgate.scheduling.strategy import UnitStrategy

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


segments = st.frozensets(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True).map(tuple), max_size=6
)
plans = st.dictionaries(st.sampled_from("pqrstu"), segments)


def registered(plans: Mapping[str, frozenset[tuple[str, ...]]], order: Iterable[str]) -> SegmentList:
    found = SegmentList()
    for end in order:
        found.register(end, plans[end])
    return found


@given(plans, st.data())
def test_a_segment_is_served_unless_it_is_part_of_another(
    plans: dict[str, frozenset[tuple[str, ...]]], data: st.DataObject
) -> None:
    served = registered(plans, plans).served()
    assert served == registered(plans, data.draw(st.permutations(list(plans)))).served()
    found = frozenset().union(*plans.values())
    sets = [frozenset(segment) for segment in served]
    assert all(not a < b for a in sets for b in sets) and len(set(sets)) == len(sets)
    assert all(any(frozenset(segment) <= longer for longer in sets) for segment in found)
    assert set(served) <= found


@pytest.mark.slow
@given(plans, st.lists(plans, max_size=3))
def test_plans_that_came_and_went_leave_no_trace_in_the_list(
    last: dict[str, frozenset[tuple[str, ...]]], before: list[dict[str, frozenset[tuple[str, ...]]]]
) -> None:
    changed = SegmentList()
    for plans in (*before, last):
        changed.update(plans)
    assert changed.served() == registered(last, last).served()
    for end in last:
        changed.unregister(end)
    assert changed.served() == []


@st.composite
def networks(draw: st.DrawFn) -> tuple[Network, dict[str, Profile]]:
    """Queries over a pool of ten operators, each of which reads an earlier one or a stream."""
    inputs = {f"o{n}": OperatorInput(f"o{n // 2}") if n > 1 else StreamInput("s", "s", ()) for n in range(10)}
    ends = sorted(draw(st.sets(st.sampled_from(sorted(inputs)), min_size=1)))
    needed = set(ends)
    for name in reversed(inputs):
        below = inputs[name]
        if name in needed and isinstance(below, OperatorInput):
            needed.add(below.operator)
    operators = tuple(Synthetic(name, (inputs[name],)) for name in inputs if name in needed)
    queries = tuple(QueryDefinition(f"q{end}", (end,), SinkDefinition("none")) for end in ends)
    network = Network((StreamDefinition("s", "synthetic", None),), (), operators, queries)
    sizes = st.sampled_from((0.1, 0.5, 1.0, 2.0))
    return network, {name: Profile(draw(sizes), draw(sizes), draw(sizes)) for name in network.operators}


@pytest.mark.parametrize("strategy", [Chain, Mixed, SegmentStrategy, SimplifiedSegment])
@given(st.lists(networks(), min_size=2, max_size=4))
def test_a_changed_network_is_cut_as_if_it_were_the_first(
    strategy: Callable[[], UnitStrategy], found: list[tuple[Network, dict[str, Profile]]]
) -> None:
    changed, new = strategy(), strategy()
    for network, profiles in found:
        changed.prepare(network, profiles)
    new.prepare(*found[-1])
    assert changed.units == new.units and changed.positions == new.positions


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
