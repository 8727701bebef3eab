"""JSON documents of a run: its network, samples of ticks, settings, statistics and pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from headgate.errors import HeadgateError
from headgate.formats.plain_json import finite
from headgate.model.event import QueryCounts, SettingsChanged, StreamCounts, TickCommitted
from headgate.model.network import Network
from headgate.model.operator import Eddy
from headgate.model.operator_inputs import StreamInput

if TYPE_CHECKING:
    from headgate.session.handle import Run, SettingsInForce

Document = dict[str, Any]
# of a path of a chart; a page shows no more
_MOST_CHARTS = 24


def network(found: Network) -> Document:
    """Operators with their inputs, and the streams, queries and pools around them."""
    return {
        "streams": [
            {"name": name, "format": stream.format, "timestamp": stream.timestamp}
            for name, stream in found.streams.items()
        ],
        "operators": [
            {
                "name": name,
                "kind": type(operator).__name__,
                "text": str(operator),
                "inputs": [
                    {"stream": i.stream} if isinstance(i, StreamInput) else {"operator": i.operator}
                    for i in operator.inputs
                ],
                "queries": list(found.queries_of(name)),
                "pools": sorted({step.pool for step in operator.steps}) if isinstance(operator, Eddy) else [],
            }
            for name, operator in found.operators.items()
        ],
        "queries": [
            {
                "name": name,
                "outputs": list(query.outputs),
                "streams": sorted(found.streams_of(name)),
                "into": query.sink.format,
                "latency_s": query.latency_s,
                "memory_bytes": query.memory_bytes,
                "overload": query.overload,
            }
            for name, query in found.queries.items()
        ],
        "pools": [{"name": name, "slots": pool.slots} for name, pool in found.pools.items()],
    }


def sample(
    tick: TickCommitted, totals: Mapping[str, StreamCounts], pools: Mapping[str, Any], processors: int
) -> Document:
    """One tick in a few hundred bytes; operators with nothing to say are left out."""
    document: Document = {
        "at_s": round(tick.now_s, 3),
        "tick": tick.batch_id,
        "seconds": round(tick.seconds, 4),
        "busy": round(tick.busy_s / (tick.seconds * processors), 4) if tick.seconds > 0 else 0.0,
        "backlog": [tick.backlog_tuples, tick.backlog_bytes],
        "window_bytes": tick.window_bytes,
        "phases_s": {name: round(own, 4) for name, own in tick.phases_s.items()},
        # rows in, late, bad, shed, files set aside: of this tick, and in all
        "streams": {
            name: [*astuple(counts), *astuple(totals.get(name, counts))]
            for name, counts in tick.streams.items()
        },
        "queries": {name: _result(counts) for name, counts in tick.queries.items()},
        # taken, waiting, bytes that wait
        "operators": {
            name: [round(own.taken), round(own.waiting), round(own.waiting_bytes)]
            for name, own in tick.operators.items()
            if own.taken >= 0.5 or own.waiting >= 0.5
        },
        "turns": [[list(operators), round(tuples)] for operators, tuples in tick.turns.items()],
        # slots, calls, passed, busy seconds: in all
        "pools": {
            name: [pool.slots, pool.calls, pool.passed, round(pool.busy_s, 3)] for name, pool in pools.items()
        },
    }
    plain: Document = finite(document)
    return plain


def _result(counts: QueryCounts) -> list[float | None]:
    """Rows, mean and largest latency, keep ratio, tuples set aside."""
    total = sum(number for _, number in counts.latencies)
    mean_s = sum(s * n for s, n in counts.latencies) / total if total else None
    largest_s = max((seconds for seconds, _ in counts.latencies), default=None)
    return [counts.rows_out, mean_s, largest_s, round(counts.keep_ratio, 6), counts.set_aside]


def decision(change: SettingsChanged) -> Document:
    return {"at_s": change.now_s, "text": str(change), **change.to_json()}


def settings(found: SettingsInForce) -> Document:
    return {
        "strategy": found.strategy,
        "memory_bytes": found.memory_bytes,
        "tick_budget_s": found.tick_budget_s,
        "processors": found.processors,
        "latency_s": dict(found.latency_s),
        "strategies": list(found.strategies),
    }


def run_state(run: Run) -> Document:
    """Whether it runs, and why not."""
    error = None
    state = "running" if run.is_running else "ended"
    if (failure := run.failure) is not None:
        state, error = "failed", " ".join(str(failure).split())
    paused = sorted(name for name, query in run.status().queries.items() if query.is_paused)
    return {"state": state, "checkpoint": run.checkpoint, "error": error, "paused": paused}


def strategy(run: Run) -> Document:
    """The strategy, the progress charts of paths with their envelopes, and the profiles behind them."""
    charts = []
    for path, chart in run.progress_charts(_MOST_CHARTS).items():
        charts.append(
            {
                "operators": list(path),
                "points": [[p.seconds, p.size] for p in chart.points],
                "segments": [[s.first, s.last, s.slope] for s in chart.segments],
            }
        )
    plain: Document = finite({"name": run.settings().strategy, "charts": charts, "profiles": profiles(run)})
    return plain


def profiles(run: Run) -> Document:
    """Cost, selectivity and width of every operator, and in how many ticks they were measured."""
    return {
        name: {
            "seconds_per_tuple": own.seconds_per_tuple,
            "selectivity": own.selectivity,
            "bytes_per_tuple": own.bytes_per_tuple,
            "samples": own.samples,
        }
        for name, own in run.profiles().items()
    }


def statistics(run: Run) -> Document:
    """All that the run has measured, as its profile file has it."""
    import json

    found: Document = json.loads(run.measured().to_json())
    return found


def failure(error: BaseException) -> Document:
    """An error in one line, and where in the statement it is."""
    document: Document = {"error": " ".join(str(error).split()), "kind": type(error).__name__}
    span = getattr(error, "span", None)
    if isinstance(error, HeadgateError) and span is not None:
        document |= {"line": span.line, "column": span.column, "length": span.end - span.start}
    return document
