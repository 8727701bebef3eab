"""The simulator: operator turns a second of static priorities, and a tandem of queues as in SimPy and Ciw.

Times are processor seconds of this process, best of several runs after a warm-up. SimPy and Ciw take part if
they are installed (``pip install simpy ciw``); all systems must agree with the closed form of the tandem.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import OperatorInput, StreamInput
from headgate.scheduling import strategy_named
from headgate.simulator import Behaviour, OnePerOperator, Result, Scenario, simulate

WANTED_TURNS_PER_S = 1_000_000
WANTED_OVER_SIMPY = 30
STATIC = ("fifo", "greedy", "chain", "mixed", "path-capacity", "segment", "simplified-segment")

ARRIVALS_PER_S = 1.0
SERVICES_PER_S = (2.0, 1.6, 1.25)


def paths(count: int, length: int, tuples: int, load: float) -> Scenario:
    """Paths of operators of random cost and selectivity, ``load`` of a processor's time in all."""
    generator = np.random.default_rng(1)
    duration_s = 1000.0
    operators, behaviours, arrivals, queries = [], {}, {}, []
    for path in range(count):
        stream = f"s{path}"
        arrivals[stream] = np.sort(generator.uniform(0, duration_s, tuples // count))
        source: StreamInput | OperatorInput = StreamInput(stream, stream, ())
        reached = 1.0
        for place in range(length):
            name = f"{path}.{place}"
            # equal shares of the load on average, whatever is left of a page
            seconds = load * duration_s / (tuples * length * reached) * generator.uniform(0.5, 1.5)
            behaviours[name] = Behaviour(seconds, generator.uniform(0.3, 1.1))
            reached *= behaviours[name].selectivity
            operators.append(Synthetic(name, (source,)))
            source = OperatorInput(name)
        queries.append(QueryDefinition(stream, (name,), SinkDefinition("none")))
    streams = tuple(StreamDefinition(stream, "synthetic", None) for stream in arrivals)
    return Scenario(Network(streams, (), tuple(operators), tuple(queries)), behaviours, arrivals)


def best_of(runs: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the quickest run, and what the last one gave; the first does not count."""
    work()
    seconds = math.inf
    for _ in range(runs):
        begin = time.process_time()
        given = work()
        seconds = min(seconds, time.process_time() - begin)
    return seconds, given


def measure_turns(tuples: int) -> dict[str, float]:
    """Turns a second on 20 paths of 5 operators, overloaded by a fifth: queues are long."""
    scenario = paths(count=20, length=5, tuples=tuples, load=1.2)
    rates = {}
    for name in STATIC:

        def run(name: str = name) -> Result:
            return simulate(scenario, strategy_named(name))

        seconds, result = best_of(3, run)
        rates[name] = sum(result.turns.values()) / seconds
        print(f"  {name:20} {rates[name] / 1e6:8.2f} M turns/s")
    return rates


@dataclass(frozen=True)
class Tandem:
    """What a system found: completions a processor second, mean number in the system, mean time in it."""

    completions_per_s: float
    mean_number: float
    mean_time_s: float


def closed_form() -> Tandem:
    """A tandem of M/M/1 queues: independent, each with rho / (1 - rho) in it."""
    number = sum(1 / (rate / ARRIVALS_PER_S - 1) for rate in SERVICES_PER_S)
    return Tandem(math.nan, number, number / ARRIVALS_PER_S)


def headgate_tandem(customers: int) -> Tandem:
    """Every operator with a processor of its own."""
    names = [f"server {i}" for i in range(len(SERVICES_PER_S))]
    sources = [StreamInput("s", "s", ()), *map(OperatorInput, names)]
    network = Network(
        (StreamDefinition("s", "synthetic", None),),
        (),
        tuple(Synthetic(name, (source,)) for name, source in zip(names, sources, strict=False)),
        (QueryDefinition("q", (names[-1],), SinkDefinition("none")),),
    )
    figures = {
        n: Behaviour(1 / rate, service="exponential") for n, rate in zip(names, SERVICES_PER_S, strict=True)
    }

    def run() -> Result:
        # drawing arrivals counts, as it does for the others
        gaps = np.random.default_rng(3).exponential(1 / ARRIVALS_PER_S, customers)
        arrivals = {"s": np.cumsum(gaps)}
        scenario = Scenario(network, figures, arrivals, processors=OnePerOperator(), fate="random")
        return simulate(scenario, strategy_named("fifo"))

    seconds, result = best_of(5, run)
    completions = sum(result.turns.values())
    return Tandem(completions / seconds, result.backlog.mean, float(result.latency_mean_s or 0))


def simpy_tandem(customers: int, runs: int = 3) -> Tandem:
    """Servers that take from a store: the quickest way to write it in SimPy that we know."""
    import simpy

    def run() -> tuple[float, float]:
        generator = np.random.default_rng(3)
        environment = simpy.Environment()
        stores = [simpy.Store(environment) for _ in (*SERVICES_PER_S, None)]
        sojourn_s = 0.0

        def source() -> Generator[Any, Any, None]:
            for gap in generator.exponential(1 / ARRIVALS_PER_S, customers).tolist():
                yield environment.timeout(gap)
                stores[0].put(environment.now)

        def server(number: int) -> Generator[Any, Any, None]:
            nonlocal sojourn_s
            get, put = stores[number].get, stores[number + 1].put
            last = number == len(SERVICES_PER_S) - 1
            for service in generator.exponential(1 / SERVICES_PER_S[number], customers).tolist():
                came = yield get()
                yield environment.timeout(service)
                if last:
                    sojourn_s += environment.now - came
                else:
                    put(came)

        environment.process(source())
        for number in range(len(SERVICES_PER_S)):
            environment.process(server(number))
        environment.run()
        return sojourn_s, environment.now

    seconds, (sojourn_s, end_s) = best_of(runs, run)
    return Tandem(customers * len(SERVICES_PER_S) / seconds, sojourn_s / end_s, sojourn_s / customers)


def ciw_tandem(customers: int, runs: int = 2) -> Tandem:
    """Three nodes in line."""
    import ciw

    nodes = len(SERVICES_PER_S)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(ARRIVALS_PER_S), *[None] * (nodes - 1)],
        service_distributions=[ciw.dists.Exponential(rate) for rate in SERVICES_PER_S],
        routing=[[1.0 if j == i + 1 else 0.0 for j in range(nodes)] for i in range(nodes)],
        number_of_servers=[1] * nodes,
    )

    def run() -> list[Any]:
        ciw.seed(3)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(customers / ARRIVALS_PER_S)
        return list(simulation.get_all_records())

    seconds, records = best_of(runs, run)
    left = {record.id_number: record.exit_date for record in records if record.node == nodes}
    came = {record.id_number: record.arrival_date for record in records if record.node == 1}
    sojourn_s = sum(left[number] - came[number] for number in left)
    return Tandem(
        len(records) / seconds, sojourn_s / (customers / ARRIVALS_PER_S), sojourn_s / max(1, len(left))
    )


def measure_tandem(customers: int) -> dict[str, Tandem]:
    """The same tandem in all systems; the slower ones get fewer customers."""
    found = {"closed form": closed_form(), "headgate": headgate_tandem(customers)}
    for name, system, share in (("SimPy", simpy_tandem, 10), ("Ciw", ciw_tandem, 20)):
        try:
            found[name] = system(customers // share)
        except ImportError:
            print(f"  {name} is not installed and left out; pip install {name.lower()}")
    for name, tandem in found.items():
        rate = "-" if math.isnan(tandem.completions_per_s) else f"{tandem.completions_per_s:,.0f}"
        print(
            f"  {name:12} {rate:>12} completions/s   mean number {tandem.mean_number:6.3f}"
            f"   mean time {tandem.mean_time_s:6.3f} s"
        )
    return found


def check(turns: dict[str, float], tandems: dict[str, Tandem]) -> list[str]:
    """What is not as it should be."""
    failed = [f"{n}: {r:,.0f} turns/s" for n, r in turns.items() if r < WANTED_TURNS_PER_S]
    exact, own = tandems["closed form"], tandems["headgate"]
    if abs(own.mean_number / exact.mean_number - 1) > 0.02:
        failed.append(f"mean number {own.mean_number:.3f}, in closed form {exact.mean_number:.3f}")
    for name in ("SimPy", "Ciw"):
        # a tenth of the customers, and heavier noise: a busy period of the slowest server is long
        if name in tandems and abs(tandems[name].mean_time_s / own.mean_time_s - 1) > 0.1:
            failed.append(
                f"mean time {tandems[name].mean_time_s:.3f} s with {name}, here {own.mean_time_s:.3f}"
            )
    if "SimPy" in tandems and own.completions_per_s < WANTED_OVER_SIMPY * tandems["SimPy"].completions_per_s:
        ratio = own.completions_per_s / tandems["SimPy"].completions_per_s
        failed.append(f"only {ratio:.1f} times SimPy")
    return failed


def main() -> None:
    """Measure, print, and fail if it is too slow or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--tuples", type=int, default=200_000, help="arrivals of the network of 100 operators"
    )
    parser.add_argument("--customers", type=int, default=1_000_000, help="arrivals of the tandem")
    parser.add_argument("--json", metavar="FILE", help="write the figures here")
    arguments = parser.parse_args()
    print("100 operators, 20 paths")
    turns = measure_turns(arguments.tuples)
    print("a tandem of three M/M/1 servers")
    tandems = measure_tandem(arguments.customers)
    if "SimPy" in tandems:
        ratio = tandems["headgate"].completions_per_s / tandems["SimPy"].completions_per_s
        print(f"  {ratio:.0f} times SimPy")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(
                {"turns_per_s": turns, "tandem": {n: vars(t) for n, t in tandems.items()}}, file, indent=2
            )
    if failed := check(turns, tandems):
        raise SystemExit("not as wanted: " + "; ".join(failed))


if __name__ == "__main__":
    main()
