"""S3 on Spark: three placed predicates with real service times, under several policies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headgate.experiments.eddies import three_selections
from headgate.experiments.study import Progress, Study, fingerprint
from headgate.routing.policies import routing_chance
from headgate.routing.solvers import largest_rate
from headgate.session import Session
from headgate.status import RunStatus

# of the three selections, as in the analysis
SECONDS = {"op1": 0.010, "op2": 0.005, "op3": 0.025}
SELECTIVITIES = {"op1": 0.5, "op2": 0.2, "op3": 0.4}
# op1 and op3 change places: the largest rate grows a little, so that what was sustained can be still
SWAPPED = {"op1": 0.4, "op2": 0.2, "op3": 0.5}
RATE = 220
# tasks of jobs beside those of ticks
POOL_TASKS = 3

POLICIES = ("optimal", "wscq", "sc", "t")

_STEADY_POLICIES = ("optimal", "wscq")
_COLLAPSING = ("sc", "t")
_LATE_S = 0.001
_QUERY = "s3"
_HIGHER_RATE = 232
# Java's compiler makes ticks quicker for minutes: it is done when a run of this length is hardly quicker
_WARM_UP_S = 40.0
_AS_QUICK = 0.9
_MOST_WARM_UPS = 6
# with t, the slowest, tuples take several times as long as they come in
_MOST_TIMES = 5.0
_MOST_LATENCY_S = 3.0
# a backlog that grows by more than this share of what comes in is not bounded
_STEADY = 0.03


def _holds(number: int, now: float, later: float, swap_at: int, value: int) -> bool:
    """Whether a tuple passes a predicate, whose selectivity changes to the later one at a tuple."""
    return routing_chance(100 + number, value, 0) < (now if value < swap_at else later)


def _slow(name: str, holds: Callable[[int], bool]) -> Callable[[int], bool]:
    free_s = 0.0

    def call(value: int) -> bool:
        nonlocal free_s
        # a sleep takes some tenths of a millisecond more than it should: the next call makes up for it
        free_s = max(time.perf_counter() - _LATE_S, free_s) + SECONDS[name]
        time.sleep(max(0.0, free_s - time.perf_counter()))
        return holds(value)

    call.__name__ = name
    return call


@dataclass(frozen=True)
class PoolRun:
    """A run, from the first tuple to the last."""

    rate: int
    input_s: float
    status: RunStatus
    busy: Mapping[str, float]
    """Share of the time in which each pool was in use while tuples came in."""
    fingerprint: tuple[int, int]
    expected: tuple[int, int]

    @property
    def latency_s(self) -> float:
        return self.status.queries[_QUERY].latency_s.mean or 0.0

    @property
    def tick_s(self) -> float:
        return float(np.mean([tick.seconds for tick in self.status.history]))

    @property
    def growth(self) -> float:
        """Growth of the backlog as a share of the input, over the second half of the run."""
        ticks = [t for t in self.status.history if 0.5 * self.input_s <= t.at_s <= self.input_s]
        at_s, tuples = [t.at_s for t in ticks], [t.backlog_tuples for t in ticks]
        return float(np.polyfit(at_s, tuples, 1)[0]) / self.rate

    @property
    def is_sustained(self) -> bool:
        return self.growth <= _STEADY

    def row(self) -> dict[str, float]:
        backlog = [t.backlog_tuples for t in self.status.history if t.at_s <= self.input_s]
        return {
            "rate": self.rate,
            "mean_latency_s": round(self.latency_s, 2),
            "p99_latency_s": round(self.status.queries[_QUERY].latency_s.p99 or 0.0, 2),
            "peak_backlog": max(backlog),
            "backlog_growth": round(self.growth, 3),
            "tick_s": round(self.tick_s, 2),
            **{f"busy_{pool}": round(share, 3) for pool, share in self.busy.items()},
        }


def _run(
    spark: Any,
    progress: Progress,
    policy: str,
    length_s: float,
    rate: int = RATE,
    later: Mapping[str, float] = SELECTIVITIES,
) -> PoolRun:
    """Run S3 under a policy; half-way through, the selectivities change to the later ones."""
    tuples = round(rate * length_s)
    progress(f"{policy} at {rate} tuples per second")
    session = Session(spark)
    predicates = {
        name: partial(_holds, number, SELECTIVITIES[name], later[name], tuples // 2)
        for number, name in enumerate(SECONDS)
    }
    for name, holds in predicates.items():
        session.function(name, _slow(name, holds), "boolean")
    pools = "".join(f"CREATE POOL pool_{name} SLOTS 1; PLACE {name} ON pool_{name};\n" for name in SECONDS)
    calls = " AND ".join(f"{name}(value)" for name in SECONDS)
    session.execute(f"""{pools}
    CREATE STREAM t (timestamp TIMESTAMP, value BIGINT)
      FROM rate OPTIONS (rowsPerSecond {rate}, timestamp 'timestamp');
    CREATE QUERY {_QUERY} AS SELECT value FROM t WHERE value < {tuples} AND {calls};""")
    run = session.start(routing=policy)
    began_s = time.monotonic()
    input_s = busy = None
    while time.monotonic() - began_s < _MOST_TIMES * length_s + _WARM_UP_S:
        if run.wait(0.25):
            break
        status = run.status()
        came = status.streams["t"].rows_in if "t" in status.streams else 0
        if came >= tuples and input_s is None:
            input_s = time.monotonic() - began_s
            busy = {name: pool.busy_s / input_s / pool.slots for name, pool in run.pools().items()}
        if came >= tuples and status.backlog_tuples == 0:
            break
    run.stop()
    status = run.status()
    passing = [(value,) for value in range(tuples) if all(holds(value) for holds in predicates.values())]
    done = PoolRun(
        rate=rate,
        input_s=input_s or status.seconds,
        status=status,
        busy=busy or {},
        # when tuples came differs from run to run
        fingerprint=fingerprint(run.results(_QUERY).select("value")),
        expected=fingerprint(spark.createDataFrame(passing, "value BIGINT")),
    )
    progress(f"  {done.row()}")
    return done


def _warm_up(bench: Callable[[str, float], PoolRun], progress: Progress) -> None:
    before_s = math.inf
    for _ in range(_MOST_WARM_UPS):
        progress("warming up")
        tick_s = bench("wscq", _WARM_UP_S).tick_s
        if tick_s >= _AS_QUICK * before_s:
            return
        before_s = tick_s


def pools_study(spark: Any, out: Path, seconds: float, policies: Sequence[str], progress: Progress) -> Study:
    """Run and check the policies; optimal is also run with changing selectivities and higher rates."""
    study = Study("eddies", out, progress)
    bench = partial(_run, spark, progress)
    _warm_up(bench, progress)
    runs = {policy: bench(policy, seconds) for policy in policies}
    for policy, run in runs.items():
        study.equal(f"{policy}: the results of plain loops", run.expected, run.fingerprint)
        if policy in _COLLAPSING:
            study.at_least(f"{policy}: backlog grows, of what comes in", _STEADY, run.growth)
        elif policy in _STEADY_POLICIES:
            study.at_most(f"{policy}: backlog grows, of what comes in", _STEADY, run.growth)
            bound_s = _MOST_LATENCY_S + run.tick_s
            study.at_most(f"{policy}: mean latency (s), 3 s and a tick", bound_s, run.latency_s)
    if "optimal" in runs:
        runs["optimal, swapped"] = swapped = bench("optimal", seconds, later=SWAPPED)
        study.equal("swapped half-way: the results of plain loops", swapped.expected, swapped.fingerprint)
        study.at_most("swapped half-way: backlog grows, of what comes in", _STEADY, swapped.growth)
        most, sustained = largest_rate(three_selections()).mdr, 0.0
        if runs["optimal"].is_sustained:
            sustains_more = bench("optimal", seconds, rate=_HIGHER_RATE).is_sustained
            sustained = float(_HIGHER_RATE if sustains_more else RATE)
        study.at_least("optimal: largest sustained rate, of the analysis'", 0.9, sustained / most)
        study.tables["largest sustained rate"] = {"measured": sustained, "analysis": round(most, 1)}
    study.tables["runs"] = {name: run.row() for name, run in runs.items()}
    lines = {
        name: ([t.at_s for t in run.status.history], [float(t.backlog_tuples) for t in run.status.history])
        for name, run in runs.items()
    }
    title = f"S3 at {RATE} tuples per second, on Spark"
    study.plot("eddies", title, "time since the start (s)", "tuples inside", lines, steps=True)
    return study
