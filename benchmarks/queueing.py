"""Queueing formulas: evaluations a second, and the time of a percentile; means compared with those of Ciw.

Times are processor seconds of this process, best of several runs. Ciw takes part if it is installed
(``pip install ciw``): means and percentiles of one simulated queue beside what the formulas say.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.queueing import MG1, md1

WANTED_PER_S = 100_000
WANTED_PERCENTILE_MS = 1.0
# utilisation 0.75: at a higher one a simulation of minutes says little
RATE, SERVICE = 0.5, [(0.5, 1.0), (0.5, 2.0)]


def best_of(runs: int, work: Callable[[], Any]) -> float:
    """Processor seconds of the quickest run."""
    seconds = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def means(count: int) -> None:
    """A queue built anew each time, and the means of it."""
    for number in range(count):
        queue = MG1(rate=RATE + number * 1e-9, service=SERVICE)
        _ = queue.utilisation, queue.mean_wait, queue.mean_time_in_system, queue.mean_in_system


def ciw_rows(customers: int) -> dict[str, float] | None:
    """What Ciw simulates of the same queue; None if it is not installed."""
    try:
        import ciw
    except ImportError:
        return None
    seconds, chances = [s for _, s in SERVICE], [p for p, _ in SERVICE]
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(RATE)],
        service_distributions=[ciw.dists.Pmf(seconds, chances)],
        number_of_servers=[1],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(customers)
    waits = np.array([record.waiting_time for record in simulation.get_all_records()])[customers // 20 :]
    return {
        "mean_wait": float(waits.mean()),
        **{f"wait_p{p}": float(np.percentile(waits, p)) for p in (50, 90, 99)},
    }


def measured() -> dict[str, Any]:
    """All figures."""
    count = 50_000
    found: dict[str, Any] = {"means_per_s": count / best_of(5, lambda: means(count))}
    queues = {
        "M/D/1, load 0.9": lambda: md1(0.9, 1.0),
        "two times, load 0.75": lambda: MG1(RATE, SERVICE),
        "two times without a common unit": lambda: MG1(0.4, [(0.5, 1.0), (0.5, 3**0.5)]),
    }
    for name, made in queues.items():
        known = made()
        known.wait_percentile(0.99)
        shares = np.linspace(0.5, 0.9999, 500).tolist()
        again_s = best_of(
            5, lambda known=known, shares=shares: [known.wait_percentile(p) for p in shares]
        ) / len(shares)
        first_s = best_of(20, lambda made=made: made().wait_percentile(0.99))
        found[f"percentile_ms of {name}"] = {"first": first_s * 1e3, "another": again_s * 1e3}
    queue = MG1(RATE, SERVICE)
    ours = {
        "mean_wait": queue.mean_wait,
        **{f"wait_p{p}": queue.wait_percentile(p / 100) for p in (50, 90, 99)},
    }
    if (theirs := ciw_rows(200_000)) is not None:
        found["beside Ciw"] = {key: {"formula": ours[key], "Ciw": theirs[key]} for key in ours}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    found = measured()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"means: {found.pop('means_per_s'):,.0f} queues a second (wanted: {WANTED_PER_S:,})")
    beside = found.pop("beside Ciw", None)
    for name, figure in found.items():
        print(
            f"{name.replace('percentile_ms of', 'percentile of')}: {figure['first']:.3f} ms the first time, "
            f"{figure['another']:.4f} ms after (wanted: {WANTED_PERCENTILE_MS:g})"
        )
    if beside is None:
        print("Ciw is not installed: nothing to compare with")
        return
    for name, pair in beside.items():
        print(f"{name}: {pair['formula']:.4f} by formula, {pair['Ciw']:.4f} by Ciw")


if __name__ == "__main__":
    main()
