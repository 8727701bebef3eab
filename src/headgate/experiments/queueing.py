"""Queues of relational operators: theory against simulation, and which claims of the paper hold."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.study import MeanEstimate, Progress, Study, batch_means
from headgate.experiments.workloads import Box, path_of, scenario, slower, synthetic_arrivals, with_recorded
from headgate.model.profile import Profile
from headgate.queueing import MG1, LastRows, md1, select, select_exponential, window_join
from headgate.queueing.distributions import tail_of
from headgate.queueing.latency_models import ByPriority, LatencyModel, OnServer, OwnServers
from headgate.queueing.load_model import LoadModel
from headgate.queueing.recorded_arrivals import dispersion
from headgate.queueing.service_times import Discrete
from headgate.scheduling import strategy_named
from headgate.simulator import OnePerOperator, Pool, simulate
from headgate.simulator.virtual_engine import static_priority
from headgate.workload.processes import Poisson

# of each stream; the tables hold the same tuples whatever the rates, as in row windows
WINDOWS = {
    "equal windows": (LastRows(1000), LastRows(1000)),
    "one window twice the other": (LastRows(2000), LastRows(1000)),
}
UTILISATIONS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
# seconds to hash a tuple, seconds to compare it with another, buckets of each table
_HASHING = (2e-6, 1e-5, (50, 50))
_TUPLES = 400_000
_SIDES = ("left", "right")


def reproduce(trace: Path | None, out: Path, progress: Progress, measured: bool = False) -> Study:
    """Run the whole study, with a recorded trace as bursty input if given, and a real join if wanted."""
    study = Study("queueing", out, progress)
    progress("joins")
    rows = [simulated(JoinCase(windows, load)) for windows in WINDOWS for load in UTILISATIONS]
    compare_with_theory(study, rows)
    _distributions(study, rows)
    _one_root(study)
    _disciplines(study)
    _conjuncts(study)
    progress("bursts")
    _bursts(study, trace)
    progress("whole plans")
    _whole_plans(study)
    if measured:
        # compiles its loop
        from headgate.experiments.measured_join import measure

        measure(study, trace)
    return study


@dataclass(frozen=True)
class JoinCase:
    """A window join under load; both streams have the same rate."""

    windows: str
    utilisation: float

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds per tuple of each stream."""
        service = self._at(0.0).service
        assert isinstance(service, Discrete)
        (_, left), (_, right) = service.points
        return left, right

    @property
    def rate(self) -> float:
        """Tuples per second of each stream."""
        return self.utilisation / sum(self.seconds)

    @property
    def theory(self) -> MG1:
        return self._at(self.rate)

    def _at(self, rate: float) -> MG1:
        return window_join((rate, rate), WINDOWS[self.windows], *_HASHING)


@dataclass(frozen=True)
class JoinRow:
    """A case as simulated: mean wait, mean queue length, and a sample of waits."""

    case: JoinCase
    mean_delay_s: MeanEstimate
    mean_queue: MeanEstimate
    waits_s: NDArray[np.float64]


def simulated(case: JoinCase) -> JoinRow:
    """A case in the simulator: one processor, first come first served over both streams."""
    boxes = {f"probe_{name}": Box(name, s, 1.0) for name, s in zip(_SIDES, case.seconds, strict=True)}
    until_s = _TUPLES / (2 * case.rate)
    arrivals = {
        name: Poisson(rate=case.rate, until=until_s).times_s(seed) for seed, name in enumerate(_SIDES)
    }
    plan = scenario(arrivals, boxes, {name: f"probe_{name}" for name in _SIDES})
    result = simulate(plan, strategy_named("fifo"))
    waits_s = result.outputs.latencies_s - np.array(case.seconds)[result.outputs.queries]
    delay = batch_means(waits_s)
    # Little's law, with the chance that is in the waits
    queued = MeanEstimate(result.backlog.mean - case.utilisation, 2 * case.rate * delay.within)
    return JoinRow(case, delay, queued, waits_s)


