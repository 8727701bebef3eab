"""What came of a simulated eddy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EddyResult:
    """What came of a run; figures by operator are of all its copies together."""

    policy: str
    rate: float
    seconds: float
    """Until the end, or until a node was overloaded."""
    art: float | None
    """Mean response time of tuples that reached the sink; None if none did."""
    delivered: int
    art_by_plan: Mapping[str, float | None]
    visits: Mapping[str, int]
    queue: Mapping[str, float]
    """Mean number of tuples waiting or in service."""
    utilisation: Mapping[str, float]
    """Processors that an operator kept busy, on average."""
    longest_queue: Mapping[str, int]
    """By node."""
    shares: Mapping[str, float]
    """The part of every operator in the work done lately."""
    overloaded_s: float | None
    splits: int
    slides: int
    merges: int
    messages: int
    pages: int
    steps: int
