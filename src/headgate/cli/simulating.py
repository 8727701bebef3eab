"""The work of ``simulate`` and ``route``: workloads, CQL files and routing networks in virtual time.

Of a CQL file, operators come from the plan, statistics from a profile, arrivals from options.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.cli.script import Script
from headgate.errors import SetupError, known_names
from headgate.model.network import Network
from headgate.model.uniform_hash import key_of
from headgate.placed import router_from
from headgate.planning.lower import Stages
from headgate.report.simulated import (
    eddies_table,
    eddy_json,
    result_json,
    results_table,
    route_json,
    route_tables,
)
from headgate.report.tables import screen
from headgate.routing import evaluate, largest_rate, least_response_time, router_names
from headgate.scheduling import strategy_named, strategy_names
from headgate.simulator import Pool, Scenario, simulate
from headgate.simulator.routing_file import eddy_run, given_rate, read_network
from headgate.simulator.workload_file import WorkloadFile, is_workload, read_workload
from headgate.statistics.profile_file import FILE_NAME, Measured, beside
from headgate.workload.processes import Listed, TimesProcess, process_named


@dataclass(frozen=True)
class MeasuredOptions:
    """Options for simulating a CQL file: ``rates`` and ``traces`` are ``STREAM=VALUE`` each."""

    profile: Path | None
    rates: Sequence[str]
    traces: Sequence[str]
    for_s: float | None
    processors: int | None


def simulate_strategies(
    file: Path, strategy: str, options: MeasuredOptions, seed: int, plot: Path | None, as_json: bool
) -> None:
    """Run a workload or the queries of a CQL file under a strategy, or under all."""
    names = strategy_names() if strategy == "all" else (strategy,)
    # raises if there is none of that name, before the work begins
    for name in names:
        strategy_named(name)
    if plot is not None and plot.suffix.lower() != ".png":
        raise SetupError(f"--plot draws PNG; write {plot.with_suffix('.png')}")
    workload = _workload(file, options, seed)
    results = [simulate(workload.scenario, strategy_named(workload.strategy_text(name))) for name in names]
    if plot is not None:
        from headgate.report.plots import plot_backlogs

        try:
            plot_backlogs(results, plot, f"Backlog of {file.name}")
        except OSError as error:
            raise SetupError(f"--plot {plot} cannot be written: {error.strerror}") from None
        print(f"drew {plot}", file=sys.stderr)
    if as_json:
        _print_json([result_json(result) for result in results], strategy)
    else:
        screen().print(results_table(results))


def simulate_policies(file: Path, policy: str, rates: list[str], seed: int, as_json: bool) -> None:
    """Run a routing network under a policy, under a router at 'file.py:ClassName', or under every policy."""
    names = router_names() if policy == "all" else (policy,)
    # raises if the policy is unknown, before the work begins
    routers = {name: router_from(name) for name in names}
    read = read_network(file)
    rate = given_rate(read.network, _network_rate(rates), str(file))
    # policies known by name are compiled
    policies = [name if name in router_names() else router for name, router in routers.items()]
    runs = [eddy_run(read, chosen, rate, seed) for chosen in policies]
    # takes a moment to import
    from headgate.simulator.eddies.eddy_simulation import simulate_eddy

    results = [simulate_eddy(run) for run in runs]
    if as_json:
        _print_json([eddy_json(result) for result in results], policy)
    else:
        screen().print(eddies_table(results))


def _print_json(documents: list[dict[str, Any]], name: str) -> None:
    print(json.dumps(documents if name == "all" else documents[0]))


def solve(file: Path, optimize: str | None, rate: float | None, as_json: bool) -> None:
    """Print the best routing of a network: least response time, largest rate, or by the file's weights."""
    read = read_network(file)
    if optimize == "mdr":
        solution = largest_rate(read.network)
    elif optimize == "art":
        solution = least_response_time(read.network, given_rate(read.network, rate, str(file)))
    elif read.weights:
        solution = evaluate(read.network, read.weights)
    else:
        raise SetupError(f"{file} gives no weights; add --optimize art or --optimize mdr, or [weights.FROM]")
    at_rate = rate or read.network.total_rate or solution.mdr
    if as_json:
        print(json.dumps(route_json(solution, at_rate)))
    else:
        for table in route_tables(solution, at_rate):
            screen().print(table)


