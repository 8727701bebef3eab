"""What a job of an eddy is told, and what it tells when it ends."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.routing.router import Router
from headgate.routing.statistics import Monitor
from headgate.spark.eddies.ways import Ways

DROPPED = -1
"""In place of a bitmap: a predicate does not hold."""


@dataclass(frozen=True)
class Step:
    """A placed predicate: ``function`` is pickled; its arguments and what decides are columns by number.

    ``comparison`` is empty for a function that returns a truth: then ``tests`` has a column for each of true,
    false and null; otherwise one with what its result is compared with.
    """

    name: str
    pool: str
    function_name: str
    function: bytes
    arguments: tuple[int, ...]
    comparison: str
    tests: tuple[int, ...]


@dataclass(frozen=True)
class Assignment:
    """All that a job has to know beside its tuples."""

    ways: Ways
    steps: tuple[Step, ...]
    """Those that call functions: behind the probes, if there are any."""
    slots: Mapping[str, int]
    """Of each pool: how many calls at a time."""
    lock_folder: str | None
    """Where jobs of one machine agree on who has which slot; None if no two run at a time."""
    budget_s: float
    left_over: float
    """Which share of its tuples the job may hand back: the last ones would keep few pools busy."""
    router: Router
    monitors: Mapping[str, Monitor]
    queues: Mapping[str, int]
    """Tuples in line before every probe."""
    rates: Mapping[str, float]
    now_s: float
    seed: int


@dataclass
class Count:
    """What was done at a predicate."""

    tuples_in: int = 0
    done: int = 0
    out: int = 0
    busy_s: float = 0.0

    def add(self, other: Count) -> None:
        """Take in what another job has done."""
        self.tuples_in += other.tuples_in
        self.done += other.done
        self.out += other.out
        self.busy_s += other.busy_s


@dataclass(frozen=True)
class Told:
    """What a task reports: its monitors, counts by predicate, and how long slots were in use."""

    monitors: Mapping[str, Monitor]
    counts: Mapping[str, Count]
    active_s: float
    settled: int = 0
    """Tuples that were finished, dropped, or sent on to a probe."""

    def to_text(self) -> str:
        """One line that survives a column of text."""
        return base64.b64encode(pickle.dumps(self)).decode("ascii")

    @staticmethod
    def from_text(text: str) -> Told:
        """The inverse of ``to_text``."""
        told = pickle.loads(base64.b64decode(text))
        assert isinstance(told, Told)
        return told
