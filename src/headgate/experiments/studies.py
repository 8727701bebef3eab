"""Studies by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.experiments import chain, eddies, findings, optimizer, queueing, segments
from headgate.experiments.check import Progress, Study

# the trace if there is one, the folder for figures, whom to tell how far it is
STUDIES: dict[str, Callable[[Path | None, Path, Progress], Study]] = {
    "chain": chain.reproduce,
    "segments": segments.reproduce,
    "findings": findings.reproduce,
    "eddies": eddies.reproduce,
    "optimizer": optimizer.reproduce,
    "queueing": queueing.reproduce,
}