def compare_with_theory(study: Study, rows: Sequence[JoinRow]) -> None:
    """Checks, a table and plots: means may differ by chance."""
    path = study.out / "join-simulation.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        columns = ["rate", "utilisation", "delay theory (s)", "delay (s)", "queue theory", "queue"]
        table.writerow(["windows", *columns])
        for row in rows:
            theory, delay, queue = row.case.theory, row.mean_delay_s, row.mean_queue
            name = f"{row.case.windows}, utilisation {theory.utilisation:.2g}"
            study.within(f"{name}: mean delay (s), simulation", theory.mean_wait, delay.mean, delay.within)
            expected = theory.mean_in_queue
            study.within(f"{name}: mean queue size, simulation", expected, queue.mean, queue.within)
            values = (theory.rate, theory.utilisation, theory.mean_wait, delay.mean, expected, queue.mean)
            table.writerow([row.case.windows, *(f"{value:.5g}" for value in values)])
    for windows in dict.fromkeys(row.case.windows for row in rows):
        _draw_waits(study, windows, [row for row in rows if row.case.windows == windows])


def _draw_waits(study: Study, windows: str, rows: list[JoinRow]) -> None:
    name = f"delay-simulation-{windows.replace(' ', '-')}"
    title = f"Waiting time of a join, {windows}: theory (lines) and simulation (dots)"
    with study.drawing(name, title, "waiting time (ms)", "share of tuples") as axes:
        for number, row in enumerate(rows):
            theory, colour = row.case.theory, f"C{number}"
            end_s = theory.wait_percentile(0.999)
            t, some = np.linspace(0, end_s, 300), np.linspace(0, end_s, 15)
            label = f"utilisation {theory.utilisation:.2g}"
            axes.plot(t * 1e3, [theory.wait_cdf(x) for x in t.tolist()], color=colour, label=label)
            below = np.searchsorted(np.sort(row.waits_s), some, side="right") / max(1, len(row.waits_s))
            axes.plot(some * 1e3, below, ".", color=colour)


def _distributions(study: Study, rows: list[JoinRow]) -> None:
    """The share of waits below a percentile is that percentile."""
    for row in rows:
        theory = row.case.theory
        for share in (0.9, 0.99):
            t = theory.wait_percentile(share)
            below = batch_means((row.waits_s <= t * (1 + 1e-9)).astype(np.float64))
            case = f"{row.case.windows}, utilisation {row.case.utilisation:g}"
            name = f"{case}: share of waits below p{100 * share:g}"
            study.within(name, theory.wait_cdf(t), below.mean, max(below.within, 1e-12))


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
    """The paper has one mean wait for all orders; it changes if the order depends on service times."""
    for windows in WINDOWS:
        case = JoinCase(windows, 0.9)
        short, long = sorted(case.seconds)
        left = case.rate * (short**2 + long**2) / 2
        # Cobham: the quicker class first
        first = left / (1 - case.rate * short)
        second = left / ((1 - case.rate * short) * (1 - case.utilisation))
        ratio = (first + second) / 2 / case.theory.mean_wait
        name = f"{windows}, utilisation 0.9: mean wait with one class first / first come first served"
        if short == long:
            study.close(name, 1.0, ratio, 1e-9)
        else:
            study.at_most(name, 0.95, ratio)


