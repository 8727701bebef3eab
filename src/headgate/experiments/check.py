"""Checks: what is expected, what came out, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """One claim, put to the test."""

    name: str
    expected: object
    got: object
    ok: bool

    def to_json(self) -> dict[str, object]:
        """Name, expected, got, ok."""
        return {"name": self.name, "expected": self.expected, "got": self.got, "ok": self.ok}


@dataclass
class Study:
    """The checks and figures of a paper, as they come in; figures go to the folder ``out``."""

    name: str
    out: Path
    progress: Progress
    checks: list[Check] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    tables: dict[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    def equal(self, name: str, expected: object, got: object) -> None:
        """Both are the same, to the last digit."""
        self.checks.append(Check(name, expected, got, expected == got))

    def at_least(self, name: str, bound: float, got: float) -> None:
        """A figure reaches a bound."""
        self.checks.append(Check(name, f">= {bound:g}", _rounded(got), got >= bound))

    def at_most(self, name: str, bound: float, got: float) -> None:
        """A figure stays within a bound."""
        self.checks.append(Check(name, f"<= {bound:.4g}", _rounded(got), got <= bound))

    def close(self, name: str, expected: float, got: float, share: float) -> None:
        """A figure differs from what is expected by no more than a share of itself."""
        ok = abs(expected - got) <= share * abs(got)
        self.checks.append(Check(name, _rounded(expected), _rounded(got), ok))

    def within(self, name: str, expected: float, got: float, by: float) -> None:
        """A figure differs from what is expected by no more than it may by chance."""
        shown = f"{_rounded(got)} +- {_rounded(by)}"
        self.checks.append(Check(name, _rounded(expected), shown, abs(expected - got) <= by))

    def rising(self, name: str, got: Mapping[str, float], slack: float = 0.0) -> None:
        """No figure falls below the one before, by more than a share ``slack`` of it."""
        values = list(got.values())
        rises = all(b >= a * (1 - slack) for a, b in pairwise(values))
        within = f" within {slack:.0%}" if slack else ""
        self.checks.append(Check(name, f"rising{within}", {k: _rounded(v) for k, v in got.items()}, rises))

    def table(self, name: str, rows: Mapping[str, object]) -> None:
        """Note figures of which nothing is claimed."""
        self.tables[name] = rows

    def figure(self, path: Path) -> None:
        """Note a figure that was drawn."""
        self.figures.append(path)

    def to_json(self) -> dict[str, object]:
        """The document of ``headgate reproduce --json``."""
        return {
            "study": self.name,
            "checks": [check.to_json() for check in self.checks],
            "figures": [str(path) for path in self.figures],
            **({"tables": self.tables} if self.tables else {}),
        }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
