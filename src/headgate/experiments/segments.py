"""Path capacity and segments: the worked example, and 16 queries over self-similar streams."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headgate.experiments.study import Progress, Study, rounded
from headgate.experiments.workloads import Box, Streams, results_of, scenario, with_recorded
from headgate.scheduling import strategy_named
from headgate.simulator import Result, Scenario, simulate
from headgate.workload.processes import OnOffTimes

STREAMS = ("r", "s", "t", "u", "v")
QUERIES, OPERATORS = 16, 116
# tuples per second and stream, 30 seconds each; on average over the run, nine tenths of what can be processed
_RATES = (4.0, 8.0, 12.0, 16.0, 20.0)
_PHASE_S = 30.0
_LOAD = 0.9


class Shape(NamedTuple):
    """A query: its joins, selections before them on each side, operators after the last."""

    joins: int
    before: int = 2
    after: int = 1


SHAPES = (
    *(Shape(0, length) for length in (2, 2, 3, 3, 4, 4)),
    *map(Shape, (1, 1, 1, 1, 2, 2, 2, 3, 3)),
    Shape(4, after=3),
)


def self_similar(seed: int = 1) -> Streams:
    """Five sums of 64 or 128 on/off flows, their rates rising over five phases."""
    until_s = len(_RATES) * _PHASE_S
    flows = [
        OnOffTimes(rate=_RATES, until=until_s, flows=64 if number % 2 else 128)
        for number in range(len(STREAMS))
    ]
    return {name: flows[number].times_s(seed + number) for number, name in enumerate(STREAMS)}


def sixteen_queries(streams: Streams, seed: int = 1) -> Scenario:
    """The plan; selections are quick, joins slow, and costs and selectivities are drawn at random."""
    random = np.random.default_rng(seed)
    boxes: dict[str, Box] = {}
    outputs: dict[str, str] = {}

    def add(name: str, inputs: str, time: tuple[float, float], selectivity: tuple[float, float]) -> str:
        boxes[name] = Box(inputs, random.uniform(*time), random.uniform(*selectivity))
        return name

    for number, shape in enumerate(SHAPES, start=1):
        query, tops = f"q{number}", []
        for side in range(shape.joins + 1):
            # streams in turn, so that all are read alike
            stream = top = STREAMS[(number + side) % len(STREAMS)]
            for step in range(1, shape.before + 1):
                top = add(f"{query}.{stream}{step}", top, (0.5, 2.0), (0.3, 0.9))
            tops.append(top)
        top = tops[0]
        for step, other in enumerate(tops[1:], start=1):
            top = add(f"{query}.join{step}", f"{top} {other}", (2.0, 6.0), (0.4, 1.0))
        for step in range(1, shape.after + 1):
            top = add(f"{query}.after{step}", top, (1.0, 4.0), (0.5, 1.0))
        outputs[query] = top
    return scenario(streams, boxes, outputs, load=_LOAD)


_COMPARED = ("path-capacity", "simplified-segment", "chain", "segment")
_PLANS = 10


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """Run all experiments on self-similar streams, and on the recorded trace if given."""
    study = Study("segments", out, progress)
    _worked_example(study)
    for kind, streams in with_recorded("self-similar", self_similar(), trace).items():
        _sixteen_queries(study, kind, streams)
    study.progress(f"{_PLANS} random plans")
    _many_plans(study)
    return study


def _worked_example(study: Study) -> None:
    study.progress("worked example")
    boxes = {"1": Box("s1", 1.0, 0.2), "2": Box("s2", 1.0, 0.2), "3": Box("1 2", 5.0, 0.8)}
    streams = {"s1": np.array([1.0, 3.0]), "s2": np.array([2.0, 3.0])}
    plan = scenario(streams, boxes, {"q": "3"}, time_unit_s=1.0)
    expected = {
        "fifo": ([1.0, 1.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0.0], {3.0: 2.0, 5.0: 3.0, 7.0: 4.0, 9.0: 6.0}),
        "chain": ([1.0, 1.2, 2.4, 1.6, 0.8, 0.6, 0.4, 0.2, 0.0], {6.0: 5.0, 7.0: 5.0, 8.0: 5.0, 9.0: 6.0}),
    }
    results = results_of(plan, expected)
    for name, (sizes, latencies) in expected.items():
        backlog, outputs = results[name].backlog, results[name].outputs
        got = [rounded(backlog.at(t), 12) for t in range(1, 10)]
        study.equal(f"worked example: queue size under {name} at t = 1..9", sizes, got)
        times_s = outputs.times_s.tolist()
        found = dict(zip(times_s, outputs.latencies_s.tolist(), strict=True))
        study.equal(f"worked example: latency under {name} by time of output", latencies, found)
        throughput = {t: rounded(amount, 12) for t, amount in zip(times_s, outputs.amounts, strict=True)}
        amounts = dict.fromkeys(latencies, 0.16)
        study.equal(f"worked example: throughput under {name} by time", amounts, throughput)
    study.plot_backlogs("worked-example", "Worked example", results.values())


def _sixteen_queries(study: Study, kind: str, streams: Streams) -> None:
    plan = sixteen_queries(streams)
    if kind == "self-similar":
        study.equal("queries", QUERIES, len(plan.network.queries))
        study.equal("operators", OPERATORS, len(plan.network.operators))
    results = {}
    for name in _COMPARED:
        study.progress(f"16 queries ({kind}): {name}")
        results[name] = simulate(plan, strategy_named(name))
    latency_s = {name: result.latency_mean_s or 0.0 for name, result in results.items()}
    _pairs(study, f"{kind}: mean latency of path-capacity and {{}} (s)", latency_s)
    order = ("chain", "simplified-segment", "path-capacity")
    study.rising(f"{kind}: mean queue memory", {name: results[name].backlog.mean for name in order})
    study.rising(f"{kind}: peak queue memory", {name: results[name].backlog.peak for name in order})
    study.progress(f"16 queries ({kind}): threshold")
    results["threshold"] = _threshold(study, kind, plan, results)
    _draw(study, kind, results)


def _pairs(study: Study, name: str, latency_s: Mapping[str, float]) -> None:
    for other in ("simplified-segment", "chain"):
        study.rising(name.format(other), {n: latency_s[n] for n in ("path-capacity", other)})


def _many_plans(study: Study) -> None:
    """According to the paper, simplified-segment has a lower latency than chain; that depends on the plan."""
    latencies_s: dict[str, list[float]] = {"path-capacity": [], "simplified-segment": [], "chain": []}
    for seed in range(_PLANS):
        results = results_of(sixteen_queries(self_similar(10 * seed), seed), latencies_s)
        for name, result in results.items():
            latencies_s[name].append(result.latency_mean_s or 0.0)
    means_s = {name: float(np.mean(found)) for name, found in latencies_s.items()}
    _pairs(study, f"mean latency over {_PLANS} random plans, path-capacity and {{}} (s)", means_s)
    segment_s, chain_s = np.array(latencies_s["simplified-segment"]), np.array(latencies_s["chain"])
    quicker, slower = int((segment_s < chain_s).sum()), int((segment_s > chain_s).sum())
    study.at_least(f"of {_PLANS} plans, those where simplified-segment is quicker than chain", 1, quicker)
    study.at_least(f"of {_PLANS} plans, those where chain is quicker than simplified-segment", 1, slower)


def _threshold(study: Study, kind: str, plan: Scenario, results: dict[str, Result]) -> Result:
    """Set the limit half-way between the peaks of the two modes."""
    segment, path = results["simplified-segment"], results["path-capacity"]
    limit_bytes = (segment.backlog.peak_bytes + path.backlog.peak_bytes) / 2
    result = simulate(plan, strategy_named(f"threshold:memory_bytes={limit_bytes!r}"))
    peak = result.backlog.peak_bytes / limit_bytes
    study.at_most(f"{kind}: peak memory of threshold / its limit", 1.0, peak)
    # saving begins at half of the limit at the earliest
    over = np.flatnonzero(path.backlog.bytes >= limit_bytes / 2)
    short_s = float(path.backlog.times_s[over[0]]) if len(over) else float("inf")
    own, paths = (r.backlog.sizes[r.backlog.times_s < short_s] for r in (result, path))
    alike = np.array_equal(own, paths)
    study.equal(f"{kind}: threshold is path-capacity until memory is half used", True, alike)
    latencies = {"path-capacity": path.latency_mean_s or 0.0, "threshold": result.latency_mean_s or 0.0}
    study.rising(f"{kind}: mean latency of threshold (s)", latencies)
    return result


def _draw(study: Study, kind: str, results: dict[str, Result]) -> None:
    end_s = max(result.end_s for result in results.values())
    edges = np.linspace(0.0, end_s, num=max(2, min(200, int(end_s)) + 1))
    latency, throughput = {}, {}
    at_s = edges[:-1].tolist()
    for name, result in results.items():
        outputs = result.outputs
        counts, sums_s, amounts = (
            np.histogram(outputs.times_s, edges, weights=weights)[0]
            for weights in (None, outputs.latencies_s, outputs.amounts)
        )
        latency[name] = (at_s, np.where(counts > 0, sums_s / np.maximum(counts, 1), 0.0).tolist())
        throughput[name] = (at_s, (amounts / np.diff(edges)).tolist())
    title, label = f"16 queries ({kind}): ", "latency, mean of a time step (s)"
    study.plot(f"{kind}-latency", f"{title}latency", "time (s)", label, latency, steps=True)
    label = "results (tuples/s)"
    study.plot(f"{kind}-throughput", f"{title}throughput", "time (s)", label, throughput, steps=True)
    study.plot_backlogs(f"{kind}-memory", f"{title}queue memory", results.values())
