"""The work of ``simulate`` and ``route``: workloads, CQL files and routing networks in virtual time.

Of a CQL file, operators come from the plan, statistics from a profile, arrivals from options.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from headgate.cli.script import Script
from headgate.cli.working import Working
from headgate.errors import SetupError, known_names, nearest
from headgate.formats.document import naming
from headgate.formats.outputs import check_file
from headgate.formats.plain_json import json_text
from headgate.formats.quantity import RATE
from headgate.model.network import Network
from headgate.model.uniform_hash import key_of
from headgate.planning.lower import Stages
from headgate.report.plots import plot_backlogs
from headgate.report.screen import clean, screen, shown, table_of
from headgate.routing import evaluate, largest_rate, least_response_time, router_names
from headgate.routing.solution import Solution
from headgate.scheduling import strategy_named, strategy_names
from headgate.session.placed import router_from
from headgate.simulator import Behaviour, Pool, Result, Scenario, simulate
from headgate.simulator.eddies import EddyResult
from headgate.simulator.routing_file import eddy_run, given_rate, read_network
from headgate.simulator.scenario import check_entries, entries_of, total_inputs
from headgate.simulator.workload_file import WorkloadFile, is_workload, read_workload
from headgate.statistics.completeness import (
    NoRate,
    Origin,
    idle_operators,
    operator_profiles,
    stream_rates,
)
from headgate.statistics.profile_file import FILE_NAME, Measured, beside
from headgate.workload.processes import Listed, Process, Trace, process_named

# entries of a run of which --json lists every change: some hundred megabytes
_MOST_LISTED = 2e6
# below the table of weights
_WEIGHT = "weight: of the tuples that leave FROM and may go to several operators, the share that goes to TO"

_clean = partial(clean, digits=12)


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
        raise SetupError(f"--plot draws PNG; write {plot.with_suffix('.png') if plot.name else 'FILE.png'}")
    if plot is not None:
        check_file("--plot", plot)
    results = []
    with Working(f"reading {file}") as working:
        workload = _workload(file, options, seed)
        with naming(str(file)):
            _check_listed(workload.scenario, as_json)
        for number, name in enumerate(names, start=1):
            working.enter(f"simulating {name}, {number} of {len(names)}")
            chosen = strategy_named(workload.strategy_text(name))
            results.append(simulate(workload.scenario, chosen, report=working.report))
    for result in results:
        if shed := sum(result.shed.values()):
            print(f"{result.strategy} shed {shed:,} tuples beyond its memory limit", file=sys.stderr)
    if plot is not None:
        try:
            plot_backlogs(_ranked(results), plot, f"Backlog of {file.name}")
        except OSError as error:
            raise SetupError(f"--plot {plot} cannot be written: {error.strerror}") from None
        print(f"drew {plot}", file=sys.stderr)
    if as_json:
        _print_json([_result_json(result) for result in results], strategy)
    else:
        screen().print(_results_table(results))


def _check_listed(scenario: Scenario, as_json: bool) -> None:
    """Refuse to list every change of a run that has very many."""
    if as_json and scenario.entries > _MOST_LISTED:
        many = f"--json lists every change of the backlog, here about {2 * scenario.entries:.2g}"
        raise SetupError(f"{many}; leave it out, or simulate fewer tuples")


def simulate_policies(file: Path, policy: str, rates: list[str], seed: int, as_json: bool) -> None:
    """Run a routing network under a policy, under a router at 'file.py:ClassName', or under every policy."""
    names = router_names() if policy == "all" else (policy,)
    # raises if the policy is unknown, before the work begins
    routers = {name: router_from(name) for name in names}
    read = read_network(file)
    total_rate, results = _network_rate(rates), []
    with naming(str(file)), Working("simulating") as working:
        rate = given_rate(read.network, total_rate)
        # policies known by name are compiled
        chosen = [name if name in router_names() else router for name, router in routers.items()]
        runs = [eddy_run(read, router, rate, seed) for router in chosen]
        # takes a moment to import
        from headgate.simulator.eddies.eddy_simulation import simulate_eddy

        for number, run in enumerate(runs, start=1):
            working.enter(f"simulating {run.policy_name}, {number} of {len(runs)}")
            results.append(simulate_eddy(run, working.report))
    if as_json:
        _print_json([_eddy_json(result) for result in results], policy)
    else:
        screen().print(_eddies_table(results))


def _print_json(documents: list[dict[str, Any]], name: str) -> None:
    print(json_text(documents if name == "all" else documents[0], indent=None))


def solve(file: Path, optimize: str | None, rate: float | None, as_json: bool) -> None:
    """Print the best routing of a network: least response time, largest rate, or by the file's weights."""
    read = read_network(file)
    if optimize is None and not read.weights:
        raise SetupError(f"{file} gives no weights; add --optimize art or --optimize mdr, or [weights.FROM]")
    with naming(str(file)), Working("searching for the best routing"):
        if optimize == "mdr":
            solution = largest_rate(read.network)
        elif optimize == "art":
            solution = least_response_time(read.network, given_rate(read.network, rate))
        else:
            solution = evaluate(read.network, read.weights)
        at_rate = rate or read.network.total_rate or solution.mdr
        document = _route_json(solution, at_rate)
    if as_json:
        print(json_text(document, indent=None))
    else:
        _print_routing(solution, at_rate)


