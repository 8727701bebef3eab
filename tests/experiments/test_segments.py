"""``headgate reproduce segments``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import invoke
from tests.recorded_trace import TRACE, with_trace

from headgate.experiments import segments
from headgate.experiments.segments import (
    CLAIMS,
    DISAGREEMENTS,
    PAPER,
    SHAPES,
    STREAMS,
    VARIATIONS,
    holding,
    quantities,
    self_similar,
    sixteen_queries,
)
from headgate.experiments.study import Study
from headgate.experiments.workloads import recorded_arrivals
from headgate.model.operator import is_ordered
from headgate.model.operator_inputs import StreamInput


def test_sixteen_queries_have_116_operators_and_read_all_streams() -> None:
    assert len(SHAPES) == 16
    assert max(shape.joins for shape in SHAPES) == 4
    plan = sixteen_queries(self_similar())
    assert len(plan.network.operators) == 116
    assert set(plan.network.streams) == set(STREAMS)
    assert plan.work_s == pytest.approx(0.9 * plan.last_arrival_s)


def test_leaves_are_five_times_as_fast_and_more_selective_than_all_others() -> None:
    plan = sixteen_queries(self_similar())
    operators = plan.network.operators
    leaves = [name for name, found in operators.items() if isinstance(found.inputs[0], StreamInput)]
    others = [name for name in operators if name not in leaves]
    seconds, selectivities = (
        [[getattr(plan.behaviours[name], value) for name in names] for names in (leaves, others)]
        for value in ("seconds", "selectivity")
    )
    assert max(seconds[0]) < min(seconds[1])
    assert np.mean(seconds[1]) / np.mean(seconds[0]) == pytest.approx(5.0, rel=0.15)
    assert max(selectivities[0]) <= 0.4 <= min(selectivities[1])
    # a few joins alone make more of what they get
    growing = [name for name in operators if plan.behaviours[name].selectivity > 1]
    assert 0 < len(growing) < 10 and all("join" in name for name in growing)
    assert all(is_ordered(found) == ("join" in name) for name, found in operators.items())


def test_disagreements_are_about_claims() -> None:
    about_plans = {name for name in DISAGREEMENTS if not name.startswith("recorded: ")}
    assert about_plans < {str(claim) for claim in CLAIMS}


@with_trace
@pytest.mark.slow
def test_on_the_recorded_trace_threshold_comes_out_as_it_is_known_to(tmp_path: Path) -> None:
    study = Study("segments", tmp_path, lambda text: None, disagreements=DISAGREEMENTS)
    segments._one_plan(study, "recorded", recorded_arrivals(TRACE, STREAMS))
    known = [check.name for check in study.checks if check.disagreement]
    assert study.ok and len(known) == len([name for name in DISAGREEMENTS if name.startswith("recorded: ")])


@pytest.mark.slow
def test_on_a_few_plans_most_claims_hold_and_those_about_leaves_only_with_such_leaves() -> None:
    other = "leaves like the others"
    found = quantities(8, {"paper": PAPER, other: VARIATIONS[other]})
    counts = {str(claim): holding(claim, found["paper"]) for claim in CLAIMS}
    assert {name for name, count in counts.items() if count <= 4} <= set(DISAGREEMENTS)
    quicker = next(
        claim for claim in CLAIMS if str(claim) == "mean latency (s): simplified-segment below chain"
    )
    assert holding(quicker, found[other]) < 4


@pytest.mark.slow
def test_every_claim_is_reported_and_every_figure_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_PLANS", 2)
    monkeypatch.setattr(segments, "_PLANS_OF_VARIATION", 1)
    monkeypatch.setattr(segments, "_PHASE_S", 2.0)
    done = invoke("reproduce", "segments", "--out", tmp_path, "--json")
    document = json.loads(done.stdout)
    claims = {str(claim) for claim in CLAIMS}
    # two plans prove nothing, whatever they show; all else holds
    assert {check["name"] for check in document["checks"] if not check["ok"]} == claims
    assert done.exit_code == 1
    drawn = {Path(figure).name for figure in document["figures"]}
    expected = {f"self-similar-{what}.png" for what in ("latency", "throughput", "memory")}
    assert drawn == {"worked-example.png", *expected}
    assert all(Path(figure).stat().st_size > 1000 for figure in document["figures"])
