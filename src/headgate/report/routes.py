"""A routing as JSON and as tables."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from headgate.routing.solution import Solution


def as_json(solution: Solution, rate: float | None) -> dict[str, Any]:
    """One JSON object; ``rate`` is the one at which ``art`` and ``utilisation`` hold, that of MDR if None."""
    at_rate = solution.mdr if rate is None else rate
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


def route_tables(solution: Solution, rate: float | None) -> list[Table]:
    """Figures, operators, weights."""
    at_rate = solution.mdr if rate is None else rate
    art = solution.art(at_rate)
    figures = _table("", "")
    figures.add_row("largest rate (tuples/s)", f"{solution.mdr:,.6g}")
    at = f"mean response time at {at_rate:,.6g} tuples/s (s)"
    figures.add_row(at, "-, some queue grows" if art is None else f"{art:,.4g}")
    operators = _table("operator", "resource", "utilisation")
    for name, used in solution.utilisation(at_rate).items():
        operators.add_row(name, f"{solution.resources[name]:,.4g}", f"{used:.3f}")
    weights = _table("from", "to", "weight")
    for at, row in solution.histories.weights.items():
        for number, (to, weight) in enumerate(row.items()):
            weights.add_row("" if number else at, to, f"{weight:.4f}")
    return [figures, operators, weights]


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=bool(first))
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table
