"""Workload files: streams, operators and queries in TOML."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from headgate.errors import SetupError, known_names
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Input, OperatorInput, StreamInput, Synthetic
from headgate.scheduling import strategy_named
from headgate.simulator.arrivals import arrival_times
from headgate.simulator.scenario import Figures, OnePerOperator, Pool, Scenario
from headgate.simulator.table import Table, shown

# Python 3.10 has no tomllib; tomli is the same under its first name
_toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

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
    """A workload, and what the file says about strategies."""

    scenario: Scenario
    strategy_settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def strategy_text(self, text: str) -> str:
        """A strategy as ``strategy_named`` reads it, with the settings of the file."""
        name, plus, wrappers = text.partition("+")
        return f"{_with(name, self.strategy_settings.get(name, {}))}{plus}{wrappers}"


def _with(name: str, settings: Mapping[str, float]) -> str:
    written = ",".join(f"{key}={value!r}" for key, value in settings.items())
    return f"{name}:{written}" if written else name


def read_workload(path: Path, seed: int = 0) -> WorkloadFile:
    """Read and check a file; ``seed`` decides random arrivals and fates."""
    return workload_of(toml_content(path), str(path), path.parent, seed)


def workload_of(content: Mapping[str, Any], file: str, folder: Path, seed: int = 0) -> WorkloadFile:
    """A workload from what TOML gives; ``folder`` is where recorded traces are."""
    whole = Table(content, file)
    whole.only(*_KEYS)
    streams = whole.tables("streams", _STREAM)
    operators = whole.tables("operators", _OPERATOR)
    for name in operators:
        if name in streams:
            raise whole.error(f"operators.{name}", "has the name of a stream; choose another")
    figures = {name: _figures(table) for name, table in operators.items()}
    network = _network(whole, streams, operators)
    for table in streams.values():
        table.only("arrivals", "bytes")
    widths = {name: table.number("bytes", 64.0, above=True) for name, table in streams.items()}
    times = {name: arrival_times(table, name, folder, seed) for name, table in streams.items()}
    time_unit_s = whole.number("time_unit", None, above=True)
    processors, fate = _processors(whole), whole.choice("fate", ("page", "random"))
    try:
        scenario = Scenario(network, figures, times, widths, time_unit_s, processors, fate, seed)
    except SetupError as error:
        raise SetupError(f"{file}: {error}") from None
    return WorkloadFile(scenario, _strategy_settings(whole))


def toml_content(path: Path, wanted: str = "a workload file (.toml)", hint: str = "") -> dict[str, Any]:
    """What a file of TOML holds; errors name what is ``wanted``, and what helps if there is no such file."""
    if path.is_dir():
        raise SetupError(f"{path} is a folder; name {wanted}")
    try:
        content: dict[str, Any] = _toml.loads(path.read_text(encoding="utf-8"))
        return content
    except FileNotFoundError:
        raise SetupError(f"no such file: {path}{hint}") from None
    except UnicodeDecodeError:
        raise SetupError(f"{path} is no text in UTF-8; name {wanted}") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except _toml.TOMLDecodeError as error:
        raise SetupError(f"{path} is no valid TOML: {error}") from None


def _figures(table: Table) -> Figures:
    table.only(*_OPERATOR_KEYS)
    if all(key in table for key in _RATIO):
        raise table.error(_RATIO[0], f"and {_RATIO[1]} are the same; keep one of them")
    ratio = _RATIO[0] if _RATIO[0] in table else _RATIO[1]
    return Figures(
        seconds=table.number("seconds"),
        selectivity=table.number("selectivity", 1.0),
        size_ratio=table.number(ratio, 1.0, above=True),
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
    if "input" in table and "inputs" in table:
        raise table.error("input", "and inputs exclude each other; keep one of them")
    key = "inputs" if "inputs" in table else "input"
    names = table.names(key, 'the name of a stream or an operator, or inputs = ["a", "b"]')
    found: list[Input] = []
    for name in names:
        if name in streams:
            found.append(StreamInput(name, name, ()))
        elif name in operators:
            found.append(OperatorInput(name))
        else:
            known = known_names([*streams, *operators])
            raise table.error(key, f"= {shown(name)} is no stream or operator; known: {known}")
    return tuple(found)


def _queries(
    whole: Table, operators: Mapping[str, Table], below: Mapping[str, list[str]]
) -> tuple[QueryDefinition, ...]:
    if "queries" not in whole:
        read = {name for names in below.values() for name in names}
        last = [name for name in operators if name not in read]
        return tuple(QueryDefinition(name, (name,), SinkDefinition("none")) for name in last)
    queries = []
    for name, table in whole.tables("queries", _QUERY).items():
        table.only("output", "latency")
        outputs = table.names("output", "the name of an operator")
        for output in outputs:
            if output not in operators:
                known = known_names(list(operators))
                raise table.error("output", f"= {shown(output)} is no operator; known: {known}")
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
    settings: dict[str, dict[str, float]] = {}
    if "strategies" in whole:
        for name, table in whole.tables("strategies", "[strategies.NAME] with its settings").items():
            settings[name] = {key: table.number(key, least=float("-inf")) for key in table.keys}
            try:
                strategy_named(_with(name, settings[name]))
            except SetupError as error:
                raise whole.error(f"strategies.{name}:", str(error)) from None
    return settings


def is_workload(path: Path) -> bool:
    """Whether a file is a workload, and not one of CQL: by its name, or else by its text."""
    if path.suffix.lower() in (".sql", ".cql"):
        return False
    if path.suffix.lower() == ".toml" or not path.is_file():
        return True
    return not re.search(r"^\s*CREATE\s", path.read_text(encoding="utf-8", errors="replace"), _ANY_LINE)