def _conjuncts(study: Study) -> None:
    """A composite condition: the exact mixture matches the simulation, an exponential time does not."""
    steps = ((1.0, 0.5), (1.0, 0.2), (4.0, 1.0))
    arrivals = {"r": Poisson(rate=1.0, until=300_000.0).times_s(3)}
    for load in (0.5, 0.9):
        plan = scenario(arrivals, path_of("r", *steps), {f"q{n}": f"r.{n}" for n in (1, 2, 3)}, load=load)
        conditions = [(b.seconds, b.selectivity) for b in plan.behaviours.values()]
        exact, paper = select(1.0, conditions=conditions), select_exponential(1.0, conditions)
        outputs = simulate(plan, strategy_named("fifo")).outputs
        # of each tuple, the first condition is done a service after its wait
        waits = batch_means(outputs.latencies_s[outputs.queries == 0] - plan.behaviours["r.1"].seconds)
        name = f"three conjuncts, utilisation {load:g}: mean wait (s)"
        study.within(f"{name}, as the exact mixture", exact.mean_wait, waits.mean, waits.within)
        error = abs(paper.mean_wait / exact.mean_wait - 1)
        study.at_least(f"{name}, error of an exponential time", 0.1, error)


def _bursts(study: Study, trace: Path | None) -> None:
    """Formulas for Poisson arrivals fail on bursts, and more so under load."""
    kinds_of = with_recorded("synthetic", synthetic_arrivals(("r",)), trace)
    times_s = kinds_of["synthetic" if trace is None else "recorded"]["r"]
    times_s = times_s - times_s[0]
    rate = (len(times_s) - 1) / float(times_s[-1])
    kinds = {"Poisson": Poisson(rate=rate, until=float(times_s[-1])).times_s(5), "bursty": times_s}
    ratios: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for load in (0.1, 0.3, 0.5, 0.7, 0.9):
        for kind, arrivals in kinds.items():
            plan = scenario({"r": arrivals}, path_of("r", (1.0, 1.0)), {"q": "r.1"}, load=load)
            result = simulate(plan, strategy_named("fifo"))
            waited_s = float((result.outputs.latencies_s - plan.behaviours["r.1"].seconds).mean())
            ratios[kind][f"{load:g}"] = waited_s / md1(rate, load / rate).mean_wait
    most = max(ratios["Poisson"].values())
    study.at_most("Poisson arrivals: mean wait / formula, most over loads", 1.6, most)
    study.at_least("bursty arrivals: mean wait / formula at utilisation 0.9", 2.0, ratios["bursty"]["0.9"])
    gap = {load: ratio * md1(rate, float(load) / rate).mean_wait for load, ratio in ratios["bursty"].items()}
    study.rising("bursty arrivals: seconds waited, by utilisation", gap)
    lines = {kind: ([float(load) for load in found], list(found.values())) for kind, found in ratios.items()}
    title = "Mean wait of bursty arrivals / Poisson formula"
    study.plot("bursts", title, "utilisation", "times", lines)
    scales = {kind: dispersion(arrivals) for kind, arrivals in kinds.items()}
    largest = {kind: max(d.index for d in found) for kind, found in scales.items()}
    study.at_most("Poisson arrivals: largest index of dispersion", 2.5, largest["Poisson"])
    study.at_least("bursty arrivals: largest index of dispersion", 5.0, largest["bursty"])
    indices = {k: ([d.seconds for d in v], [d.index for d in v]) for k, v in scales.items()}
    study.plot("dispersion", "Index of dispersion", "time scale (s)", "index", indices)


_UNTIL_S = 200_000.0
_RATES = {"r": 1.0, "s": 1.5}
_LOADS = (0.3, 0.6, 0.8)
_JOIN = {"a": Box("r", 1.0, 0.5), "b": Box("s", 1.0, 0.8), "j": Box("a b", 2.0, 1.4), "p": Box("j", 1.0, 1.0)}
_PLANS: Mapping[str, tuple[dict[str, Box], dict[str, str]]] = {
    "a path": (path_of("r", (1.0, 0.5), (2.0, 0.5), (4.0, 1.0)), {"q": "r.3"}),
    "two paths": (
        path_of("r", (1.0, 0.2), (5.0, 1.0)) | path_of("s", (2.0, 0.9), (1.0, 0.1), (3.0, 1.0)),
        {"q1": "r.2", "q2": "s.3"},
    ),
    "two queries of a stream": (
        path_of("r", (1.0, 0.6), (2.0, 1.0)) | {"b.1": Box("r", 3.0, 0.3), "b.2": Box("b.1", 2.0, 1.0)},
        {"q1": "r.2", "q2": "b.2"},
    ),
    "a join": (_JOIN, {"q": "p"}),
}
# strategy and processors; the most that a predicted mean, and a predicted p99, may be off in any of the plans
_MODELS: Mapping[str, tuple[str, Pool | OnePerOperator, float, float]] = {
    "fifo, 1 processor": ("fifo", Pool(1), 0.03, 0.06),
    "fifo, 3 processors": ("fifo", Pool(3), 0.2, 0.3),
    "own servers": ("fifo", OnePerOperator(), 0.1, 0.3),
    "chain": ("chain", Pool(1), 0.2, 0.25),
    "greedy": ("greedy", Pool(1), 0.25, 0.35),
    "path-capacity": ("path-capacity", Pool(1), 0.1, 0.1),
}


