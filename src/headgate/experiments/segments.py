"""Path capacity and segments: the worked example, and 16 queries over self-similar streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.bursts import recorded
from headgate.experiments.check import Progress, Study
from headgate.experiments.plan import Box, Streams, scenario
from headgate.experiments.segment_plans import (
    OPERATORS,
    QUERIES,
    STREAMS,
    self_similar,
    sixteen_queries,
)
from headgate.report.lines import plot_lines
from headgate.report.simulated import plot_backlogs
from headgate.scheduling import strategy_named
from headgate.simulator import Result, Scenario, simulate

_COMPARED = ("path-capacity", "simplified-segment", "chain", "segment")
_PLANS = 10
Floats = NDArray[np.float64]


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """All of it, over the recorded trace as well if there is one."""
    study = Study("segments", out, progress)
    _worked_example(study)
    sources = {"self-similar": self_similar()}
    if trace is not None:
        sources["recorded"] = recorded(trace, STREAMS)
    for kind, streams in sources.items():
        _sixteen_queries(study, kind, streams)
    study.progress(f"{_PLANS} random plans")
    _many_plans(study)
    return study


def _worked_example(study: Study) -> None:
    study.progress("worked example")
    boxes = {"1": Box("s1", 1.0, 0.2), "2": Box("s2", 1.0, 0.2), "3": Box("1 2", 5.0, 0.8)}
    streams = {"s1": np.array([1.0, 3.0]), "s2": np.array([2.0, 3.0])}
    # four pages that take two time units each, of which the last arrives at 3
    plan = scenario(streams, boxes, {"q": "3"}, load=8 / 3, fate="page", time_unit_s=1.0)
    expected = {
        "fifo": ([1.0, 1.2, 3.0, 2.2, 2.0, 1.2, 1.0, 0.2, 0.0], {3.0: 2.0, 5.0: 3.0, 7.0: 4.0, 9.0: 6.0}),
        "chain": ([1.0, 1.2, 2.4, 1.6, 0.8, 0.6, 0.4, 0.2, 0.0], {6.0: 5.0, 7.0: 5.0, 8.0: 5.0, 9.0: 6.0}),
    }
    results = []
    for name, (sizes, latencies) in expected.items():
        result = simulate(plan, strategy_named(name))
        results.append(result)
        got = [_clean(result.backlog.at(t)) for t in range(1, 10)]
        study.equal(f"worked example: queue size under {name} at t = 1..9", sizes, got)
        outputs = result.outputs
        found = dict(zip(outputs.times_s.tolist(), outputs.latencies_s.tolist(), strict=True))
        study.equal(f"worked example: latency under {name} by time of output", latencies, found)
        amounts = {time: 0.16 for time in latencies}
        throughput = dict(zip(outputs.times_s.tolist(), map(_clean, outputs.amounts), strict=True))
        study.equal(f"worked example: throughput under {name} by time", amounts, throughput)
    study.figure(plot_backlogs(results, study.out / "worked-example.png", "Worked example"))


def _sixteen_queries(study: Study, kind: str, streams: Streams) -> None:
    plan = sixteen_queries(streams)
    if kind == "self-similar":
        study.equal("queries", QUERIES, len(plan.network.queries))
        study.equal("operators", OPERATORS, len(plan.network.operators))
    results = {}
    for name in _COMPARED:
        study.progress(f"16 queries ({kind}): {name}")
        results[name] = simulate(plan, strategy_named(name))
    _orders(study, kind, results)
    study.progress(f"16 queries ({kind}): threshold")
    results["threshold"] = _threshold(study, kind, plan, results)
    _draw(study, kind, results)


def _orders(study: Study, kind: str, results: dict[str, Result]) -> None:
    latency = {name: results[name].latency_mean_s or 0.0 for name in _COMPARED}
    for other in ("simplified-segment", "chain"):
        pair = {name: latency[name] for name in ("path-capacity", other)}
        study.rising(f"{kind}: mean latency of path-capacity and {other} (s)", pair)
    memory = ("chain", "simplified-segment", "path-capacity")
    study.rising(f"{kind}: mean queue memory", {name: results[name].backlog.mean for name in memory})
    study.rising(f"{kind}: peak queue memory", {name: results[name].backlog.peak for name in memory})


def _many_plans(study: Study) -> None:
    """The paper has simplified-segment ahead of chain in latency; that depends on the plan."""
    quicker = slower = 0
    latencies: dict[str, list[float]] = {"path-capacity": [], "simplified-segment": [], "chain": []}
    for seed in range(_PLANS):
        plan = sixteen_queries(self_similar(10 * seed), seed)
        for name, found in latencies.items():
            found.append(simulate(plan, strategy_named(name)).latency_mean_s or 0.0)
        quicker += latencies["simplified-segment"][-1] < latencies["chain"][-1]
        slower += latencies["simplified-segment"][-1] > latencies["chain"][-1]
    means = {name: float(np.mean(found)) for name, found in latencies.items()}
    for other in ("simplified-segment", "chain"):
        pair = {name: means[name] for name in ("path-capacity", other)}
        study.rising(f"mean latency over {_PLANS} random plans, path-capacity and {other} (s)", pair)
    study.at_least(f"of {_PLANS} plans, those where simplified-segment is quicker than chain", 1, quicker)
    study.at_least(f"of {_PLANS} plans, those where chain is quicker than simplified-segment", 1, slower)


def _threshold(study: Study, kind: str, plan: Scenario, results: dict[str, Result]) -> Result:
    """A limit half-way between what the two modes need by themselves."""
    needed = [results[name].backlog.peak_bytes for name in ("simplified-segment", "path-capacity")]
    limit_bytes = sum(needed) / 2
    result = simulate(plan, strategy_named(f"threshold:memory_bytes={limit_bytes!r}"))
    study.at_most(
        f"{kind}: peak memory of threshold / its limit", 1.0, result.backlog.peak_bytes / limit_bytes
    )
    path = results["path-capacity"]
    # saving begins at half of the limit at the earliest
    short_s = _first_time(path, limit_bytes / 2)
    until = result.backlog.times_s < short_s
    same = path.backlog.times_s < short_s
    alike = np.array_equal(result.backlog.sizes[until], path.backlog.sizes[same])
    study.equal(f"{kind}: threshold is path-capacity until memory is half used", True, alike)
    ends = ("path-capacity", "simplified-segment")
    between = {
        "path-capacity": results[ends[0]].latency_mean_s or 0.0,
        "threshold": result.latency_mean_s or 0.0,
    }
    study.rising(f"{kind}: mean latency of threshold (s)", between)
    return result


def _first_time(result: Result, size_bytes: float) -> float:
    over = np.flatnonzero(result.backlog.bytes >= size_bytes)
    return float(result.backlog.times_s[over[0]]) if len(over) else float("inf")


def _draw(study: Study, kind: str, results: dict[str, Result]) -> None:
    end_s = max(result.end_s for result in results.values())
    edges = np.linspace(0.0, end_s, num=max(2, min(200, int(end_s)) + 1))
    pictures: dict[str, tuple[str, Callable[[Result, Floats], Floats]]] = {
        "latency": ("latency, mean of a time step (s)", _latency),
        "throughput": ("results (tuples/s)", _throughput),
    }
    for what, (label, series) in pictures.items():
        lines = {name: (edges[:-1].tolist(), series(r, edges).tolist()) for name, r in results.items()}
        file = study.out / f"{kind}-{what}.png"
        study.figure(plot_lines(file, f"16 queries ({kind}): {what}", "time (s)", label, lines))
    title = f"16 queries ({kind}): queue memory"
    study.figure(plot_backlogs(list(results.values()), study.out / f"{kind}-memory.png", title))


def _latency(result: Result, edges: Floats) -> Floats:
    outputs = result.outputs
    counts = np.histogram(outputs.times_s, edges)[0]
    sums = np.histogram(outputs.times_s, edges, weights=outputs.latencies_s)[0]
    return np.where(counts > 0, sums / np.maximum(counts, 1), 0.0)


def _throughput(result: Result, edges: Floats) -> Floats:
    amounts = np.histogram(result.outputs.times_s, edges, weights=result.outputs.amounts)[0]
    return np.asarray(amounts / np.diff(edges))


def _clean(value: float) -> float:
    return float(f"{value:.12g}")
