"""Queues of relational operators: theory against simulation, and what of the paper's claims holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headgate.experiments.bursts import recorded, synthetic
from headgate.experiments.check import Progress, Study
from headgate.experiments.estimate import batch_means
from headgate.experiments.plan import path_of, scenario
from headgate.experiments.queueing_join import (
    UTILISATIONS,
    WINDOWS,
    JoinCase,
    JoinRow,
    compare,
    simulated_rows,
)
from headgate.experiments.queueing_plans import plans
from headgate.queueing import md1, select, select_exponential
from headgate.queueing.dispersion import dispersion
from headgate.queueing.lattice import tail_of
from headgate.queueing.service import Discrete
from headgate.report.lines import plot_lines
from headgate.scheduling import strategy_named
from headgate.simulator import simulate
from headgate.workload.poisson import Poisson

_SHARES = (0.5, 0.9, 0.99, 0.999)


def reproduce(trace: Path | None, out: Path, progress: Progress) -> Study:
    """All of it, with the recorded trace as bursty input if there is one."""
    study = Study("queueing", out, progress)
    progress("joins")
    rows = simulated_rows()
    compare(study, "simulation", rows)
    _distributions(study, rows)
    _one_root(study)
    _disciplines(study)
    _conjuncts(study)
    progress("bursts")
    _bursts(study, trace)
    progress("whole plans")
    plans(study)
    return study


def _distributions(study: Study, rows: list[JoinRow]) -> None:
    """Of all waits, as many lie below a percentile as it says."""
    for row in rows:
        for share in _SHARES[1:3]:
            t = row.theory.wait_percentile(share)
            exact = row.theory.wait_cdf(t)
            below = batch_means((row.waits_s <= t * (1 + 1e-9)).astype(np.float64))
            case = f"{row.case.windows}, utilisation {row.case.utilisation:g}"
            name = f"{case}: share of waits below p{100 * share:g}"
            study.within(name, exact, below.mean, max(below.within, 1e-12))


def _one_root(study: Study) -> None:
    """The paper's waiting-time distribution is one exponential, by the nearest root; there are more roots."""
    for windows in WINDOWS:
        gaps = {}
        for load in UTILISATIONS:
            queue = JoinCase(windows, load).theory
            assert isinstance(queue.service, Discrete)
            decay = tail_of(queue.rate, queue.service).decay
            t = np.linspace(0, queue.wait_percentile(0.999), 500)
            exact = np.array([queue.wait_cdf(x) for x in t.tolist()])
            gaps[f"{load:g}"] = float(np.abs(exact - (1 - load * np.exp(-decay * t))).max())
        name = f"{windows}: one exponential is off by up to (share of tuples, by utilisation)"
        study.at_least(name, 0.01, max(gaps.values()))
        study.at_most(f"{name}, at utilisation 0.95", max(gaps.values()), gaps["0.95"])


def _disciplines(study: Study) -> None:
    """The mean wait stays under any order, the paper says: not under one that looks at service times."""
    for windows, changes in (("equal windows", False), ("one window twice the other", True)):
        case = JoinCase(windows, 0.9)
        short, long = sorted(case.seconds)
        half = case.rate
        left = half * (short**2 + long**2) / 2
        # Cobham: the quicker class first
        first, second = left / (1 - half * short), left / ((1 - half * short) * (1 - case.utilisation))
        ratio = (first + second) / 2 / case.theory.mean_wait
        name = f"{windows}, utilisation 0.9: mean wait with one class first / first come first served"
        if changes:
            study.at_most(name, 0.95, ratio)
        else:
            study.close(name, 1.0, ratio, 1e-9)


def _conjuncts(study: Study) -> None:
    """A composite condition: the exact mixture is what is simulated, an exponential time is not."""
    steps = ((1.0, 0.5), (1.0, 0.2), (4.0, 1.0))
    arrivals = {"r": Poisson(1.0, 300_000.0).times_s(3)}
    for load in (0.5, 0.9):
        plan = scenario(arrivals, path_of("r", *steps), {f"q{n}": f"r.{n}" for n in (1, 2, 3)}, load=load)
        seconds = [plan.figures[f"r.{n}"].seconds for n in (1, 2, 3)]
        conditions = [(s, selectivity) for s, (_, selectivity) in zip(seconds, steps, strict=True)]
        exact, paper = select(1.0, conditions=conditions), select_exponential(1.0, conditions)
        result = simulate(plan, strategy_named("fifo"))
        # of each tuple, the first condition is done a service after its wait
        first = result.outputs.queries == 0
        waits = batch_means(result.outputs.latencies_s[first] - seconds[0])
        name = f"three conjuncts, utilisation {load:g}: mean wait (s)"
        study.within(f"{name}, as the exact mixture", exact.mean_wait, waits.mean, waits.within)
        error = abs(paper.mean_wait / exact.mean_wait - 1)
        study.at_least(f"{name}, error of an exponential time", 0.1, error)


def _bursts(study: Study, trace: Path | None) -> None:
    """Poisson figures fail increasingly with load."""
    times_s = (synthetic(("r",)) if trace is None else recorded(trace, ("r",)))["r"]
    times_s = times_s - times_s[0]
    rate = (len(times_s) - 1) / float(times_s[-1])
    ratios: dict[str, dict[str, float]] = {"Poisson": {}, "bursty": {}}
    poisson_s = Poisson(rate, float(times_s[-1])).times_s(5)
    for load in (0.1, 0.3, 0.5, 0.7, 0.9):
        queue = md1(rate, load / rate)
        for kind, arrivals in (("Poisson", poisson_s), ("bursty", times_s)):
            plan = scenario({"r": arrivals}, path_of("r", (1.0, 1.0)), {"q": "r.1"}, load=load)
            result = simulate(plan, strategy_named("fifo"))
            waited_s = float((result.outputs.latencies_s - plan.figures["r.1"].seconds).mean())
            ratios[kind][f"{load:g}"] = waited_s / queue.mean_wait
    study.at_most(
        "Poisson arrivals: mean wait / formula, most over loads", 1.6, max(ratios["Poisson"].values())
    )
    study.at_least("bursty arrivals: mean wait / formula at utilisation 0.9", 2.0, ratios["bursty"]["0.9"])
    gap = {load: ratio * md1(rate, float(load) / rate).mean_wait for load, ratio in ratios["bursty"].items()}
    study.rising("bursty arrivals: seconds waited, by utilisation", gap)
    lines = {kind: ([float(load) for load in found], list(found.values())) for kind, found in ratios.items()}
    title = "Mean wait of bursty arrivals / Poisson formula"
    study.figure(plot_lines(study.out / "bursts.png", title, "utilisation", "times", lines, steps=False))
    scales = {kind: dispersion(t) for kind, t in (("Poisson", poisson_s), ("bursty", times_s))}
    study.at_most(
        "Poisson arrivals: largest index of dispersion", 2.5, max(d.index for d in scales["Poisson"])
    )
    study.at_least(
        "bursty arrivals: largest index of dispersion", 5.0, max(d.index for d in scales["bursty"])
    )
    found = {k: ([d.seconds for d in v], [d.index for d in v]) for k, v in scales.items()}
    path = study.out / "dispersion.png"
    study.figure(plot_lines(path, "Index of dispersion", "time scale (s)", "index", found, steps=False))