def _whole_plans(study: Study) -> None:
    """Check and plot the worst error of every model."""
    lines = {}
    for name, (strategy, processors, most_mean, most_p99) in _MODELS.items():
        found = [[e for plan in _PLANS for e in _errors(strategy, processors, plan, load)] for load in _LOADS]
        means, tails = np.max(found, axis=1).T.tolist()
        study.at_most(f"plans, {name}: worst error of a mean latency", most_mean, max(means))
        study.at_most(f"plans, {name}: worst error of a p99 latency", most_p99, max(tails))
        lines[name] = (list(_LOADS), means)
    title = "Predicted mean latency against the simulator: worst error"
    study.plot("plans", title, "utilisation", "relative error", lines)


def _errors(
    strategy: str, processors: Pool | OnePerOperator, plan_name: str, load: float
) -> list[tuple[float, float]]:
    """Relative errors of mean and p99 latency, per query."""
    boxes, outputs = _PLANS[plan_name]
    arrivals = {
        s: Poisson(rate=rate, until=_UNTIL_S).times_s(i) for i, (s, rate) in enumerate(_RATES.items())
    }
    plan = scenario(arrivals, boxes, outputs, load=load)
    if isinstance(processors, Pool):
        plan = slower(plan, processors.processors)
    else:
        busiest_s = max(plan.loads[name].tuples * b.seconds for name, b in plan.behaviours.items())
        plan = slower(plan, load * _UNTIL_S / busiest_s)
    rates = {stream: _RATES[stream] for stream in plan.network.streams}
    profiles = {name: Profile(b.seconds, b.selectivity) for name, b in plan.behaviours.items()}
    loaded = LoadModel(plan.network, profiles, rates)
    found = simulate(replace(plan, processors=processors), strategy_named(strategy)).outputs
    predicted = _model(strategy, processors, loaded).predict(loaded)
    errors = []
    for number, query in enumerate(outputs):
        weights = [_result_rate(loaded, path.operators) for path in predicted.paths_of(query)]
        means_s = [path.latency.mean_s for path in predicted.paths_of(query)]
        measured_s = found.latencies_s[found.queries == number]
        mean, p99 = float(measured_s.mean()), float(np.percentile(measured_s, 99))
        expected = float(np.average(means_s, weights=weights))
        errors.append((abs(expected / mean - 1), abs(predicted.latency_s(query, 0.99) / p99 - 1)))
    return errors


def _model(strategy: str, processors: Pool | OnePerOperator, plan: LoadModel) -> LatencyModel:
    if isinstance(processors, OnePerOperator):
        return OwnServers()
    if strategy == "fifo":
        return OnServer(processors.processors)
    found = static_priority(strategy_named(strategy), plan.network, plan.profiles)
    assert found is not None
    return ByPriority(dict(zip(plan.network.operators, found.levels, strict=True)))


def _result_rate(plan: LoadModel, path: Sequence[str]) -> float:
    return plan.leaf_rate(path[0]) * float(np.prod([plan.profile[name].selectivity for name in path]))