def _network_rate(texts: list[str]) -> float | None:
    if not texts:
        return None
    if len(texts) > 1:
        raise SetupError("--rate is given twice; a network has one rate, of all its sources together")
    rate: float = RATE.read(texts[0], "--rate ")
    return rate


def _workload(file: Path, options: MeasuredOptions, seed: int) -> WorkloadFile:
    if is_workload(file):
        names = {"rates": "--rate", "traces": "--trace", "for_s": "--for"}
        for field, value in vars(options).items():
            if value:
                name = names.get(field, f"--{field}")
                raise SetupError(f"{name} is for CQL files; {file} contains that itself")
        return read_workload(file, seed)
    network, measured, path = profiled_network(file, options.profile)
    note_idle(measured, network)
    profiles = operator_profiles(measured, network, Origin(str(path), f"headgate profile {file}"))
    processes = _processes(network, measured, options)
    # before times are drawn, which may take long
    behaviours = {name: Behaviour(own.seconds_per_tuple, own.selectivity) for name, own in profiles.items()}
    expected = {stream: process.expected for stream, process in processes.items()}
    check_entries(entries_of(total_inputs(network, behaviours, expected, {}), "page"))
    scenario = Scenario.from_profiles(
        network,
        profiles,
        {name: process.times_s(arrivals_seed(seed, name)) for name, process in processes.items()},
        processors=Pool(options.processors or 1),
        seed=seed,
    )
    return WorkloadFile(scenario)


def profiled_network(file: Path, profile: Path | None) -> tuple[Network, Measured, Path]:
    """The operators of a script, the profile given or else the one beside the script, and its path."""
    network = Stages.of(Script.read(file).catalog()).lowered
    path = beside(file) if profile is None else profile / FILE_NAME if profile.is_dir() else profile
    if profile is None and not path.is_file():
        raise SetupError(
            f"{file} has no profile; measure one with: headgate profile {file}, or add --profile "
            "with a file or the checkpoint of an earlier run"
        )
    return network, Measured.read(path), path


def note_idle(measured: Measured, network: Network) -> None:
    """Say which operators were not measured and count as idle, on standard error."""
    idle = idle_operators(measured, network)
    if idle:
        print(f"not measured, as no tuple reached it: {', '.join(idle)}; it counts as idle", file=sys.stderr)


def _processes(network: Network, measured: Measured, options: MeasuredOptions) -> dict[str, Process]:
    given = given_rates(options.rates, network)
    traces = by_stream("--trace", options.traces, network)
    try:
        # those of traced streams are not needed
        rates = stream_rates(measured, network, {**dict.fromkeys(traces, 0.0), **given})
    except NoRate as error:
        raise SetupError(f"{error}; add --rate {error.stream}=1000") from None
    processes: dict[str, Process] = {}
    for stream in network.streams:
        if stream in traces:
            processes[stream] = Trace(file=traces[stream])
        elif rates[stream] == 0:
            processes[stream] = Listed(times=())
        else:
            try:
                settings = {"rate": rates[stream], "until": options.for_s or 10.0}
                processes[stream] = process_named("poisson", settings)
            except SetupError as error:
                right = f"add a lower --rate {stream}=N, or a shorter --for"
                raise SetupError(f"stream {stream}: {error}; {right}") from None
    return processes


def arrivals_seed(seed: int, stream: str) -> int:
    """Streams differ: each has a seed of its own."""
    return key_of(seed, "arrivals", stream) >> 1


def by_stream(option: str, given: Sequence[str], network: Network) -> Mapping[str, str]:
    """The values of an option that takes STREAM=VALUE."""
    found: dict[str, str] = {}
    for text in given:
        stream, equals, value = text.partition("=")
        if not equals or not value:
            raise SetupError(f"{option} {text} names no stream; write {option} STREAM=VALUE")
        if stream not in network.streams:
            known = f"{nearest(stream, network.streams)}known: {known_names(network.streams)}"
            raise SetupError(f"{option}: no query reads a stream {stream}; {known}")
        if stream in found:
            raise SetupError(f"{option} {stream} is given twice; keep one of them")
        found[stream] = value
    return found


def given_rates(texts: Sequence[str], network: Network) -> dict[str, float]:
    """The values of ``--rate``: tuples per second, by stream."""
    given = by_stream("--rate", texts, network).items()
    return {stream: RATE.read(value, f"--rate {stream}=") for stream, value in given}


