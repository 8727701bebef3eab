"""Simulated runs, simulated eddies and optimal routings: as JSON and as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich import box
from rich.table import Table

from headgate.report.tables import clean, shown, table_of
from headgate.routing.solution import Solution
from headgate.simulator import Result
from headgate.simulator.eddies import EddyResult

_clean = partial(clean, digits=12)


def result_json(result: Result) -> dict[str, Any]:
    """A result as one JSON object; lists hold ``[time, size]`` and ``[time, amount, latency]``."""
    backlog, outputs = result.backlog, result.outputs
    return {
        "strategy": result.strategy,
        "backlog": [[t, _clean(size)] for t, size in _rows(backlog.times_s, backlog.sizes)],
        "peak": _clean(backlog.peak),
        "mean": _clean(backlog.mean),
        "latency": {
            "mean": _clean(result.latency_mean_s),
            "p99": _clean(result.latency_p99_s),
            "max": _clean(result.latency_max_s),
        },
        "outputs": [
            [t, _clean(amount), latency]
            for t, amount, latency in _rows(outputs.times_s, outputs.amounts, outputs.latencies_s)
        ],
    }


def results_table(results: Sequence[Result]) -> Table:
    """One row per strategy: backlog in tuples (its peak in bytes too), latency in s.

    Least peak backlog first; among equals least mean backlog, then least mean latency.
    """
    table = _ranking("strategy", "peak", "bytes", "mean", "latency mean", "p99", "max", "tuples/s out")
    order = sorted(
        results,
        key=lambda r: (_clean(r.backlog.peak), _clean(r.backlog.mean), _clean(r.latency_mean_s) or 0.0),
    )
    for place, result in enumerate(order, start=1):
        backlog = result.backlog
        latencies = (result.latency_mean_s, result.latency_p99_s, result.latency_max_s)
        values = (backlog.peak, backlog.peak_bytes, backlog.mean, *latencies, result.throughput_per_s)
        table.add_row(str(place), result.strategy, *(shown(value, digits=4) for value in values))
    return table


def eddy_json(result: EddyResult) -> dict[str, Any]:
    """A result as one JSON object."""
    values = {name: value for name, value in vars(result).items() if name != "overloaded_s"}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def eddies_table(results: Sequence[EddyResult]) -> Table:
    """One row per policy, least mean response time first."""
    headings = ("response mean (s)", "delivered", "longest queue", "splits", "slides", "merges")
    table = _ranking("policy", *headings)
    order = sorted(results, key=lambda result: math.inf if result.art is None else result.art)
    for place, result in enumerate(order, start=1):
        longest = max(result.longest_queue.values())
        counts = (result.delivered, longest, result.splits, result.slides, result.merges)
        art = "-" if result.art is None else f"{result.art:,.4g}"
        table.add_row(str(place), result.policy, art, *(f"{count:,}" for count in counts))
    return table


def route_json(solution: Solution, at_rate: float) -> dict[str, Any]:
    """One JSON object; ``art`` and ``utilisation`` hold at this rate."""
    histories = solution.histories
    return {
        "mdr": solution.mdr,
        "art": solution.art(at_rate),
        "rate": at_rate,
        "weights": {at: dict(row) for at, row in histories.weights.items()},
        "utilisation": solution.utilisation(at_rate),
        "resources": dict(solution.resources),
        "by_history": [
            {
                "plan": choice.plan,
                "done": list(choice.done),
                "rate": choice.rate * at_rate,
                "weights": dict(choice.weights),
            }
            for choice in histories.choices
        ],
        "paths": {
            plan: [{"order": list(order), "part": part} for order, part in orders.items()]
            for plan, orders in solution.flows.items()
        },
    }


def route_tables(solution: Solution, at_rate: float) -> list[Table]:
    """Rates and response time, operators, weights."""
    art = solution.art(at_rate)
    summary = table_of("", "", show_header=False)
    summary.add_row("largest rate (tuples/s)", f"{solution.mdr:,.6g}")
    at = f"mean response time at {at_rate:,.6g} tuples/s (s)"
    summary.add_row(at, "-, some queue grows" if art is None else f"{art:,.4g}")
    operators = table_of("operator", "resource", "utilisation")
    for name, used in solution.utilisation(at_rate).items():
        operators.add_row(name, f"{solution.resources[name]:,.4g}", f"{used:.3f}")
    weights = table_of("from", "to", "weight")
    for at, row in solution.histories.weights.items():
        for number, (to, weight) in enumerate(row.items()):
            weights.add_row("" if number else at, to, f"{weight:.4f}")
    return [summary, operators, weights]


def _ranking(what: str, *headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column(what, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _rows(*columns: Any) -> list[tuple[float, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))
