"""The window join of two streams as a queue: theory, and whoever has measured the same."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate.experiments.check import Study
from headgate.experiments.estimate import Estimate, batch_means
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import StreamInput, Synthetic
from headgate.queueing import MG1, Rows, window_join
from headgate.queueing.operators import join_seconds
from headgate.report.lines import drawing
from headgate.scheduling import strategy_named
from headgate.simulator import Figures, Scenario, simulate
from headgate.workload.poisson import Poisson

Floats = NDArray[np.float64]

# of each stream; the tables hold the same tuples whatever the rates, as in row windows
WINDOWS = {"equal windows": (Rows(1000), Rows(1000)), "one window twice the other": (Rows(2000), Rows(1000))}
UTILISATIONS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
_HASH_SECONDS, _COMPARE_SECONDS, _BUCKETS = 2e-6, 1e-5, (50, 50)
_TUPLES = 400_000


@dataclass(frozen=True)
class JoinCase:
    """A join under a load: both streams come at the same rate."""

    windows: str
    utilisation: float

    @property
    def seconds(self) -> tuple[float, float]:
        """What a tuple of each stream takes."""
        return join_seconds((0.0, 0.0), WINDOWS[self.windows], _HASH_SECONDS, _COMPARE_SECONDS, _BUCKETS)

    @property
    def rate(self) -> float:
        """Tuples a second of each stream."""
        return self.utilisation / sum(self.seconds)

    @property
    def theory(self) -> MG1:
        """The queue."""
        rates = (self.rate, self.rate)
        return window_join(rates, WINDOWS[self.windows], _HASH_SECONDS, _COMPARE_SECONDS, _BUCKETS)


@dataclass(frozen=True)
class JoinRow:
    """A case as somebody has measured it: the mean wait, the mean number that wait, and some waits.

    ``theory`` is the queue to compare with: a real join takes the time that it takes, not that of the case.
    """

    case: JoinCase
    theory: MG1
    mean_delay_s: Estimate
    mean_queue: Estimate
    waits_s: Floats


def simulated_rows() -> list[JoinRow]:
    """Every case in the simulator: one processor, first come first served over both streams."""
    return [_simulated(JoinCase(windows, load)) for windows in WINDOWS for load in UTILISATIONS]


def _simulated(case: JoinCase) -> JoinRow:
    names = ("left", "right")
    network = Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in names),
        (),
        tuple(Synthetic(f"probe_{name}", (StreamInput(name, name, ()),)) for name in names),
        tuple(QueryDefinition(name, (f"probe_{name}",), SinkDefinition("none")) for name in names),
    )
    seconds = dict(zip(names, case.seconds, strict=True))
    until = _TUPLES / (2 * case.rate)
    arrivals = {n: Poisson(case.rate, until).times_s(i) for i, n in enumerate(names)}
    figures = {f"probe_{name}": Figures(s) for name, s in seconds.items()}
    result = simulate(Scenario(network, figures, arrivals), strategy_named("fifo"))
    served_s = np.array(list(seconds.values()))[result.outputs.queries]
    waits_s = result.outputs.latencies_s - served_s
    delay = batch_means(waits_s)
    # Little's law, with the chance that is in the waits
    queued = Estimate(result.backlog.mean - case.utilisation, 2 * case.rate * delay.within)
    return JoinRow(case, case.theory, delay, queued, waits_s)


def compare(study: Study, source: str, rows: Sequence[JoinRow], share: float = 0.0) -> None:
    """Checks, a table and plots of theory against rows of one source.

    Means may differ by chance, and by a ``share`` of themselves where more than the model was measured.
    """
    for row in rows:
        name = f"{row.case.windows}, utilisation {row.theory.utilisation:.2g}"
        delay, queue = row.mean_delay_s, row.mean_queue
        theory = row.theory
        study.within(
            f"{name}: mean delay (s), {source}",
            theory.mean_wait,
            delay.mean,
            delay.within + share * theory.mean_wait,
        )
        study.within(
            f"{name}: mean queue size, {source}",
            theory.mean_in_queue,
            queue.mean,
            queue.within + share * theory.mean_in_queue,
        )
    _write_table(study.out / f"join-{source}.csv", rows)
    for windows in dict.fromkeys(row.case.windows for row in rows):
        study.figure(_draw(study.out, source, windows, [row for row in rows if row.case.windows == windows]))


def _write_table(path: Path, rows: Iterable[JoinRow]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(
            ["windows", "rate", "utilisation", "delay theory (s)", "delay (s)", "queue theory", "queue"]
        )
        for row in rows:
            theory = row.theory
            figures = (theory.rate, theory.utilisation, theory.mean_wait, row.mean_delay_s.mean)
            more = (theory.mean_in_queue, row.mean_queue.mean)
            table.writerow([row.case.windows, *(f"{figure:.5g}" for figure in (*figures, *more))])


def _draw(out: Path, source: str, windows: str, rows: list[JoinRow]) -> Path:
    path = out / f"delay-{source}-{windows.replace(' ', '-')}.png"
    with drawing(path, f"Waiting time of a join, {windows}: theory (lines) and {source} (dots)") as axes:
        for number, row in enumerate(rows):
            end_s = row.theory.wait_percentile(0.999)
            t = np.linspace(0, end_s, 300)
            label = f"utilisation {row.theory.utilisation:.2g}"
            colour = f"C{number}"
            axes.plot(t * 1e3, [row.theory.wait_cdf(x) for x in t.tolist()], color=colour, label=label)
            some = np.linspace(0, end_s, 15)
            below = np.searchsorted(np.sort(row.waits_s), some, side="right") / max(1, len(row.waits_s))
            axes.plot(some * 1e3, below, ".", color=colour)
        axes.set_xlabel("waiting time (ms)")
        axes.set_ylabel("share of tuples")
        axes.legend(frameon=False, fontsize="small")
    return path