def _network_rate(texts: list[str]) -> float | None:
    if not texts:
        return None
    if len(texts) > 1:
        raise SetupError("--rate is given twice; a network has one rate, of all its sources together")
    try:
        rate = float(texts[0])
    except ValueError:
        raise SetupError(f"--rate {texts[0]} is no number; write --rate 220") from None
    if not 0 < rate < float("inf"):
        raise SetupError(f"--rate {texts[0]} is out of range; write a number above 0")
    return rate


def _workload(file: Path, options: MeasuredOptions, seed: int) -> WorkloadFile:
    if is_workload(file):
        names = {"rates": "--rate", "traces": "--trace", "for_s": "--for"}
        for field, value in vars(options).items():
            if value:
                name = names.get(field, f"--{field}")
                raise SetupError(f"{name} is for CQL files; {file} contains that itself")
        return read_workload(file, seed)
    network = Stages.of(Script.read(file).catalog()).lowered
    path = profile_path(file, options.profile)
    measured = Measured.read(path)
    scenario = Scenario.from_profiles(
        network,
        measured.of(tuple(network.operators), str(path)),
        _arrivals(network, measured, options, seed),
        processors=Pool(options.processors or 1),
        seed=seed,
    )
    return WorkloadFile(scenario)


def profile_path(file: Path, given: Path | None) -> Path:
    """The profile given, or else the one beside the script."""
    if given is not None:
        return given / FILE_NAME if given.is_dir() else given
    path = beside(file)
    if not path.is_file():
        raise SetupError(
            f"{file} has no profile; measure one with: headgate profile {file}, or add --profile "
            "with a file or the checkpoint of an earlier run"
        )
    return path


def _arrivals(network: Network, measured: Measured, options: MeasuredOptions, seed: int) -> dict[str, Any]:
    rates = {**measured.tuples_per_s, **given_rates(options.rates, network)}
    traces = by_stream("--trace", options.traces, network)
    arrivals = {}
    process: TimesProcess
    for stream in network.streams:
        if stream in traces:
            process = process_named("trace", {"file": traces[stream]})
        elif (rate := known_rate(rates, stream)) == 0:
            process = Listed(())
        else:
            process = process_named("poisson", {"rate": rate, "until": options.for_s or 10.0})
        arrivals[stream] = process.times_s(arrivals_seed(seed, stream))
    return arrivals


def arrivals_seed(seed: int, stream: str) -> int:
    """Streams differ: each has a seed of its own."""
    return key_of(seed, "arrivals", stream) >> 1


def known_rate(rates: Mapping[str, float], stream: str) -> float:
    if stream not in rates:
        raise SetupError(f"no rate of stream {stream} is known; add --rate {stream}=1000")
    return rates[stream]


def by_stream(option: str, given: Sequence[str], network: Network) -> Mapping[str, str]:
    """The values of an option that takes STREAM=VALUE."""
    found = {}
    for text in given:
        stream, equals, value = text.partition("=")
        if not equals or not value:
            raise SetupError(f"{option} {text} names no stream; write {option} STREAM=VALUE")
        if stream not in network.streams:
            known = known_names(list(network.streams))
            raise SetupError(f"{option}: no query reads a stream {stream}; known: {known}")
        found[stream] = value
    return found


def given_rates(texts: Sequence[str], network: Network) -> dict[str, float]:
    """The values of ``--rate``: tuples per second, by stream."""
    rates = {}
    for stream, value in by_stream("--rate", texts, network).items():
        try:
            rates[stream] = float(value)
        except ValueError:
            rates[stream] = 0.0
        if not 0 < rates[stream] < float("inf"):
            right = f"write tuples per second, as in {stream}=1000"
            raise SetupError(f"--rate {stream}={value} is no rate; {right}")
    return rates
