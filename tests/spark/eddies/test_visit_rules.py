"""Visit rules without Spark: what is eligible when, and tuples that leave a worker for a probe."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.model.expression import Expression
from headgate.model.network import PoolDefinition
from headgate.model.operator import ByTruth, JoinEddy, PlacedPredicate, PlacedProbe
from headgate.model.operator_inputs import OperatorInput
from headgate.model.window import TimeWindow
from headgate.routing import router_names
from headgate.session.placed import router_for_run
from headgate.spark.eddies.pools import Pools
from headgate.spark.eddies.slot_server import SlotClient, SlotServer
from headgate.spark.eddies.visit_rules import probe_parents, visit_rules
from headgate.spark.eddies.worker import DROPPED, EddyWorker, Step

ALIASES = "abcd"


def over(*aliases: str) -> Expression:
    return Expression.parse(f"p({', '.join(f'{alias}__x' for alias in aliases)})")


def eddy_of(sides: int, matches: list[tuple[str, ...]], read: list[tuple[str, ...]]) -> JoinEddy:
    probes = [PlacedProbe(ALIASES[n], TimeWindow(10), (n, n), "windows") for n in range(sides)]
    predicates = []
    for aliases in read:
        truth = over(*aliases)
        verdict = ByTruth(truth, truth, truth)
        predicates.append(PlacedPredicate(truth.text, "f", (truth,), verdict, "calls"))
    joined = tuple(over(*aliases) for aliases in matches)
    return JoinEddy("q.eddy", OperatorInput("q.windows"), tuple(predicates), joined, tuple(probes))


def test_a_chain_is_probed_along_its_links() -> None:
    chain = eddy_of(3, [("a", "b"), ("b", "c")], [("c",), ("a", "b")])
    assert probe_parents(chain, 0) == [None, 0, 1]
    assert probe_parents(chain, 1) == [1, None, 1]
    rules = visit_rules(chain)
    assert rules.eligible(0, 0b00001) == [1]
    assert rules.eligible(0, 0b00011) == [2, 4]
    assert rules.eligible(1, 0b00010) == [0, 2]
    assert rules.visited(1, 0b00110) == ["q.eddy.2"]
    assert rules.before(0) == (("q.eddy.1", "q.eddy.2"), ("q.eddy.2", "q.eddy.3"), ("q.eddy.1", "q.eddy.4"))


def test_windows_that_nothing_links_are_eligible_at_once() -> None:
    assert probe_parents(eddy_of(3, [("b", "c")], []), 0) == [None, None, 1]
    assert probe_parents(eddy_of(3, [("a", "b", "c")], []), 0) == [None, None, None]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 4),
    st.lists(st.sets(st.sampled_from(ALIASES), min_size=2, max_size=3), max_size=4),
    st.lists(st.sets(st.sampled_from(ALIASES), max_size=2), max_size=2),
)
def test_whatever_a_tuple_has_visited_it_can_visit_the_rest(sides, matches, read) -> None:  # type: ignore[no-untyped-def]
    known = set(ALIASES[:sides])
    own = [tuple(sorted(m)) for m in matches if m <= known]
    rules = visit_rules(eddy_of(sides, own, [tuple(sorted(a)) for a in read if a <= known]))
    for side in range(sides):
        histories = list(rules.histories(side))
        assert len(histories) == len(set(histories))
        assert all(rules.eligible(side, done) for done in histories)


@pytest.mark.parametrize("policy", router_names())
def test_tuples_leave_a_worker_settled_or_routed_to_a_probe(policy: str) -> None:
    eddy = eddy_of(3, [("a", "b"), ("b", "c")], [("a",), ("c",)])
    pools = Pools([PoolDefinition("windows", 1), PoolDefinition("calls", 2)], [eddy], router_for_run(policy))
    steps = (Step("f", b"", (), "", ()),) * 2
    queues = {f"q.eddy.{n}": 0 for n in range(3)}
    server = SlotServer("127.0.0.1", "127.0.0.1", pools)
    with closing(server):
        job = pools.assignment("q.eddy", steps, 60.0, server.new_job(), {"q.eddy": 0}, queues)
        rules, rows = job.rules, 300
        sides = [row % 3 for row in range(rows)]
        done: list[int] = [rules.first(side) for side in sides]
        with closing(SlotClient(job.access, job.statistics, lambda: None)) as client:
            worker = EddyWorker(job, [lambda row: row % 2 == 0] * 2, done, range(rows), client, sides)
            assert worker.run().settled == rows
    for row, (bits, target) in enumerate(zip(done, worker.targets, strict=True)):
        if bits == DROPPED:
            assert row % 2 == 1
        else:
            # no tuple is finished without the other windows
            assert target in rules.eligible(sides[row], bits)
            assert target < rules.probes
