"""Workload files: streams with their arrivals, operators and queries in TOML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import model_validator

from headgate.errors import SetupError
from headgate.formats.document import (
    REQUIRED,
    NamedTables,
    Names,
    Right,
    Section,
    checked,
    naming,
    path_of,
    problem,
    read_toml,
    shown,
    unknown,
)
from headgate.formats.quantity import BYTES, PROCESSORS, RATIO, SECONDS, SELECTIVITY, TIME
from headgate.model.network import Network, QueryDefinition, SinkDefinition, StreamDefinition
from headgate.model.operator import Synthetic
from headgate.model.operator_inputs import Input, OperatorInput, StreamInput
from headgate.model.uniform_hash import key_of
from headgate.scheduling import SETTING, strategy_named
from headgate.simulator.scenario import (
    Behaviour,
    Fate,
    OnePerOperator,
    Pool,
    Scenario,
    Service,
    check_entries,
    entries_of,
    total_inputs,
)
from headgate.workload.processes import MOST_TUPLES, Arrivals, Times, Trace

_ANY_LINE = re.MULTILINE | re.IGNORECASE
_INPUT = 'the name of a stream or an operator, or inputs = ["a", "b"]'


class _Stream(Section):
    example: ClassVar[str] = (
        '[streams.NAME] with arrivals = [0, 1, 2] or { process = "poisson", rate = 10, until = 100 }'
    )
    arrivals: Arrivals = REQUIRED
    bytes: Annotated[float, BYTES] = 64.0

    def times_s(self, seed: int, folder: Path) -> Times:
        process = self.arrivals
        # relative to the workload file, which can be run from anywhere
        return (process.beside(folder) if isinstance(process, Trace) else process).times_s(seed)


class _Operator(Section):
    example: ClassVar[str] = '[operators.NAME] with input = "STREAM", seconds = 1 and selectivity = 0.5'
    input: Annotated[Names, Right(_INPUT)] | None = None
    inputs: Annotated[Names, Right('a list of names, as in ["a", "b"]')] | None = None
    seconds: Annotated[float, SECONDS] = REQUIRED
    selectivity: Annotated[float, SELECTIVITY] = 1.0
    output_size_ratio: Annotated[float, RATIO] | None = None
    size_ratio: Annotated[float, RATIO] | None = None
    """Short for the same."""
    ordered: bool = False
    service: Service = "constant"

    @model_validator(mode="after")
    def _check_together(self) -> _Operator:
        if self.input and self.inputs:
            raise problem("and inputs exclude each other; keep one of them", "input")
        if not self.names:
            raise problem(f"is missing; write {_INPUT}", "input")
        if self.output_size_ratio and self.size_ratio:
            raise problem("and size_ratio are the same; keep one of them", "output_size_ratio")
        if self.ordered and len(self.names) < 2:
            raise problem("needs several inputs; one input is in order anyway", "ordered")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return self.inputs or self.input or ()

    @property
    def behaviour(self) -> Behaviour:
        ratio = self.output_size_ratio or self.size_ratio or 1.0
        return Behaviour(self.seconds, self.selectivity, ratio, self.service)


class _Query(Section):
    example: ClassVar[str] = '[queries.NAME] with output = "OPERATOR"'
    output: Annotated[Names, Right("the name of an operator, or a list of names")] = REQUIRED
    latency: Annotated[float, TIME] | None = None


_Settings = dict[str, dict[str, Annotated[float, SETTING]]]


class _Workload(Section):
    time_unit: Annotated[float, TIME] | None = None
    processors: Annotated[int, PROCESSORS] | None = None
    servers: Literal["pool", "each"] = "pool"
    fate: Fate = "page"
    streams: Annotated[dict[str, _Stream], NamedTables()] = REQUIRED
    operators: Annotated[dict[str, _Operator], NamedTables()] = REQUIRED
    queries: Annotated[dict[str, _Query], NamedTables()] | None = None
    strategies: Annotated[_Settings, NamedTables(example="[strategies.NAME] with its settings")] | None = None

    @model_validator(mode="after")
    def _check_together(self) -> _Workload:
        if self.servers == "each" and self.processors:
            raise problem('has no meaning with servers = "each"; keep one of them', "processors")
        tuples = sum(stream.arrivals.expected for stream in self.streams.values())
        if tuples > MOST_TUPLES:
            raise problem(
                f": about {tuples:.3g} tuples of all are too many; {MOST_TUPLES:,} can be", "streams"
            )
        return self


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
    whole: _Workload = checked(_Workload, read_toml(path, "a workload file (.toml)"), str(path))
    with naming(str(path)):
        network = _network(whole)
        for name, settings in (whole.strategies or {}).items():
            with naming(path_of("strategies", name)):
                strategy_named(_with(name, settings))
        # before times are drawn, which may take long
        network.paths()
        behaviours = {name: operator.behaviour for name, operator in whole.operators.items()}
        expected = {name: stream.arrivals.expected for name, stream in whole.streams.items()}
        check_entries(entries_of(total_inputs(network, behaviours, expected, {}), whole.fate))
        arrivals_s = {}
        for name, stream in whole.streams.items():
            with naming(path_of("streams", name, "arrivals")):
                # streams of one process differ: each has a seed of its own
                arrivals_s[name] = stream.times_s(key_of(seed, "arrivals", name) >> 1, path.parent)
        scenario = Scenario(
            network=network,
            behaviours=behaviours,
            arrivals_s=arrivals_s,
            bytes_per_tuple={name: stream.bytes for name, stream in whole.streams.items()},
            time_unit_s=whole.time_unit,
            processors=OnePerOperator() if whole.servers == "each" else Pool(whole.processors or 1),
            fate=whole.fate,
            seed=seed,
        )
    return WorkloadFile(scenario, whole.strategies or {})


def _network(whole: _Workload) -> Network:
    inputs = {name: _inputs(name, whole) for name in whole.operators}
    below = {name: [i.operator for i in own if isinstance(i, OperatorInput)] for name, own in inputs.items()}
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise SetupError(f"operators form a cycle: {circle}; break it") from None
    return Network(
        tuple(StreamDefinition(name, "synthetic", None) for name in whole.streams),
        (),
        tuple(Synthetic(name, inputs[name], operator.ordered) for name, operator in whole.operators.items()),
        _queries(whole, read={name for names in below.values() for name in names}),
    )


def _inputs(operator: str, whole: _Workload) -> tuple[Input, ...]:
    if operator in whole.streams:
        raise SetupError(f"{path_of('operators', operator)} has the name of a stream; choose another")
    own = whole.operators[operator]
    for name in own.names:
        if name not in whole.streams and name not in whole.operators:
            place = path_of("operators", operator, "inputs" if own.inputs else "input")
            known = [*whole.streams, *whole.operators]
            raise SetupError(f"{place} = {shown(name)} {unknown(name, 'a stream or operator', known)}")
    return tuple(StreamInput(n, n, ()) if n in whole.streams else OperatorInput(n) for n in own.names)


def _queries(whole: _Workload, read: set[str]) -> tuple[QueryDefinition, ...]:
    """The queries of the file; without any, one for each operator that no other reads."""
    none = SinkDefinition("none")
    if whole.queries is None:
        return tuple(QueryDefinition(name, (name,), none) for name in whole.operators if name not in read)
    for name, query in whole.queries.items():
        place = path_of("queries", name, "output")
        for output in query.output:
            if output not in whole.operators:
                raise SetupError(
                    f"{place} = {shown(output)} {unknown(output, 'an operator', whole.operators)}"
                )
        if len(set(query.output)) < len(query.output):
            raise SetupError(f"{place} names an operator twice; write each once")
    return tuple(QueryDefinition(name, q.output, none, q.latency) for name, q in whole.queries.items())
