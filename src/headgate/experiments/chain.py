"""Chain scheduling: the worked example and the seven experiments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from headgate.experiments import chain_plans as plans
from headgate.experiments.bursts import recorded, synthetic
from headgate.experiments.chain_latency import flush_at_thresholds, mixed_at_slopes
from headgate.experiments.check import Progress, Study
from headgate.experiments.plan import Box, Streams, scenario
from headgate.report.lines import drawing
from headgate.report.simulated import plot_backlogs
from headgate.scheduling import strategy_named
from headgate.scheduling.chart import ProgressChart
from headgate.simulator import Result, Scenario, simulate

_STREAMS = ("r", "s", "t", "u", "v")
_COMPARED = ("fifo", "greedy", "round-robin", "chain")
# with a quantum of some of the quickest turns, round robin is neither fifo nor does it drain each queue
_QUANTUM_TURNS = 10


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """All of it, over the recorded trace as well if there is one."""
    study = Study("chain", out, progress)
    _worked_example(study)
    sources = {"synthetic": synthetic(_STREAMS)}
    if trace is not None:
        sources["recorded"] = recorded(trace, _STREAMS)
    for kind, streams in sources.items():
        _memory(study, kind, streams)
        _latency(study, kind, streams)
    return study


def _worked_example(study: Study) -> None:
    study.progress("worked example")
    boxes = {"a": Box("s", 1.0, 0.2), "b": Box("a", 5.0, 0.0)}
    # seven pages that take two time units each, of which arrivals last six
    plan = scenario({"s": np.arange(7.0)}, boxes, {"q": "b"}, load=14 / 6, fate="page", time_unit_s=1.0)
    expected = {
        "fifo": [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0],
        "greedy": [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2],
        "chain": [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2],
    }
    results = []
    for name, sizes in expected.items():
        results.append(simulate(plan, strategy_named(name)))
        backlog = results[-1].backlog
        got = [float(f"{backlog.at(t):.12g}") for t in range(7)]
        study.equal(f"worked example: queue size under {name} at t = 0..6", sizes, got)
        study.equal(f"worked example: {name} is empty from t = 14 on, not before", 14.0, results[-1].end_s)
    study.figure(plot_backlogs(results, study.out / "worked-example.png", "Worked example"))
    _draw_chart(study, "worked-example", plan, ("a", "b"))


def _memory(study: Study, kind: str, streams: Streams) -> None:
    first = _compare(study, kind, 1, "a selective operator, then a slow one", plans.fast_then_slow(streams))
    steps = [
        (first[n].backlog.times_s.tolist(), first[n].backlog.sizes.tolist()) for n in ("chain", "greedy")
    ]
    study.equal(f"1 {kind}: chain = greedy at every instant", True, steps[0] == steps[1])
    study.at_least(f"1 {kind}: peak of fifo / chain", 2.0, _lead(first, ["fifo"]))
    hidden = plans.hidden_selective(streams)
    second = _compare(study, kind, 2, "a selective operator behind a weak one", hidden)
    _draw_chart(study, f"2-{kind}", hidden, tuple(hidden.network.operators))
    third = _compare(study, kind, 3, "join with a stored relation", plans.stored_relation(streams))
    fourth = _compare(study, kind, 4, "window join of two streams", plans.window_join(streams))
    for number, results in ((2, second), (3, third), (4, fourth)):
        for name in ("greedy", "fifo", "round-robin"):
            study.at_least(f"{number} {kind}: peak of {name} / chain", 1.5, _lead(results, [name]))
    fifth = _compare(study, kind, 5, "several queries at once", plans.several_queries(streams))
    others = ("greedy", "fifo", "round-robin")
    leads = {"one query (2)": _lead(second, others), "one join (4)": _lead(fourth, others)}
    study.at_least(
        f"5 {kind}: peak of the next best / chain, over that of 2 and 4",
        1.0,
        _lead(fifth, others) / max(leads.values()),
    )


def _latency(study: Study, kind: str, streams: Streams) -> None:
    for number, plan in ((2, plans.hidden_selective(streams)), (5, plans.several_queries(streams))):
        study.progress(f"experiment 6 ({kind}): latency of the plan of {number}")
        flush_at_thresholds(study, f"6 {kind}, plan of {number}", plan)
    study.progress(f"experiment 7 ({kind}): mixed")
    mixed_at_slopes(study, f"7 {kind}", plans.falling(streams))


def _compare(study: Study, kind: str, number: int, what: str, plan: Scenario) -> dict[str, Result]:
    study.progress(f"experiment {number} ({kind}): {what}")
    quantum_s = _QUANTUM_TURNS * min(figures.seconds for figures in plan.figures.values())
    texts = {
        name: f"round-robin:quantum_s={quantum_s}" if name == "round-robin" else name for name in _COMPARED
    }
    results = {name: simulate(plan, strategy_named(text)) for name, text in texts.items()}
    title = f"Experiment {number}: {what} ({kind} arrivals)"
    study.figure(plot_backlogs(list(results.values()), study.out / f"{number}-{kind}.png", title))
    return results


def _lead(results: dict[str, Result], others: Iterable[str]) -> float:
    """How many times chain's peak the best of the others needs."""
    return min(results[name].backlog.peak for name in others) / results["chain"].backlog.peak


def _draw_chart(study: Study, name: str, plan: Scenario, path: tuple[str, ...]) -> None:
    file = study.out / f"chart-{name}.png"
    with drawing(file, "Progress chart and lower envelope") as axes:
        ProgressChart.of_path(path, plan.profiles).plot(axes)
    study.figure(file)
