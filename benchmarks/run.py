"""Run all benchmarks, one after the other: ``make bench``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "many_queries.py",
    "window_join.py",
    "latency.py",
    "sliding.py",
    "day.py",
    "selections.py",
    "cold_start.py",
    "sharing.py",
    "placed_probes.py",
    "small_writes.py",
    "cross_products.py",
    "simulator.py",
    "queueing.py",
    "optimizer.py",
    "eddies.py",
    "dashboard.py",
)


def main() -> None:
    """Each in a JVM of its own, so that none warms up another."""
    here = Path(__file__).parent
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, str(here / name)], check=True)


if __name__ == "__main__":
    main()
