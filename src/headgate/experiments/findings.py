"""Memory and latency of the strategies of both papers, and which of their claims hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headgate.experiments.chain import STREAMS, plan_of
from headgate.experiments.study import Progress, Study
from headgate.experiments.workloads import (
    Box,
    path_of,
    results_of,
    scenario,
    synthetic_arrivals,
    with_recorded,
)
from headgate.simulator import Scenario

_CASES = 400
_EPSILON = 1e-9
# by the number of the experiment that has them
_PLANS = {"selective behind weak": 2, "falling slopes": 7, "several queries": 5}


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """Memory and latency over the trace, theorem 3 on random charts, output in a long burst."""
    study = Study("findings", out, progress)
    for kind, streams in with_recorded("synthetic", synthetic_arrivals(STREAMS), trace).items():
        for what, number in _PLANS.items():
            study.progress(f"memory and latency: {what} ({kind})")
            _compare(study, f"{what} ({kind})", plan_of(number, streams))
    study.progress("theorem 3 of the segment paper")
    _theorem_3(study)
    study.progress("output in a long burst")
    _long_burst(study)
    return study


def _compare(study: Study, what: str, plan: Scenario) -> None:
    results = results_of(plan, ("path-capacity", "simplified-segment", "segment", "chain", "fifo"))
    latency_s = {name: result.latency_mean_s or 0.0 for name, result in results.items()}
    order = ("chain", "segment", "path-capacity")
    study.rising(f"{what}: mean backlog", {name: results[name].backlog.mean for name in order})
    study.rising(f"{what}: mean latency (s)", {name: latency_s[name] for name in order[::-1]})
    study.rising(f"{what}: peak backlog", {name: results[name].backlog.peak for name in order})
    name = what.replace(" ", "-").replace("(", "").replace(")", "")
    labels = ("mean latency (s)", "mean backlog (tuples)")
    with study.drawing(name, f"Memory against latency: {what}", *labels) as axes:
        for strategy, result in results.items():
            axes.plot([latency_s[strategy]], [result.backlog.mean], "o", label=strategy)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)


def _theorem_3(study: Study) -> None:
    """The theorem: segment never needs more memory than chain. On envelope charts, nothing needs less."""
    random = np.random.default_rng(1)
    stepped, convex = (
        np.array([_excess_of_segment(_random_plan(random, is_convex)) for _ in range(_CASES)])
        for is_convex in (False, True)
    )
    charts = f"theorem 3: of {_CASES} random charts, those where segment needs"
    study.at_least(f"{charts} more than chain", 1, int((stepped > _EPSILON).sum()))
    study.at_least(f"{charts} less than chain", 1, int((stepped < -_EPSILON).sum()))
    envelopes = f"theorem 3: of {_CASES} envelope charts, those where segment needs less than chain"
    study.equal(envelopes, 0, int((convex < -_EPSILON).sum()))


def _excess_of_segment(plan: Scenario) -> float:
    chain, segment = (result.backlog.peak for result in results_of(plan, ("chain", "segment")).values())
    return segment - chain


def _random_plan(random: np.random.Generator, convex: bool) -> Scenario:
    """One or two paths over a few pages; convex charts have operators of one time unit."""
    boxes: dict[str, Box] = {}
    outputs, streams = {}, {}
    for stream in ("r", "s")[: random.integers(1, 3)]:
        count = int(random.integers(2, 5))
        if convex:
            drops = np.sort(random.integers(1, 9, count))[::-1]
            sizes, units = 1 - np.cumsum(drops) / drops.sum(), np.ones(count, np.int64)
        else:
            sizes = np.sort(random.choice([0.1, 0.25, 0.5, 0.75, 1.0], count))[::-1]
            units = random.integers(1, 4, count)
        after = np.maximum(sizes, 1e-6)
        before = np.concatenate([[1.0], after[:-1]])
        boxes |= path_of(stream, *zip((units / before).tolist(), (after / before).tolist(), strict=True))
        outputs[stream] = f"{stream}.{count}"
        streams[stream] = np.sort(random.integers(0, 9, 4)).astype(float)
    return scenario(streams, boxes, outputs, time_unit_s=1.0)


def _long_burst(study: Study) -> None:
    """Overload by 4.5 for 300 s, in which the first operator takes 0.9 of the time under chain."""
    burst_s = 300.0
    arrivals = np.arange(0.0, burst_s, 0.1)
    plan = scenario({"r": arrivals}, path_of("r", (1.0, 0.2), (20.0, 1.0)), {"q": "r.2"}, load=4.5)
    results = results_of(plan, ("chain", "path-capacity"))
    edges = np.arange(0.0, max(result.end_s for result in results.values()) + 10, 10.0)
    rates = {n: np.histogram(r.outputs.times_s, edges)[0] / np.diff(edges) for n, r in results.items()}
    during, after = edges[:-1] < burst_s, (edges[:-1] >= burst_s) & (edges[:-1] < burst_s + 100)
    chain, path = rates["chain"], rates["path-capacity"]
    lasting = float(chain[during].mean())
    study.at_most("long burst: output of chain / path-capacity", 0.2, lasting / float(path[during].mean()))
    study.at_least("long burst: output of chain after / during it", 5.0, float(chain[after].mean()) / lasting)
    smooth = float(path[after].mean() / path[during].mean())
    study.at_most("long burst: output of path-capacity after / during it", 1.1, smooth)
    lines = {name: (edges[:-1].tolist(), rate.tolist()) for name, rate in rates.items()}
    title = "Output in a burst of 300 s and after it"
    study.plot("long-burst", title, "time (s)", "outputs (tuples/s)", lines, steps=True)
