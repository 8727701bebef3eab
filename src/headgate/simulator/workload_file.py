"""Workload files: streams with their arrivals, operators and queries in TOML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from headgate.errors import known_names
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Input, OperatorInput, StreamInput, Synthetic
from headgate.model.uniform_hash import key_of
from headgate.scheduling import strategy_named
from headgate.simulator.scenario import Behaviour, OnePerOperator, Pool, Scenario
from headgate.simulator.toml_table import Table, is_number, quote, toml_content
from headgate.workload.processes import Times, check_sorted, process_named, process_names

_ARRIVALS = 'a list of times, or { process = "poisson", rate = 10, until = 100 }'
_KEYS = ("time_unit", "processors", "servers", "fate", "streams", "operators", "queries", "strategies")
# in full and in short
_RATIO = ("output_size_ratio", "size_ratio")
_OPERATOR_KEYS = ("input", "inputs", "seconds", "selectivity", *_RATIO, "ordered", "service")
_ANY_LINE = re.MULTILINE | re.IGNORECASE
_STREAM = '[streams.NAME] with arrivals = [0, 1, 2] or { process = "poisson", rate = 10, until = 100 }'
_OPERATOR = '[operators.NAME] with input = "STREAM", seconds = 1 and selectivity = 0.5'
_QUERY = '[queries.NAME] with output = "OPERATOR"'


@dataclass(frozen=True)
class WorkloadFile:
    """A workload, and the settings of strategies in its file."""

    scenario: Scenario
    strategy_settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def strategy_text(self, text: str) -> str:
        """A strategy as ``strategy_named`` reads it, with the settings of the file."""
        name, plus, wrappers = text.partition("+")
        return f"{_with(name, self.strategy_settings.get(name, {}))}{plus}{wrappers}"


def _with(name: str, settings: Mapping[str, float]) -> str:
    written = ",".join(f"{key}={value!r}" for key, value in settings.items())
    return f"{name}:{written}" if written else name


def is_workload(path: Path) -> bool:
    """Whether a file is a workload rather than CQL, by its name or else by its text."""
    if path.suffix.lower() in (".sql", ".cql"):
        return False
    if path.suffix.lower() == ".toml" or not path.is_file():
        return True
    return not re.search(r"^\s*CREATE\s", path.read_text(encoding="utf-8", errors="replace"), _ANY_LINE)


def read_workload(path: Path, seed: int = 0) -> WorkloadFile:
    """Read and check a file; ``seed`` decides random arrivals and results."""
    whole = Table(toml_content(path), str(path)).only(*_KEYS)
    streams = whole.tables("streams", _STREAM, "arrivals", "bytes")
    operators = whole.tables("operators", _OPERATOR, *_OPERATOR_KEYS)
    for name in operators:
        if name in streams:
            raise whole.error(f"operators.{name}", "has the name of a stream; choose another")
    with whole.errors():
        scenario = Scenario(
            network=_network(whole, streams, operators),
            behaviours={name: _behaviour(table) for name, table in operators.items()},
            arrivals_s={name: _arrivals(table, name, path, seed) for name, table in streams.items()},
            bytes_per_tuple={n: table.number("bytes", 64.0, above=True) for n, table in streams.items()},
            time_unit_s=whole.number("time_unit", None, above=True),
            processors=_processors(whole),
            fate=whole.choice("fate", ("page", "random")),
            seed=seed,
        )
    return WorkloadFile(scenario, _strategy_settings(whole))


def _behaviour(table: Table) -> Behaviour:
    table.one_of(*_RATIO, "are the same")
    return Behaviour(
        seconds=table.number("seconds"),
        selectivity=table.number("selectivity", 1.0),
        size_ratio=table.number(_RATIO[0] if _RATIO[0] in table else _RATIO[1], 1.0, above=True),
        service=table.choice("service", ("constant", "exponential")),
    )


def _network(whole: Table, streams: Mapping[str, Table], operators: Mapping[str, Table]) -> Network:
    inputs = {name: _inputs(table, streams, operators) for name, table in operators.items()}
    below = {name: [i.operator for i in own if isinstance(i, OperatorInput)] for name, own in inputs.items()}
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise whole.error("operators", f"form a cycle: {circle}; break it") from None
    for name, table in operators.items():
        if table.flag("ordered") and len(inputs[name]) < 2:
            raise table.error("ordered", "needs several inputs; one input is in order anyway")
    return Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in streams),
        (),
        tuple(Synthetic(name, inputs[name], table.flag("ordered")) for name, table in operators.items()),
        _queries(whole, operators, below),
    )


def _inputs(table: Table, streams: Mapping[str, Table], operators: Mapping[str, Table]) -> tuple[Input, ...]:
    table.one_of("input", "inputs")
    key = "inputs" if "inputs" in table else "input"
    found: list[Input] = []
    for name in table.names(key, 'the name of a stream or an operator, or inputs = ["a", "b"]'):
        if name in streams:
            found.append(StreamInput(name, name, ()))
        elif name in operators:
            found.append(OperatorInput(name))
        else:
            known = known_names([*streams, *operators])
            raise table.error(key, f"= {quote(name)} is not a stream or operator; known: {known}")
    return tuple(found)


def _queries(
    whole: Table, operators: Mapping[str, Table], below: Mapping[str, list[str]]
) -> tuple[QueryDefinition, ...]:
    if "queries" not in whole:
        read = {name for names in below.values() for name in names}
        last = [name for name in operators if name not in read]
        return tuple(QueryDefinition(name, (name,), SinkDefinition("none")) for name in last)
    queries = []
    for name, table in whole.tables("queries", _QUERY, "output", "latency").items():
        outputs = table.names("output", "the name of an operator")
        for output in outputs:
            if output not in operators:
                known = known_names(list(operators))
                raise table.error("output", f"= {quote(output)} is not an operator; known: {known}")
        latency_s = table.number("latency", None, above=True)
        queries.append(QueryDefinition(name, outputs, SinkDefinition("none"), latency_s))
    return tuple(queries)


def _processors(whole: Table) -> Pool | OnePerOperator:
    processors = whole.whole("processors", default=1, least=1)
    if whole.choice("servers", ("pool", "each")) == "pool":
        return Pool(processors)
    if "processors" in whole:
        raise whole.error("processors", 'has no meaning with servers = "each"; keep one of them')
    return OnePerOperator()


def _strategy_settings(whole: Table) -> dict[str, dict[str, float]]:
    if "strategies" not in whole:
        return {}
    settings = {}
    for name, table in whole.tables("strategies", "[strategies.NAME] with its settings").items():
        settings[name] = {key: table.number(key, least=float("-inf")) for key in table.keys}
        with whole.errors(f"strategies.{name}:"):
            strategy_named(_with(name, settings[name]))
    return settings


def _arrivals(table: Table, stream: str, path: Path, seed: int) -> Times:
    """Arrival times of the stream: a list, or a process with its settings."""
    value = table.raw("arrivals", _ARRIVALS)
    with table.errors("arrivals:"):
        if isinstance(value, list):
            for number, time in enumerate(value):
                if not is_number(time):
                    problem = f"= {quote(time)} is not a number; write seconds"
                    raise table.error(f"arrivals[{number}]", problem)
            return check_sorted(np.array(value, np.float64), "the times")
        if not isinstance(value, dict):
            raise table.error("arrivals", f"= {quote(value)} is wrong; write {_ARRIVALS}")
        settings = dict(value)
        name = settings.pop("process", None)
        if not isinstance(name, str):
            raise table.error("arrivals", f"name no process; known: {known_names(process_names())}")
        if isinstance(file := settings.get("file"), str):
            # relative to the workload file, which can be run from anywhere
            settings["file"] = str(path.parent / file)
        # streams of one process differ: each has a seed of its own
        return process_named(name, settings).times_s(key_of(seed, "arrivals", stream) >> 1)
