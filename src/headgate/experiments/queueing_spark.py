"""The window join of two Poisson streams on Spark, beside what queueing theory says of its ticks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from headgate.experiments.bursts import generated
from headgate.experiments.check import Study
from headgate.experiments.predict import SETTLING_TICKS, PredictBench, factor_at, mean_waiting
from headgate.experiments.predict_queries import PredictedQuery
from headgate.experiments.queueing_join import UTILISATIONS
from headgate.queueing.models import InTicks
from headgate.report.lines import drawing

# seconds of each stream's window
WINDOWS = {"equal windows": (1, 1), "one window twice the other": (2, 1)}
_SECONDS = 14.0
_FULL_RATE = 80_000.0
# what a prediction may be off, as the profile that it is made from
_WITHIN = 0.5
_STREAM = """\
CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT)
  FROM burst OPTIONS (process 'poisson', rate '$RATE', flows '1', seed '{seed}$SEED', keys '5000',
                      start '2024-05-01T12:00:00Z', duration '$DURATION s', timestamp 'ts');
"""
_QUERY = """\
CREATE QUERY q AS
  SELECT a.v AS left_v, b.v AS right_v
  FROM packets [RANGE {left} SECONDS] AS a, others [RANGE {right} SECONDS] AS b
  WHERE a.k = b.k;
"""


def on_spark(study: Study, spark: Any) -> None:
    """Theory from a profile at one rate, against runs at utilisations of 0.2 to 0.95."""
    bench = PredictBench(spark, study.progress)
    for windows, (left, right) in WINDOWS.items():
        streams = _STREAM.format(name="packets", seed=1) + _STREAM.format(name="others", seed=2)
        query = PredictedQuery(windows, streams + _QUERY.format(left=left, right=right), _FULL_RATE)
        _compare(study, bench, query)


def _compare(study: Study, bench: PredictBench, query: PredictedQuery) -> None:
    plan, measured = bench.profile(query)
    assert measured.tick is not None
    model = InTicks.measured(measured.tick)
    full = plan.scaled(factor_at(1.0, plan, model)).rates["packets"]
    study.progress(f"{query.name}: full at {full:,.0f} tuples a second of each stream")
    waiting: dict[str, list[float]] = {"in the long run": [], "within this run": [], "on Spark": []}
    for utilisation in UTILISATIONS:
        loaded = plan.scaled(factor_at(utilisation, plan, model))
        network, ticks = bench.run(query, loaded.rates["packets"], _SECONDS)
        name = f"{query.name} on Spark, utilisation {utilisation:g}"
        # near 1 ticks take minutes to become as long as they will be: the same theory, tick by tick
        told = bench.foretold(loaded, generated(network), measured.tick)
        told_s = np.diff(told.at_s)[SETTLING_TICKS:]
        lengths_s = [after.at_s - before.at_s for before, after in pairwise(ticks)][SETTLING_TICKS:]
        study.close(
            f"{name}: mean length of a tick (s)", float(told_s.mean()), float(np.mean(lengths_s)), _WITHIN
        )
        study.close(f"{name}: mean tuples that wait", told.mean_waiting, mean_waiting(ticks), _WITHIN)
        waiting["in the long run"].append(model.tick_s(loaded) * sum(loaded.rates.values()))
        waiting["within this run"].append(told.mean_waiting)
        waiting["on Spark"].append(mean_waiting(ticks))
    path = study.out / f"spark-{query.name.replace(' ', '-')}.png"
    with drawing(path, f"Tuples that wait for a tick, {query.name}: theory (lines) and Spark (dots)") as axes:
        for (label, tuples), style in zip(waiting.items(), (":", "-", "o"), strict=True):
            axes.plot(UTILISATIONS, tuples, style, label=label)
        axes.set_yscale("log")
        axes.set_xlabel("utilisation")
        axes.set_ylabel("tuples")
        axes.legend(frameon=False)
    study.figure(path)
