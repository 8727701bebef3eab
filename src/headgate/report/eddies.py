"""Simulated eddies: as JSON and as a ranked table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

from headgate.simulator.eddies import EddyResult


def as_json(result: EddyResult) -> dict[str, Any]:
    """A result as one JSON object."""
    return {
        "policy": result.policy,
        "rate": result.rate,
        "seconds": result.seconds,
        "art": result.art,
        "delivered": result.delivered,
        "art_by_plan": dict(result.art_by_plan),
        "visits": dict(result.visits),
        "queue": dict(result.queue),
        "utilisation": dict(result.utilisation),
        "longest_queue": dict(result.longest_queue),
        "shares": dict(result.shares),
        "splits": result.splits,
        "slides": result.slides,
        "merges": result.merges,
        "messages": result.messages,
        "pages": result.pages,
    }


def ranked(results: Sequence[EddyResult]) -> list[EddyResult]:
    """Least mean response time first."""
    return sorted(results, key=lambda result: math.inf if result.art is None else result.art)


def results_table(results: Sequence[EddyResult]) -> Table:
    """One row a policy, in the order given."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("policy", no_wrap=True)
    for heading in ("response mean (s)", "delivered", "longest queue", "splits", "slides", "merges"):
        table.add_column(heading, justify="right")
    for place, result in enumerate(results, start=1):
        moved = (result.splits, result.slides, result.merges)
        longest = max(result.longest_queue.values())
        art = "-" if result.art is None else f"{result.art:,.4g}"
        table.add_row(
            str(place), result.policy, art, *(f"{n:,}" for n in (result.delivered, longest, *moved))
        )
    return table
