"""Admission: whether a new query may join those that run, by the bounds of all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headgate.queueing.advice import DEFAULT_PERCENTILE, Advice, advise
from headgate.queueing.models import LatencyModel
from headgate.queueing.plan import Plan


@dataclass(frozen=True)
class Admission:
    """The answer: ``advice`` is on the plan with the new queries in it."""

    new: tuple[str, ...]
    advice: Advice

    @property
    def admitted(self) -> bool:
        """Whether every query, new or running, would keep its bounds."""
        return self.advice.fits

    @property
    def reason(self) -> str:
        """Why not, in one line: which bounds break, by how much, and what would fit."""
        if self.admitted:
            return ""
        lines = []
        for query, own in self.advice.queries.items():
            if not own.fits:
                kind = "query" if query in self.new else "running query"
                lines.append(f"{kind} {query}: {'; '.join(map(str, own.broken))} ({own.remedies})")
        factor = self.advice.largest_factor
        most = f"all fits at {factor:.3g} times the present rates" if factor > 0 else "no rate would fit"
        return f"{'; '.join(lines)}; {most}"


def admission(
    plan: Plan, new: Collection[str], model: LatencyModel, percentile: float = DEFAULT_PERCENTILE
) -> Admission:
    """Judge new queries of a plan that holds the running ones as well."""
    return Admission(
        tuple(query for query in plan.network.queries if query in new), advise(plan, model, percentile)
    )
