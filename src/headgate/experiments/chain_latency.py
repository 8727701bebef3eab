"""Latency under chain, chain-flush and mixed: what a bound costs in memory."""

from __future__ import annotations

import numpy as np

from headgate.experiments.check import Study
from headgate.experiments.plan import with_latency
from headgate.report.lines import Line, plot_lines
from headgate.report.simulated import plot_backlogs
from headgate.scheduling import strategy_named
from headgate.simulator import Result, Scenario, simulate

# from the least bound that fifo meets (0) to chain's own worst latency (1)
_BETWEEN = (0.0, 0.15, 0.4, 0.7, 1.0)
# relative to the steepest: merges the last two segments, the last three, all
_SLOPES = (0.0, 0.2, 0.7, 2.0)
_BLOCK = 50


def flush_at_thresholds(study: Study, label: str, plan: Scenario) -> None:
    """Chain-flush by its exact and its cheap rule, under bounds between fifo's and chain's worst latency."""
    fifo, chain = (simulate(plan, strategy_named(name)) for name in ("fifo", "chain"))
    fifo_s, chain_s = _worst_s(fifo), _worst_s(chain)
    study.at_least(f"{label}: worst latency of chain / fifo", 1.2, chain_s / fifo_s)
    bounds_s = [fifo_s + share * (chain_s - fifo_s) for share in _BETWEEN]
    shown = {"fifo": fifo, "chain": chain}
    peaks: dict[str, list[float]] = {}
    for name, above, at_least in (("chain-flush-exact", 1.05, 1.15), ("chain-flush", 1.15, 1.25)):
        runs = [simulate(with_latency(plan, bound_s), strategy_named(name)) for bound_s in bounds_s]
        excess = [_worst_s(run) / bound_s for run, bound_s in zip(runs, bounds_s, strict=True)]
        # at the least bound nothing is left to make up for a tuple that takes more than the mean
        study.at_most(
            f"{label}: worst latency of {name} / its bound, the least there is", at_least, excess[0]
        )
        study.at_most(f"{label}: worst latency of {name} / its bound, larger ones", above, max(excess[1:]))
        peaks[name] = [run.backlog.peak for run in runs]
        _peaks_between(study, f"{label}: peak of {name}", peaks[name], fifo, chain)
        shown[f"{name}, bound {bounds_s[1]:.3g} s"] = runs[1]
    slug = label.replace(",", "").replace(" ", "-")
    lines = {name: _blocks(result) for name, result in shown.items()}
    title = f"{label}: latency over time, mean of {_BLOCK} outputs"
    figure = study.out / f"{slug}-latency.png"
    study.figure(plot_lines(figure, title, "time (s)", "latency (s)", lines, steps=False))
    curves: dict[str, Line] = {name: (bounds_s, values) for name, values in peaks.items()}
    curves |= {
        name: (bounds_s, [r.backlog.peak] * len(bounds_s)) for name, r in (("fifo", fifo), ("chain", chain))
    }
    title = f"{label}: peak backlog against the latency bound"
    figure = study.out / f"{slug}-bounds.png"
    study.figure(plot_lines(figure, title, "bound (s)", "peak backlog (tuples)", curves, steps=False))


def _peaks_between(study: Study, what: str, peaks: list[float], fifo: Result, chain: Result) -> None:
    study.at_least(f"{what} at fifo's worst latency / fifo's", 0.75, peaks[0] / fifo.backlog.peak)
    study.at_most(f"{what} at chain's worst latency / chain's", 1.05, peaks[-1] / chain.backlog.peak)
    study.rising(f"{what} with falling bounds", _named(peaks[::-1]), slack=0.15)


def mixed_at_slopes(study: Study, label: str, plan: Scenario) -> None:
    """Memory rises from chain's to fifo's with the slope threshold, latency falls."""
    names = ["chain", *(f"mixed:least_slope={slope:g}" for slope in _SLOPES), "fifo"]
    results = {name: simulate(plan, strategy_named(name)) for name in names}
    memory = {name: result.backlog.mean for name, result in results.items()}
    latency = {name: result.latency_mean_s or 0.0 for name, result in reversed(results.items())}
    study.rising(f"{label}: mean backlog", memory)
    study.rising(f"{label}: mean latency, from fifo back to chain", latency)
    study.equal(f"{label}: the lowest threshold is chain", memory["chain"], memory["mixed:least_slope=0"])
    study.equal(f"{label}: the highest is fifo", memory["fifo"], memory["mixed:least_slope=2"])
    slug = label.replace(" ", "-")
    title = f"{label}: mixed with rising slope thresholds"
    study.figure(plot_backlogs(list(results.values()), study.out / f"{slug}-memory.png", title))
    lines = {name: _blocks(result) for name, result in results.items()}
    figure = study.out / f"{slug}-latency.png"
    study.figure(plot_lines(figure, title, "time (s)", "latency (s)", lines, steps=False))


def _worst_s(result: Result) -> float:
    return result.latency_max_s or 0.0


def _blocks(result: Result) -> Line:
    """Time and latency, averaged over blocks of outputs to reduce clutter."""
    whole = len(result.outputs.times_s) // _BLOCK * _BLOCK
    times = result.outputs.times_s[:whole].reshape(-1, _BLOCK).mean(axis=1)
    latencies = result.outputs.latencies_s[:whole].reshape(-1, _BLOCK).mean(axis=1)
    return np.asarray(times).tolist(), np.asarray(latencies).tolist()


def _named(values: list[float]) -> dict[str, float]:
    return {f"{share:g}": value for share, value in zip(_BETWEEN[::-1], values, strict=True)}
