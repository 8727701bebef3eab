"""Studies: what is expected, what came out, whether they agree; and what all studies share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, stdtrit

from headgate.formats.plain_json import finite
from headgate.report.plots import Line, drawing, plot_backlogs, plot_lines
from headgate.simulator import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """A claim and whether it holds.

    ``disagreement`` is the reason why one is known not to hold here; such a check stays in the report.
    """

    name: str
    expected: object
    got: object
    ok: bool
    disagreement: str = ""

    @property
    def is_surprise(self) -> bool:
        """Whether it did not come out as it is known to."""
        return self.ok == bool(self.disagreement)

    @property
    def verdict(self) -> str:
        if self.disagreement:
            return "HOLDS NOW" if self.ok else "disagrees"
        return "ok" if self.ok else "FAILED"


@dataclass
class Study:
    """The checks and figures of a study, in order; figures are saved in ``out``."""

    name: str
    out: Path
    progress: Progress
    checks: list[Check] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    tables: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """Numbers that are reported but not checked."""
    disagreements: Mapping[str, str] = field(default_factory=dict)
    """Reasons by the name of the check that is known not to hold."""

    @property
    def ok(self) -> bool:
        """Whether every check came out as it is known to."""
        return not any(check.is_surprise for check in self.checks)

    def _add(self, name: str, expected: object, got: object, ok: bool) -> None:
        self.checks.append(Check(name, expected, got, ok, self.disagreements.get(name, "")))

    def equal(self, name: str, expected: object, got: object) -> None:
        """Check that both are equal, to the last digit."""
        self._add(name, expected, got, expected == got)

    def at_least(self, name: str, bound: float, got: float) -> None:
        self._add(name, f">= {bound:g}", rounded(got), got >= bound)

    def at_most(self, name: str, bound: float, got: float) -> None:
        self._add(name, f"<= {bound:.4g}", rounded(got), got <= bound)

    def close(self, name: str, expected: float, got: float, share: float) -> None:
        """Check that a number is within a share of itself of the expected one."""
        ok = abs(expected - got) <= share * abs(got)
        self._add(name, rounded(expected), rounded(got), ok)

    def within(self, name: str, expected: float, got: float, by: float) -> None:
        """Check that a number is within its confidence interval of the expected one."""
        shown = f"{rounded(got)} +- {rounded(by)}"
        self._add(name, rounded(expected), shown, abs(expected - got) <= by)

    def rising(self, name: str, got: Mapping[str, float], tolerance: float = 0.0) -> None:
        """Check that no number is below the previous one, by more than a share ``tolerance`` of it."""
        rises = all(b >= a * (1 - tolerance) for a, b in pairwise(got.values()))
        within = f" within {tolerance:.0%}" if tolerance else ""
        self._add(name, f"rising{within}", {k: rounded(v) for k, v in got.items()}, rises)

    def majority(self, name: str, holding: int, cases: int) -> None:
        """Check that a claim holds in more than half of all cases, by a random sample of them."""
        low, high = share_interval(holding, cases)
        shown = f"{holding} of {cases}: {low:.2f} to {high:.2f}"
        self._add(name, f"> 0.5 at {_CONFIDENCE:.0%} confidence", shown, low > 0.5)

    def drawing(self, name: str, title: str, x: str, y: str) -> AbstractContextManager[Axes]:
        """Axes of a new figure; labelled ``x`` and ``y``, and saved at the end."""
        self.figures.append(self.out / f"{name}.png")
        return drawing(self.figures[-1], title, x, y)

    def plot(
        self, name: str, title: str, x: str, y: str, lines: Mapping[str, Line], steps: bool = False
    ) -> None:
        """Draw one line per name; ``x`` and ``y`` label the axes."""
        self.figures.append(plot_lines(self.out / f"{name}.png", title, x, y, lines, steps))

    def plot_backlogs(self, name: str, title: str, results: Iterable[Result]) -> None:
        self.figures.append(plot_backlogs(results, self.out / f"{name}.png", title))

    def to_json(self) -> dict[str, object]:
        """The document of ``headgate reproduce --json``."""
        return {
            "study": self.name,
            "checks": [finite(vars(check)) for check in self.checks],
            "figures": [str(path) for path in self.figures],
            **({"tables": finite(self.tables)} if self.tables else {}),
        }


def records_of(rows: Mapping[str, object]) -> tuple[dict[str, Mapping[str, object]], list[str]]:
    """The rows of a table of numbers that have columns, and these columns."""
    records = {name: row for name, row in rows.items() if isinstance(row, Mapping)}
    return records, list(dict.fromkeys(column for row in records.values() for column in row))


def shown(got: object) -> str:
    """What came out, as reports show it."""
    if isinstance(got, Mapping):
        return ", ".join(f"{name}: {value:g}" for name, value in got.items())
    return str(got)


def rounded(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def fingerprint(results: Any) -> tuple[int, int]:
    """Number of rows of a Spark DataFrame, and an order-free sum of their hashes."""
    columns = ", ".join(f"`{name}`" for name in results.columns)
    hashed = results.selectExpr(f"CAST(xxhash64({columns}) AS DECIMAL(38, 0)) AS h")
    [(rows, total)] = hashed.selectExpr("COUNT(*)", "SUM(h)").collect()
    return int(rows), int(total or 0)


def script(file: str, **values: object) -> str:
    """The CQL script of a study, with its values filled in."""
    text = (files("headgate.experiments") / file).read_text(encoding="utf-8")
    return Template(text).substitute(values)


# of intervals over independent runs
_CONFIDENCE = 0.99


def share_interval(holding: int, cases: int) -> tuple[float, float]:
    """The exact confidence interval (Clopper-Pearson) of the share of all cases in which a claim holds."""
    tail = (1 - _CONFIDENCE) / 2
    low = float(betaincinv(holding, cases - holding + 1, tail)) if holding else 0.0
    high = float(betaincinv(holding + 1, cases - holding, 1 - tail)) if holding < cases else 1.0
    return low, high


_BATCHES = 25
# the chance that all of some fifty intervals hold what they should is then above 0.99
_CHANCE = 1e-4


@dataclass(frozen=True)
class MeanEstimate:
    """A mean, and half of the width of its confidence interval."""

    mean: float
    within: float


def batch_means(values: NDArray[np.float64], leave_out: float = 0.1) -> MeanEstimate:
    """Mean of consecutive batches, which are nearly independent; a first share of the values is left out."""
    steady = values[int(leave_out * len(values)) :]
    means = steady[: len(steady) // _BATCHES * _BATCHES].reshape(_BATCHES, -1).mean(axis=1)
    quantile = float(stdtrit(_BATCHES - 1, 1 - _CHANCE / 2))
    return MeanEstimate(float(means.mean()), quantile * float(means.std(ddof=1)) / math.sqrt(_BATCHES))


def mean_of_runs(values: NDArray[np.float64]) -> MeanEstimate:
    """Mean over independent runs."""
    quantile = float(stdtrit(len(values) - 1, (1 + _CONFIDENCE) / 2))
    return MeanEstimate(float(values.mean()), quantile * float(values.std(ddof=1)) / math.sqrt(len(values)))
