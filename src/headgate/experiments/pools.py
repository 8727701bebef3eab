"""S3 live: three placed predicates that really take their time, on Spark, under several policies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.experiments.burst import fingerprint
from headgate.experiments.check import Progress, Study
from headgate.report.lines import plot_lines
from headgate.routing.blocks import draw
from headgate.routing.mdr import largest_rate
from headgate.routing.network import PlacedOperator, RoutingNetwork
from headgate.routing.plans import AnyOrder
from headgate.session import Session
from headgate.status import RunStatus

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
_HIGHER_RATES = (232,)
_WARM_UP_S = 15.0
# with t, the slowest, tuples take several times as long as they come in
_MOST_TIMES = 5.0
_MOST_LATENCY_S = 3.0
# a backlog that grows by more than this share of what comes in is not bounded
_STEADY = 0.03


@dataclass(frozen=True)
class Service:
    """A predicate that takes its time; its answer depends on the tuple alone."""

    number: int
    seconds: float
    selectivity: float
    later: float
    """Selectivity from the tuple ``swap_at`` on."""
    swap_at: int

    def answer(self, value: int, free_s: float) -> tuple[bool, float]:
        """The answer after its time, and when the service is free again; it was busy until ``free_s``."""
        # a sleep takes some tenths of a millisecond more than it should: the next call makes up for it
        free_s = max(time.perf_counter() - _LATE_S, free_s) + self.seconds
        time.sleep(max(0.0, free_s - time.perf_counter()))
        return self.holds(value), free_s

    def holds(self, value: int) -> bool:
        """The answer, at once."""
        return draw(100 + self.number, value, 0) < (self.selectivity if value < self.swap_at else self.later)


@dataclass(frozen=True)
class PoolRun:
    """A run, from the first tuple to the last."""

    policy: str
    rate: int
    input_s: float
    status: RunStatus
    busy: Mapping[str, float]
    """Share of the time in which each pool was in use while tuples came in."""
    fingerprint: tuple[int, int]
    expected: tuple[int, int]

    @property
    def latency_s(self) -> float:
        """Mean time from arrival to result."""
        return self.status.queries[_QUERY].latency_s.mean or 0.0

    @property
    def tick_s(self) -> float:
        """Mean time of a tick."""
        return float(np.mean([tick.seconds for tick in self.status.history]))

    @property
    def growth(self) -> float:
        """By which share of what comes in the backlog grows, over the second half of the input."""
        ticks = [t for t in self.status.history if 0.5 * self.input_s <= t.at_s <= self.input_s]
        at_s, tuples = [t.at_s for t in ticks], [t.backlog_tuples for t in ticks]
        return float(np.polyfit(at_s, tuples, 1)[0]) / self.rate

    @property
    def is_sustained(self) -> bool:
        """Whether the backlog stays as it is."""
        return self.growth <= _STEADY

    def figures(self) -> dict[str, float]:
        """For a table."""
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


@dataclass(frozen=True)
class PoolBench:
    """Runs S3 again and again on one Spark application."""

    spark: Any
    seconds: float
    progress: Progress

    def run(
        self,
        policy: str,
        rate: int = RATE,
        later: Mapping[str, float] = SELECTIVITIES,
        seconds: float | None = None,
    ) -> PoolRun:
        """All tuples of some seconds under a policy; half-way the selectivities become the later ones."""
        tuples = round(rate * (seconds or self.seconds))
        self.progress(f"{policy} at {rate} tuples a second")
        session = Session(self.spark)
        services = [
            Service(number, SECONDS[name], SELECTIVITIES[name], later[name], tuples // 2)
            for number, name in enumerate(SECONDS)
        ]
        for name, service in zip(SECONDS, services, strict=True):
            session.function(name, _named(name, service), "boolean")
        session.execute(_script(rate, tuples))
        run = session.start(routing=policy)
        began_s = time.monotonic()
        input_s = busy = None
        while time.monotonic() - began_s < _MOST_TIMES * (seconds or self.seconds) + _WARM_UP_S:
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
        expected = self.spark.createDataFrame(_expected(services, tuples), "value BIGINT")
        done = PoolRun(
            policy=policy,
            rate=rate,
            input_s=input_s or status.seconds,
            status=status,
            busy=busy or {},
            # when tuples came differs from run to run
            fingerprint=fingerprint(run.results(_QUERY).select("value")),
            expected=fingerprint(expected),
        )
        self.progress(f"  {done.figures()}")
        return done


def _named(name: str, service: Service) -> Callable[[int], bool]:
    free_s = 0.0

    def call(value: int) -> bool:
        nonlocal free_s
        answer, free_s = service.answer(value, free_s)
        return answer

    call.__name__ = name
    return call


def _script(rate: int, tuples: int) -> str:
    pools = "".join(f"CREATE POOL pool_{name} SLOTS 1; PLACE {name} ON pool_{name};\n" for name in SECONDS)
    calls = " AND ".join(f"{name}(value)" for name in SECONDS)
    return f"""{pools}
    CREATE STREAM t (timestamp TIMESTAMP, value BIGINT)
      FROM rate OPTIONS (rowsPerSecond {rate}, timestamp 'timestamp');
    CREATE QUERY {_QUERY} AS SELECT value FROM t WHERE value < {tuples} AND {calls};"""


def largest_rate_of(selectivities: Mapping[str, float]) -> float:
    """What the analysis says of S3 with some selectivities."""
    operators = {
        name: PlacedOperator(name, seconds, selectivities[name], resource=1.0)
        for name, seconds in SECONDS.items()
    }
    plan = AnyOrder("s3", "t", tuple(SECONDS))
    return float(largest_rate(RoutingNetwork({"t": 1.0}, operators, {"s3": plan})).mdr)


def pools_study(spark: Any, out: Path, seconds: float, policies: Sequence[str], progress: Progress) -> Study:
    """Run, compare with plain loops, check. With optimal come a swap of selectivities and higher rates."""
    study = Study("eddies", out, progress)
    bench = PoolBench(spark, seconds, progress)
    progress("warming up")
    bench.run("wscq", seconds=_WARM_UP_S)
    runs = {policy: bench.run(policy) for policy in policies}
    for policy, run in runs.items():
        study.equal(f"{policy}: the results of plain loops", run.expected, run.fingerprint)
        if policy in _COLLAPSING:
            study.at_least(f"{policy}: backlog grows, of what comes in", _STEADY, run.growth)
        elif policy in _STEADY_POLICIES:
            study.at_most(f"{policy}: backlog grows, of what comes in", _STEADY, run.growth)
            bound_s = _MOST_LATENCY_S + run.tick_s
            study.at_most(f"{policy}: mean latency (s), 3 s and a tick", bound_s, run.latency_s)
    if "optimal" in runs:
        runs["optimal, swapped"] = swapped = bench.run("optimal", later=SWAPPED)
        study.equal("swapped half-way: the results of plain loops", swapped.expected, swapped.fingerprint)
        study.at_most("swapped half-way: backlog grows, of what comes in", _STEADY, swapped.growth)
        most, sustained = largest_rate_of(SELECTIVITIES), _largest_sustained(bench, runs["optimal"])
        study.at_least("optimal: largest sustained rate, of the analysis'", 0.9, sustained / most)
        study.table("largest sustained rate", {"measured": sustained, "analysis": round(most, 1)})
    study.table("runs", {name: run.figures() for name, run in runs.items()})
    study.figure(_drawn(runs, out / "eddies.png"))
    return study


def _largest_sustained(bench: PoolBench, first: PoolRun) -> float:
    """The largest rate that was tried and sustained; 0 if even the first was not."""
    sustained = float(first.rate) if first.is_sustained else 0.0
    for rate in _HIGHER_RATES:
        if sustained == 0.0 or not bench.run("optimal", rate=rate).is_sustained:
            break
        sustained = float(rate)
    return sustained


def _expected(services: Sequence[Service], tuples: int) -> list[tuple[int]]:
    """The tuples that pass all predicates."""
    return [(value,) for value in range(tuples) if all(service.holds(value) for service in services)]


def _drawn(runs: Mapping[str, PoolRun], path: Path) -> Path:
    lines = {
        name: ([t.at_s for t in run.status.history], [float(t.backlog_tuples) for t in run.status.history])
        for name, run in runs.items()
    }
    return plot_lines(
        path, f"S3 at {RATE} tuples a second, on Spark", "time since the start (s)", "tuples inside", lines
    )
