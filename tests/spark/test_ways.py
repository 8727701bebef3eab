"""Ways through an eddy, without Spark: what is ready when, and tuples that leave a task for a probe."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.model.expression import Expression
from headgate.model.operator import ByTruth, JoinEddy, OperatorInput, PlacedPredicate, PlacedProbe
from headgate.model.pool import PoolDefinition
from headgate.model.window import TimeWindow
from headgate.placed import router_for_run
from headgate.routing.registry import router_names
from headgate.spark.eddies.assignment import DROPPED, Step
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.ways import parents, ways_of
from headgate.spark.eddies.whirl import Whirl

ALIASES = "abcd"


def over(*aliases: str) -> Expression:
    return Expression(f"p({', '.join(aliases)})", tuple(f"{alias}__x" for alias in aliases))


def eddy_of(sides: int, matches: list[tuple[str, ...]], asked: list[tuple[str, ...]]) -> JoinEddy:
    probes = [PlacedProbe(ALIASES[n], TimeWindow(10), (n, n), "windows") for n in range(sides)]
    predicates = []
    for aliases in asked:
        truth = over(*aliases)
        verdict = ByTruth(truth, truth, truth)
        predicates.append(PlacedPredicate(truth.text, "f", (truth,), verdict, "calls"))
    joined = tuple(over(*aliases) for aliases in matches)
    return JoinEddy("q.eddy", OperatorInput("q.windows"), tuple(predicates), joined, tuple(probes))


def test_a_chain_is_probed_along_its_links() -> None:
    chain = eddy_of(3, [("a", "b"), ("b", "c")], [("c",), ("a", "b")])
    assert parents(chain, 0) == [None, 0, 1]
    assert parents(chain, 1) == [1, None, 1]
    ways = ways_of(chain)
    assert ways.ready(0, 0b00001) == [1]
    assert ways.ready(0, 0b00011) == [2, 4]
    assert ways.ready(1, 0b00010) == [0, 2]
    assert ways.visited(1, 0b00110) == ["q.eddy.2"]
    assert ways.before(0) == (("q.eddy.1", "q.eddy.2"), ("q.eddy.2", "q.eddy.3"), ("q.eddy.1", "q.eddy.4"))


def test_windows_that_nothing_links_are_ready_at_once() -> None:
    assert parents(eddy_of(3, [("b", "c")], []), 0) == [None, None, 1]
    assert parents(eddy_of(3, [("a", "b", "c")], []), 0) == [None, None, None]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 4),
    st.lists(st.sets(st.sampled_from(ALIASES), min_size=2, max_size=3), max_size=4),
    st.lists(st.sets(st.sampled_from(ALIASES), max_size=2), max_size=2),
)
def test_whatever_a_tuple_has_done_it_can_do_the_rest(sides, matches, asked) -> None:  # type: ignore[no-untyped-def]
    known = set(ALIASES[:sides])
    own = [tuple(sorted(m)) for m in matches if m <= known]
    ways = ways_of(eddy_of(sides, own, [tuple(sorted(a)) for a in asked if a <= known]))
    for side in range(sides):
        histories = list(ways.histories(side))
        assert len(histories) == len(set(histories))
        assert all(ways.ready(side, done) for done in histories)


@pytest.mark.parametrize("policy", router_names())
def test_tuples_leave_a_task_settled_or_on_their_way_to_a_probe(policy: str) -> None:
    eddy = eddy_of(3, [("a", "b"), ("b", "c")], [("a",), ("c",)])
    pools = Pools([PoolDefinition("windows", 1), PoolDefinition("calls", 2)], [eddy], router_for_run(policy))
    steps = tuple(Step(f"q.eddy.{n}", "calls", "f", b"", (), "", ()) for n in (3, 4))
    queues = {f"q.eddy.{n}": 0 for n in range(3)}
    given_ = pools.assigned("q.eddy", steps, 60.0, None, 0, {"q.eddy": 0}, queues)
    ways, rows = given_.ways, 300
    sides = [row % 3 for row in range(rows)]
    done: list[int] = [ways.first(side) for side in sides]
    whirl = Whirl(given_, [lambda row: row % 2 == 0] * 2, done, range(rows), sides, [None] * rows)
    assert whirl.run().settled == rows
    for row, (bits, aim) in enumerate(zip(done, whirl.aims, strict=True)):
        if bits == DROPPED:
            assert row % 2 == 1
        else:
            # nobody is through without the other windows
            assert aim in ways.ready(sides[row], bits)
            assert aim < ways.probes
