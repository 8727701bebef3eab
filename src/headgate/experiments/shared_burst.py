"""A burst that eight queries share, under every strategy of the papers: who saves memory, and who time.

Each repetition runs all strategies one after the other, so that a machine that gets faster or slower does so
for all of them; strategies are compared within a repetition. Every other repetition runs them in reverse, so
that a drift within repetitions is for a strategy as often as against it. A claim holds if the mean of its
ratios is on the right side of 1 by more than they spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from statistics import mean, stdev

from headgate.experiments.burst import BETA, MARGIN_S, ROOM, BurstBench, BurstRun
from headgate.experiments.study import Study, rounded
from headgate.scheduling import Strategy
from headgate.scheduling.baselines import Fifo
from headgate.scheduling.capacity import Greedy, PathCapacity, SegmentStrategy, SimplifiedSegment, Threshold
from headgate.scheduling.chain_envelope import Chain
from headgate.scheduling.deadlines import ChainFlush

# as many in either direction
REPETITIONS = 4
_STRATEGIES: tuple[Callable[[], Strategy], ...] = (
    Fifo,
    Greedy,
    Chain,
    PathCapacity,
    SegmentStrategy,
    SimplifiedSegment,
)
# the bound of chain-flush, of the slowest result under fifo
_BOUND = 1.25

Repetition = Mapping[str, BurstRun]


def repeat(bench: BurstBench, number: int) -> Repetition:
    """Run the burst once under each strategy; those whose limits come from the others are the last."""
    in_turn = [strategy() for strategy in _STRATEGIES]
    runs = {one.name: bench.run(one) for one in (reversed(in_turn) if number % 2 else in_turn)}
    chain, path = runs["chain"], runs["path-capacity"]
    limit_bytes = chain.peak_bytes + ROOM * max(0.0, path.peak_bytes - chain.peak_bytes)
    bound_s = _BOUND * runs["fifo"].max_latency_s
    for strategy in (Threshold(limit_bytes, BETA), ChainFlush(bound_s, margin_s=MARGIN_S)):
        runs[strategy.name] = bench.run(strategy)
    return runs


def compare(study: Study, repetitions: Sequence[Repetition]) -> None:
    """Check the orders of the papers, and report memory, latency and throughput of each strategy."""
    expected = _results(repetitions[0]["fifo"])
    for name in repetitions[0]:
        found = {_results(runs[name]) for runs in repetitions}
        study.equal(f"eight queries, {name}: same results as fifo", expected, " or ".join(sorted(found)))

    def claim(text: str, ratios: Sequence[float]) -> None:
        # the mean must be below 1 by more than one standard deviation of the repetitions
        study.at_most(f"eight queries: {text}, and its spread", 1.0, mean(ratios) + _spread(ratios))

    def peaks(one: str, other: str) -> list[float]:
        return [runs[one].peak_bytes / runs[other].peak_bytes for runs in repetitions]

    def latencies(one: str, other: str) -> list[float]:
        return [runs[one].mean_latency_s / runs[other].mean_latency_s for runs in repetitions]

    claim("chain's peak backlog, of fifo's", peaks("chain", "fifo"))
    claim("segment's peak backlog, of path-capacity's", peaks("segment", "path-capacity"))
    claim("chain's peak backlog, of path-capacity's", peaks("chain", "path-capacity"))
    claim("path-capacity's mean latency, of fifo's", latencies("path-capacity", "fifo"))
    claim("path-capacity's mean latency, of chain's", latencies("path-capacity", "chain"))
    claim("path-capacity's mean latency, of segment's", latencies("path-capacity", "segment"))
    claim("simplified-segment's mean latency, of segment's", latencies("simplified-segment", "segment"))
    study.tables["eight queries"] = {
        name: _row([runs[name] for runs in repetitions]) for name in repetitions[0]
    }
    title = "eight queries: backlog after each tick"
    with study.drawing("shared-burst", title, "time since the start (s)", "backlog (kB)") as axes:
        for name, run in repetitions[-1].items():
            ticks = run.status.history
            at_s, backlog = [t.at_s for t in ticks], [t.backlog_bytes / 1e3 for t in ticks]
            axes.step(at_s, backlog, where="post", label=name)


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _results(run: BurstRun) -> str:
    """The results of all queries: how many, and a hash of them."""
    rows = sum(count for count, _ in run.fingerprint)
    return f"{rows:,} rows, {blake2b(repr(run.fingerprint).encode(), digest_size=6).hexdigest()}"


def _row(runs: Sequence[BurstRun]) -> dict[str, object]:
    """Means over repetitions, each with its spread."""

    def shown(values: Sequence[float]) -> str:
        return f"{rounded(mean(values), 3):g} +- {rounded(_spread(values), 2):g}"

    return {
        "peak_backlog_kB": shown([run.peak_bytes / 1e3 for run in runs]),
        "mean_latency_s": shown([run.mean_latency_s for run in runs]),
        "p99_latency_s": shown([run.p99_latency_s for run in runs]),
        "tuples_per_s": shown([run.tuples_per_s for run in runs]),
    }