def _result_json(result: Result) -> dict[str, Any]:
    """Lists hold ``[time, size]`` and ``[time, amount, latency]``."""
    backlog, outputs = result.backlog, result.outputs
    latency = {"mean": result.latency_mean_s, "p99": result.latency_p99_s, "max": result.latency_max_s}
    return {
        "strategy": result.strategy,
        "backlog": [[t, _clean(size)] for t, size in _rows(backlog.times_s, backlog.sizes)],
        "peak": _clean(backlog.peak),
        "mean": _clean(backlog.mean),
        "latency": {name: _clean(value) for name, value in latency.items()},
        "outputs": [
            [t, _clean(amount), latency_s]
            for t, amount, latency_s in _rows(outputs.times_s, outputs.amounts, outputs.latencies_s)
        ],
    }


def _ranked(results: Sequence[Result]) -> list[Result]:
    """Least peak backlog first; among equals least mean backlog, then least mean latency."""
    return sorted(
        results,
        key=lambda r: (_clean(r.backlog.peak), _clean(r.backlog.mean), _clean(r.latency_mean_s) or 0.0),
    )


def _results_table(results: Sequence[Result]) -> Table:
    """One row per strategy, the best one first."""
    rows = []
    for result in _ranked(results):
        backlog = result.backlog
        latencies = (result.latency_mean_s, result.latency_p99_s, result.latency_max_s)
        values = (backlog.peak, backlog.peak_bytes, backlog.mean, *latencies, result.throughput_per_s)
        rows.append((result.strategy, *(shown(value, digits=4) for value in values)))
    backlog_headings = ("peak backlog (tuples)", "peak (bytes)", "mean backlog (tuples)")
    latency_headings = ("latency mean (s)", "latency p99 (s)", "latency max (s)")
    return _ranking(rows, "strategy", *backlog_headings, *latency_headings, "output (tuples/s)")


def _eddy_json(result: EddyResult) -> dict[str, Any]:
    values = {name: value for name, value in vars(result).items() if name != "overloaded_s"}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def _eddies_table(results: Sequence[EddyResult]) -> Table:
    """One row per policy, least mean response time first."""
    counts_of = ("delivered (tuples)", "longest queue (tuples)", "splits (times)", "slides (times)")
    headings = ("response mean (s)", *counts_of, "merges (times)")
    rows = []
    for result in sorted(results, key=lambda result: math.inf if result.art is None else result.art):
        longest = max(result.longest_queue.values())
        counts = (result.delivered, longest, result.splits, result.slides, result.merges)
        art = "-" if result.art is None else f"{result.art:,.4g}"
        rows.append((result.policy, art, *(f"{count:,}" for count in counts)))
    return _ranking(rows, "policy", *headings)


def _route_json(solution: Solution, at_rate: float) -> dict[str, Any]:
    """One JSON object; ``art`` and ``utilisation`` hold at this rate."""
    histories = solution.histories
    return {
        "mdr": solution.mdr,
        "art": solution.art(at_rate),
        "rate": at_rate,
        "gap": solution.gap,
        "weights": {at: dict(row) for at, row in histories.weights.items()},
        "utilisation": solution.utilisation(at_rate),
        "resources": dict(solution.resources),
        "by_history": [
            {"plan": c.plan, "done": list(c.done), "rate": c.rate * at_rate, "weights": dict(c.weights)}
            for c in histories.choices
        ],
        "paths": {
            plan: [{"order": list(order), "part": part} for order, part in orders.items()]
            for plan, orders in solution.flows.items()
        },
    }


def _print_routing(solution: Solution, at_rate: float) -> None:
    """Rates and response time, operators, weights."""
    art = solution.art(at_rate)
    summary = table_of("", "", show_header=False)
    summary.add_row("largest rate (tuples/s)", f"{solution.mdr:,.6g}")
    at = f"mean response time at {at_rate:,.6g} tuples/s (s)"
    summary.add_row(at, "-, some queue grows" if art is None else f"{art:,.4g}")
    if solution.gap:
        summary.add_row("largest improvement still possible (share)", f"{solution.gap:.2g}")
    operators = table_of("operator", "resource (units/s)", "utilisation (share)")
    for name, used in solution.utilisation(at_rate).items():
        operators.add_row(name, f"{solution.resources[name]:,.4g}", f"{used:.3f}")
    weights = table_of("from", "to", "weight (share)")
    for at, row in solution.histories.weights.items():
        for number, (to, weight) in enumerate(row.items()):
            weights.add_row("" if number else at, to, f"{weight:.4f}")
    console = screen()
    for table in (summary, operators, weights):
        console.print(table)
    console.print(_WEIGHT, soft_wrap=True)


def _ranking(rows: Sequence[Sequence[str]], what: str, *headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column(what, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    for place, row in enumerate(rows, start=1):
        table.add_row(str(place), *row)
    return table


def _rows(*columns: Any) -> list[tuple[float, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))
