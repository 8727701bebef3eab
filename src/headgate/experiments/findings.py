"""Where the strategies of both papers stand, and which of their claims hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.experiments import chain_plans as plans
from headgate.experiments.bursts import recorded, synthetic
from headgate.experiments.check import Progress, Study
from headgate.experiments.plan import Box, Streams, path_of, scenario
from headgate.report.lines import drawing, plot_lines
from headgate.scheduling import strategy_named
from headgate.simulator import Result, Scenario, simulate

_STREAMS = ("r", "s", "t", "u", "v")
_COMPARED = ("path-capacity", "simplified-segment", "segment", "chain", "fifo")
_CASES = 400
_EPSILON = 1e-9


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """Memory and latency over the trace, theorem 3 on random charts, output in a long burst."""
    study = Study("findings", out, progress)
    sources = {"synthetic": synthetic(_STREAMS)}
    if trace is not None:
        sources["recorded"] = recorded(trace, _STREAMS)
    for kind, streams in sources.items():
        for what, plan in _plans(streams).items():
            study.progress(f"memory and latency: {what} ({kind})")
            _standing(study, f"{what} ({kind})", plan)
    study.progress("theorem 3 of the segment paper")
    _theorem_3(study)
    study.progress("output in a long burst")
    _long_burst(study)
    return study


def _plans(streams: Streams) -> dict[str, Scenario]:
    return {
        "selective behind weak": plans.hidden_selective(streams),
        "falling slopes": plans.falling(streams),
        "several queries": plans.several_queries(streams),
    }


def _standing(study: Study, what: str, plan: Scenario) -> None:
    results = {name: simulate(plan, strategy_named(name)) for name in _COMPARED}
    memory = {name: results[name].backlog.mean for name in ("chain", "segment", "path-capacity")}
    latency = {name: results[name].latency_mean_s or 0.0 for name in ("path-capacity", "segment", "chain")}
    study.rising(f"{what}: mean backlog", memory)
    study.rising(f"{what}: mean latency (s)", latency)
    peaks = {name: results[name].backlog.peak for name in ("chain", "segment", "path-capacity")}
    study.rising(f"{what}: peak backlog", peaks)
    file = study.out / f"{what.replace(' ', '-').replace('(', '').replace(')', '')}.png"
    with drawing(file, f"Memory against latency: {what}") as axes:
        for name, result in results.items():
            axes.plot([result.latency_mean_s or 0.0], [result.backlog.mean], "o", label=name)
        axes.set_xlabel("mean latency (s)")
        axes.set_ylabel("mean backlog (tuples)")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    study.figure(file)


def _theorem_3(study: Study) -> None:
    """It has segment never above chain; chain is never above anything on envelope charts."""
    random = np.random.default_rng(1)
    stepped = [_peaks(_random_plan(random, convex=False)) for _ in range(_CASES)]
    above = sum(segment > chain + _EPSILON for chain, segment in stepped)
    below = sum(segment < chain - _EPSILON for chain, segment in stepped)
    study.at_least(
        f"theorem 3: of {_CASES} random charts, those where segment needs more than chain", 1, above
    )
    study.at_least(
        f"theorem 3: of {_CASES} random charts, those where segment needs less than chain", 1, below
    )
    convex = [_peaks(_random_plan(random, convex=True)) for _ in range(_CASES)]
    beaten = sum(segment < chain - _EPSILON for chain, segment in convex)
    study.equal(
        f"theorem 3: of {_CASES} envelope charts, those where segment needs less than chain", 0, beaten
    )


def _random_plan(random: np.random.Generator, convex: bool) -> Scenario:
    """One or two paths over a few pages; convex charts are looked at after every time unit."""
    boxes: dict[str, Box] = {}
    outputs, streams = {}, {}
    for stream in ("r", "s")[: random.integers(1, 3)]:
        count = int(random.integers(2, 5))
        if convex:
            drops = np.sort(random.integers(1, 9, count))[::-1]
            sizes, units = 1 - np.cumsum(drops) / drops.sum(), [1] * count
        else:
            sizes = np.sort(random.choice([0.1, 0.25, 0.5, 0.75, 1.0], count))[::-1]
            units = random.integers(1, 4, count).tolist()
        boxes |= path_of(stream, *_steps(sizes, units))
        outputs[stream] = f"{stream}.{count}"
        streams[stream] = np.sort(random.integers(0, 9, 4)).astype(float)
    made = scenario(streams, boxes, outputs, load=1.0, fate="page", time_unit_s=1.0)
    # times as they are, in whole units
    return _unscaled(made, boxes)


def _steps(sizes: Iterable[float], units: Iterable[float]) -> list[tuple[float, float]]:
    steps, before = [], 1.0
    for size, unit in zip(sizes, units, strict=True):
        after = max(float(size), 1e-6)
        steps.append((float(unit) / before, after / before))
        before = after
    return steps


def _unscaled(plan: Scenario, boxes: dict[str, Box]) -> Scenario:
    figures = {name: replace(figure, seconds=boxes[name].time) for name, figure in plan.figures.items()}
    return replace(plan, figures=figures)


def _peaks(plan: Scenario) -> tuple[float, float]:
    chain, segment = (simulate(plan, strategy_named(name)).backlog.peak for name in ("chain", "segment"))
    return chain, segment


def _long_burst(study: Study) -> None:
    """4.5 times what can be processed, for 300 s: chain's first operator takes 0.9 of the time."""
    burst_s = 300.0
    arrivals = np.arange(0.0, burst_s, 0.1)
    plan = scenario({"r": arrivals}, path_of("r", (1.0, 0.2), (20.0, 1.0)), {"q": "r.2"}, load=4.5)
    results = {name: simulate(plan, strategy_named(name)) for name in ("chain", "path-capacity")}
    edges = np.arange(0.0, max(result.end_s for result in results.values()) + 10, 10.0)
    rates = {name: _rate(result, edges) for name, result in results.items()}
    during, after = edges[:-1] < burst_s, (edges[:-1] >= burst_s) & (edges[:-1] < burst_s + 100)
    chain, path = rates["chain"], rates["path-capacity"]
    lasting = float(chain[during].mean())
    study.at_most("long burst: output of chain / path-capacity", 0.2, lasting / float(path[during].mean()))
    study.at_least("long burst: output of chain after / during it", 5.0, float(chain[after].mean()) / lasting)
    smooth = float(path[after].mean() / path[during].mean())
    study.at_most("long burst: output of path-capacity after / during it", 1.1, smooth)
    lines = {name: (edges[:-1].tolist(), rate.tolist()) for name, rate in rates.items()}
    title = "Output in a burst of 300 s and after it"
    study.figure(plot_lines(study.out / "long-burst.png", title, "time (s)", "outputs (tuples/s)", lines))


def _rate(result: Result, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.histogram(result.outputs.times_s, edges)[0] / np.diff(edges))
