"""``headgate reproduce eddies``: the figures of the paper, and random plans as plain values."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from headgate.experiments import eddies
from headgate.experiments.eddy_paper import DISAGREEMENTS
from headgate.experiments.eddy_plans import (
    ORDERS,
    CaseResult,
    Order,
    PlanSet,
    PolicyCase,
    RunSize,
    free_order,
    geometric_mean,
    joins,
    means,
    measure,
    on_all_processors,
    paper_run,
    windows_first,
)
from headgate.experiments.study import Study
from headgate.routing.routing_network import AnyOrder, RoutingNetwork
from headgate.simulator.eddies import LoadSharing
from headgate.simulator.eddies.eddy_simulation import simulate_eddy


def study(folder: Path) -> Study:
    return Study("eddies", folder, lambda what: None, disagreements=DISAGREEMENTS)


def test_the_analysis_holds(tmp_path: Path) -> None:
    made = study(tmp_path)
    eddies._analysis(made)
    assert [check.name for check in made.checks if not check.ok] == []
    assert len(made.checks) == 15


@pytest.mark.slow
def test_policies_on_three_selections_stand_and_collapse_as_in_the_paper(tmp_path: Path) -> None:
    made = study(tmp_path)
    eddies._s3(made)
    assert [(check.name, check.got) for check in made.checks if check.is_surprise] == []
    assert all(figure.stat().st_size > 1000 for figure in made.figures)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "paper_s"), [(400.0, 208.0), (500.0, 332.0)])
def test_behind_one_copy_of_op2_sc_waits_as_long_as_the_paper_has_it(rate: float, paper_s: float) -> None:
    network = eddies.placed_selections("a fifth free")
    found = simulate_eddy(paper_run(network, "sc", rate, 500_000, sharing=LoadSharing()))
    assert found.art == pytest.approx(paper_s, rel=0.1)


def test_pairs_of_policies_in_another_order_than_the_papers_are_named(tmp_path: Path) -> None:
    made = study(tmp_path)
    # 100 and 105 count as equal
    eddies._in_order(made, "table", {"t": 1.0, "q": 100.0, "sc": 105.0}, {"t": 2.0, "q": 3.0, "sc": 2.5})
    eddies._in_order(made, "table", {"t": 1.0, "q": 100.0, "sc": 105.0}, {"t": 2.8, "q": 3.0, "sc": 2.5})
    assert [check.got for check in made.checks] == [[], ["t < sc"]]


def test_every_known_disagreement_is_about_a_table_and_has_a_reason() -> None:
    assert all(len(reason) > 40 for reason in DISAGREEMENTS.values())


@pytest.mark.parametrize("network", [windows_first, free_order, joins])
def test_random_plans_have_the_size_they_are_asked_for(network: Callable[..., RoutingNetwork]) -> None:
    found = network(3, 2, (10, 12), 4)
    assert 20 <= len(found.operators) <= 24 and len(found.nodes) == 4
    assert network(3, 2, (10, 12), 4) == found != network(4, 2, (10, 12), 4)


def test_plans_in_free_order_have_one_source_and_no_order() -> None:
    found = free_order(3, 2, (20, 30), 10)
    assert len(found.rates) == len(found.plans) == 2
    assert all(not plan.before and 20 <= len(plan.operators) <= 30 for plan in found.plans.values())


def test_tuples_of_joined_streams_probe_all_other_windows_outwards_from_their_own() -> None:
    found = joins(3, 1, (20, 30), 10)
    streams = len(found.rates)
    assert 4 <= streams <= 6
    for plan in found.plans.values():
        assert isinstance(plan, AnyOrder)
        own = int(plan.source.removeprefix("q0.s"))
        probed = {int(name.removeprefix("q0.probe")) for name in plan.operators if "probe" in name}
        assert probed == set(range(streams)) - {own}
        outwards = [(*range(own + 1, streams),), (*range(own - 1, -1, -1),)]
        pairs = {(f"q0.probe{a}", f"q0.probe{b}") for side in outwards for a, b in pairwise(side)}
        assert set(plan.before) == pairs
    shared = [
        operator for operator in found.operators.values() if not isinstance(operator.selectivity, float)
    ]
    assert len(shared) == streams and all(len(each.selectivity) == streams - 1 for each in shared)


SMALL = RunSize((0.5,), tuples=500, rate_tuples=12_000)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_a_case_is_a_plain_value_and_measured_the_same_anywhere(order: Order) -> None:
    case = PolicyCase(PlanSet(order, 0, 1, (10, 12), 4), "wscq", True, SMALL)
    found = measure(pickle.loads(pickle.dumps(case)))
    assert pickle.loads(pickle.dumps(found)) == measure(case)
    assert found.mdr > 0 and 0 < found.response_s[0] < 100


@pytest.mark.slow
def test_cases_are_measured_in_threads_as_one_after_the_other() -> None:
    cases = [
        PolicyCase(PlanSet("free order", 0, 1, (10, 12), 4), policy, False, SMALL) for policy in ("q", "wscq")
    ]
    assert on_all_processors(measure, cases) == list(map(measure, cases))


def test_means_are_geometric_over_runs_and_networks() -> None:
    case = PolicyCase(PlanSet("free order", 0, 1, (10, 12), 4), "q", False, SMALL)
    found = means([CaseResult(case, (1.0, 4.0), 10.0), CaseResult(case, (2.0, 2.0), 40.0)])
    assert found == {"art": {"q": pytest.approx(2.0)}, "mdr": {"q": pytest.approx(20.0)}}
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)
