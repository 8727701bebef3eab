"""Arrival processes by name, their settings checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from headgate.errors import SetupError, known_names
from headgate.workload.flows import ParetoFlows
from headgate.workload.listed import Listed
from headgate.workload.poisson import Phases, Poisson
from headgate.workload.superposed import Superposed
from headgate.workload.times import TimesProcess
from headgate.workload.trace import Trace

_PROCESSES: dict[str, type[Any]] = {
    "list": Listed,
    "poisson": Poisson,
    "phases": Phases,
    "pareto-flows": ParetoFlows,
    "on-off": Superposed,
    "trace": Trace,
}


def process_names() -> tuple[str, ...]:
    """All processes there are."""
    return tuple(_PROCESSES)


def process_named(name: str, settings: Mapping[str, object]) -> TimesProcess:
    """The process of that name; raises on a missing, unknown or impossible setting."""
    if name not in _PROCESSES:
        raise SetupError(f"unknown process {name}; known: {known_names(process_names())}")
    chosen = _PROCESSES[name]
    known = {field.name: field for field in fields(chosen)}
    for setting in settings:
        if setting not in known:
            raise SetupError(f"process {name} has no setting {setting}; it has {known_names(list(known))}")
    for field in known.values():
        if field.default is MISSING and field.name not in settings:
            raise SetupError(f"process {name} needs {field.name}; it has {known_names(list(known))}")
    types = get_type_hints(chosen)
    checked = {key: _checked(f"process {name}: {key}", value, types[key]) for key, value in settings.items()}
    try:
        process: TimesProcess = chosen(**checked)
    except SetupError as error:
        raise SetupError(f"process {name}: {error}") from None
    return process


def _checked(what: str, value: object, wanted: object) -> object:
    if wanted is str and isinstance(value, str):
        return value
    if wanted is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if wanted is float and _is_number(value):
        return float(value)  # type: ignore[arg-type]
    if wanted == tuple[float, ...]:
        values = value if isinstance(value, (list, tuple)) else [value]
        if all(map(_is_number, values)):
            return tuple(map(float, values))
    names = {str: "a text", int: "a whole number", float: "a number"}
    raise SetupError(f"{what} = {value!r} is no value for it; write {names.get(wanted, 'a list of numbers')}")  # type: ignore[call-overload]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
