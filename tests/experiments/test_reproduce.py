"""``headgate reproduce``: checks that can fail, figures that are there, errors of one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.support import invoke
from tests.recorded_trace import TRACE, with_trace

from headgate.experiments import chain, findings, workloads
from headgate.experiments.study import Study
from headgate.workload.processes import ParetoFlows


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 400 arrivals per stream, in bursts."""
    short_streams = {name: ParetoFlows(until=120.0).times_s(1 + i) for i, name in enumerate("rstuv")}
    monkeypatch.setattr(chain, "synthetic_arrivals", lambda streams: short_streams)
    monkeypatch.setattr(chain, "_LEARNT_PLANS", ())


def study(tmp_path: Path) -> Study:
    return Study("any", tmp_path, lambda what: None)


def test_checks_can_fail(tmp_path: Path) -> None:
    made = study(tmp_path)
    made.equal("same", [1, 2], [1, 2])
    made.at_least("enough", 2.0, 2.0)
    made.at_most("little", 2.0, 1.0)
    made.rising("up", {"a": 1.0, "b": 2.0, "c": 1.9}, tolerance=0.1)
    assert made.ok and all(check.ok for check in made.checks)
    made.equal("other", 1, 2)
    made.at_least("too little", 2.0, 1.0)
    made.at_most("too much", 2.0, 3.0)
    made.rising("down", {"a": 1.0, "b": 0.5})
    assert [check.ok for check in made.checks[4:]] == [False] * 4 and not made.ok


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_every_chain_experiment_holds_on_bursts_and_its_figures_are_drawn(tmp_path: Path) -> None:
    done = invoke("reproduce", "chain", "--out", tmp_path, "--json")
    document = json.loads(done.stdout)
    names = [check["name"] for check in document["checks"]]
    for experiment in ("worked example", *(f"{number} synthetic" for number in range(1, 8))):
        assert any(name.startswith(experiment) for name in names), experiment
    assert [check["name"] for check in document["checks"] if not check["ok"]] == []
    assert done.exit_code == 0
    assert all(Path(figure).stat().st_size > 1000 for figure in document["figures"])


@pytest.mark.slow
def test_even_arrivals_build_no_queue_and_fail_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    even = {name: np.arange(0.0, 20.0, 0.5) + i / 7 for i, name in enumerate("rstuv")}
    monkeypatch.setattr(chain, "synthetic_arrivals", lambda streams: even)
    monkeypatch.setattr(chain, "_LEARNT_PLANS", ())
    assert invoke("reproduce", "chain", "--out", tmp_path).exit_code == 1


@pytest.mark.slow
def test_learnt_charts_are_close_to_true_ones_unless_nothing_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "_LEARNT_PLANS", (2,))
    monkeypatch.setattr(chain, "_RUNS", 6)
    made = study(tmp_path)
    chain._learnt_charts(made)
    assert len(made.checks) == 4 and made.ok
    monkeypatch.setattr(chain, "_WINDOW", 1e6)
    late = study(tmp_path)
    chain._learnt_charts(late)
    assert [check.ok for check in late.checks] == [False, True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eddy"], "error: unknown study eddy; known: all, chain, "),
        (["chain", "--trace", "nowhere.parquet"], "error: --trace: there is no file nowhere.parquet"),
    ],
)
def test_bad_arguments_are_one_line(arguments: list[str], message: str) -> None:
    failed = invoke("reproduce", *arguments)
    assert failed.exit_code == 2
    assert failed.stderr.startswith(message) and failed.stderr.count("\n") == 1


def test_a_plan_has_the_load_that_it_is_given() -> None:
    streams = {"r": np.linspace(0.0, 100.0, 50)}
    made = workloads.scenario(streams, workloads.path_of("r", (1.0, 0.5), (4.0, 1.0)), {"q": "r.2"}, load=0.8)
    assert made.work_s == pytest.approx(80.0)
    assert set(workloads.with_latency(made, 3.0).network.queries["q"].__dict__.items()) >= {
        ("latency_s", 3.0)
    }


def test_synthetic_bursts_are_the_same_each_time_and_differ_by_stream() -> None:
    one, again = workloads.synthetic_arrivals(("r", "s")), workloads.synthetic_arrivals(("r", "s"))
    assert np.array_equal(one["r"], again["r"]) and not np.array_equal(one["r"][:100], one["s"][:100])


def test_a_short_trace_is_cut_into_equal_stretches_and_too_short_a_one_refused(tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("at_s\n" + "\n".join(f"{i / 100}" for i in range(1001)))
    streams = workloads.recorded_arrivals(file, ("r", "s"))
    assert [len(times) for times in streams.values()] == [500, 500]
    assert all(times[0] == pytest.approx(0.0) and times[-1] < 5 for times in streams.values())
    failed = invoke("reproduce", "chain", "--trace", file, "--out", tmp_path)
    assert failed.exit_code == 2 and "has 1001 arrivals; at least 2500 are needed" in failed.stderr


@with_trace
def test_on_the_recorded_trace_chain_needs_the_least() -> None:
    streams = workloads.recorded_arrivals(TRACE, ("r",))
    assert len(streams["r"]) > 1000
    made = study(Path("unused"))
    results = {
        name: chain.simulate(chain.plan_of(2, streams), chain.strategy_named(name))
        for name in ("fifo", "greedy", "chain")
    }
    made.at_least("fifo", 1.5, chain._lead(results, ["fifo"]))
    made.at_least("greedy", 1.5, chain._lead(results, ["greedy"]))
    assert made.ok


@pytest.mark.slow
def test_the_findings_hold_on_synthetic_arrivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # random charts of theorem 3
    monkeypatch.setattr(findings, "_CASES", 100)
    made = findings.reproduce(None, tmp_path, lambda what: None)
    assert [check.name for check in made.checks if not check.ok] == []
    assert len(made.checks) == 15 and all(figure.is_file() for figure in made.figures)
