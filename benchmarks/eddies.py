"""Eddies: events a second of the simulator on S3, against SimPy on the same model; 12 commuting operators.

Times are processor seconds of this process, best of several runs after a warm-up. SimPy takes part if it is
installed (``pip install simpy``). Both must have the same mean response time and queues, up to chance.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from headgate.experiments.eddies import three_selections
from headgate.routing import largest_rate
from headgate.routing.routing_network import AnyOrder, PlacedOperator, RoutingNetwork
from headgate.simulator.eddies import EddyRun
from headgate.simulator.eddies.eddy_simulation import simulate_eddy

WANTED_OVER_SIMPY = 30
WANTED_SOLVE_S = 5.0
RATE = 200.0
POLICY = "wsc"


def best_of(runs: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the quickest run, and what the last one gave; the first does not count."""
    work()
    seconds = float("inf")
    for _ in range(runs):
        begin = time.process_time()
        given = work()
        seconds = min(seconds, time.process_time() - begin)
    return seconds, given


def headgate_s3(seconds: float) -> dict[str, float]:
    """Services a second, and what came out."""
    run = EddyRun(three_selections(), POLICY, RATE, seconds)
    taken_s, found = best_of(3, lambda: simulate_eddy(run))
    services = sum(found.visits.values())
    return {"services_per_s": services / taken_s, "art": found.art, **found.queue}


def simpy_s3(seconds: float) -> dict[str, float]:
    """The same: learnt statistics published after 40 tuples or 5 seconds, weights by the squared benefit."""
    import simpy

    operators = three_selections().operators
    names = list(operators)

    def run() -> tuple[int, float, int, dict[str, float]]:
        generator = np.random.default_rng(5)
        environment = simpy.Environment()
        stores = {name: simpy.Store(environment) for name in names}
        mean_s = {name: operators[name].per_tuple / operators[name].resource for name in names}
        known = {name: [0.5, mean_s[name]] for name in names}
        length, area, changed = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        noted = {name: [0.0, 0, 0, 0.0] for name in names}
        totals = {"services": 0, "response": 0.0, "delivered": 0}

        def grow(name: str, change: int) -> None:
            area[name] += length[name] * (environment.now - changed[name])
            changed[name] = environment.now
            length[name] += change

        def publish(name: str) -> None:
            _, done, out, busy = noted[name]
            if done:
                known[name][0] = 0.8 * known[name][0] + 0.2 * out / done
                known[name][1] = 0.8 * known[name][1] + 0.2 * busy / done
            noted[name] = [environment.now, 0, 0, 0.0]

        def dispatch(birth: float, left: tuple[str, ...]) -> None:
            if not left:
                totals["response"] += environment.now - birth
                totals["delivered"] += 1
                return
            weights = [(max(0.0, 1 - known[name][0]) / known[name][1]) ** 2 for name in left]
            chance = generator.random() * sum(weights)
            place = 0
            while place < len(left) - 1 and chance >= weights[place]:
                chance -= weights[place]
                place += 1
            grow(left[place], 1)
            stores[left[place]].put((birth, left[:place] + left[place + 1 :]))

        def source() -> Generator[Any, Any, None]:
            while True:
                yield environment.timeout(generator.exponential(1 / RATE))
                dispatch(environment.now, tuple(names))

        def server(name: str) -> Generator[Any, Any, None]:
            selectivity = operators[name].selectivity
            while True:
                birth, left = yield stores[name].get()
                service = generator.exponential(mean_s[name])
                yield environment.timeout(service)
                grow(name, -1)
                totals["services"] += 1
                passes = generator.random() < selectivity
                noted[name][1] += 1
                noted[name][2] += passes
                noted[name][3] += service
                if noted[name][1] >= 40:
                    publish(name)
                if passes:
                    dispatch(birth, left)

        def timer(name: str) -> Generator[Any, Any, None]:
            while True:
                yield environment.timeout(max(1e-6, noted[name][0] + 5 - environment.now))
                if environment.now - noted[name][0] >= 5 * (1 - 1e-9):
                    publish(name)

        environment.process(source())
        for name in names:
            environment.process(server(name))
            environment.process(timer(name))
        environment.run(until=seconds)
        for name in names:
            grow(name, 0)
        queues = {name: area[name] / seconds for name in names}
        return totals["services"], totals["response"], totals["delivered"], queues

    taken_s, (services, response, delivered, queues) = best_of(2, run)
    return {"services_per_s": services / taken_s, "art": response / delivered, **queues}


def solve_twelve() -> float:
    """Processor seconds to find the largest rate of 12 commuting operators: 479 million orders."""
    generator = np.random.default_rng(1)
    operators = {
        f"o{n}": PlacedOperator(f"o{n}", 0.3, generator.uniform(0.1, 0.9), generator.uniform(5, 20))
        for n in range(12)
    }
    network = RoutingNetwork({"s": 1.0}, operators, {"p": AnyOrder("p", "s", tuple(operators))})
    return best_of(3, lambda: largest_rate(network).mdr)[0]


def check(found: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    failed = []
    if found["twelve_s"] > WANTED_SOLVE_S:
        failed.append(f"12 operators take {found['twelve_s']:.1f} s")
    own, other = found["headgate"], found.get("simpy")
    if other:
        if own["services_per_s"] < WANTED_OVER_SIMPY * other["services_per_s"]:
            failed.append(f"only {own['services_per_s'] / other['services_per_s']:.1f} times SimPy")
        for figure in ("art", "op1", "op2", "op3"):
            if abs(own[figure] / other[figure] - 1) > 0.15:
                failed.append(f"{figure}: {own[figure]:.3f}, in SimPy {other[figure]:.3f}")
    return failed


def main() -> None:
    """Measure, print, and fail if it is too slow or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20_000.0, help="virtual time of a run")
    parser.add_argument("--json", metavar="FILE", help="write the figures here")
    arguments = parser.parse_args()
    found: dict[str, Any] = {"twelve_s": solve_twelve(), "headgate": headgate_s3(arguments.seconds)}
    try:
        found["simpy"] = simpy_s3(arguments.seconds / 10)
    except ImportError:
        print("  SimPy is not installed and left out; pip install simpy")
    print(f"largest rate of 12 commuting operators: {found['twelve_s']:.3f} s")
    for name in ("headgate", "simpy"):
        if name in found:
            row = found[name]
            queues = "  ".join(f"{op} {row[op]:.2f}" for op in ("op1", "op2", "op3"))
            print(f"  {name:10} {row['services_per_s']:>12,.0f} services/s  art {row['art']:.4f} s  {queues}")
    if "simpy" in found:
        ratio = found["headgate"]["services_per_s"] / found["simpy"]["services_per_s"]
        print(f"  {ratio:.0f} times SimPy")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)
    if failed := check(found):
        raise SystemExit("not as wanted: " + "; ".join(failed))


if __name__ == "__main__":
    main()
