"""What a profile and the streams themselves tell of a network; nothing is assumed of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from headgate.errors import SetupError
from headgate.model.network import Network, StreamDefinition
from headgate.model.operator_inputs import OperatorInput
from headgate.model.profile import Profile, Profiles, TickCosts
from headgate.statistics.profile_file import Measured
from headgate.workload.declared_rates import declared_rate

# no tuple comes: neither cost nor selectivity matters
_IDLE = Profile(0.0, 0.0, 0.0)
# how what was not measured names the costs of ticks; the names of operators have a dot
TICKS = "ticks"
_SHOWN = 3
_CHANGED = "it has changed since it was measured"


@dataclass(frozen=True)
class Origin:
    """Where a profile is from and what measures it, for error messages."""

    name: str = "the profile"
    command: str = "headgate profile"


THE_PROFILE = Origin()


class NotMeasured(SetupError):
    """A prediction would rest on something that was not measured; the text says on what."""


class NoRate(NotMeasured):
    """Neither a stream itself nor its profile says how many tuples it brings."""

    def __init__(self, stream: str, text: str) -> None:
        super().__init__(text)
        self.stream = stream


def current(measured: Measured, network: Network) -> Measured:
    """The profile without operators that were others when they were measured."""
    then = measured.definitions
    changed = [
        name for name in network.operators.keys() & then.keys() if network.definition(name) != then[name]
    ]
    return replace(
        measured,
        profiles={name: profile for name, profile in measured.profiles.items() if name not in changed},
        not_measured={**measured.not_measured, **dict.fromkeys(changed, _CHANGED)},
    )


def with_idle_operators(measured: Measured, network: Network) -> Measured:
    """The profile as far as it is current, in which operators that no tuple can reach cost nothing.

    They could not be measured, and need not be: by the selectivities below them nothing arrives.
    """
    measured = current(measured, network)
    profiles = dict(measured.profiles)
    silent: set[str] = set()
    for name, operator in network.operators.items():
        if all(isinstance(i, OperatorInput) and i.operator in silent for i in operator.inputs):
            profiles.setdefault(name, _IDLE)
            silent.add(name)
        elif name in profiles and profiles[name].selectivity == 0:
            silent.add(name)
    return replace(measured, profiles=profiles)


def idle_operators(measured: Measured, network: Network) -> tuple[str, ...]:
    """Operators that were not measured since no tuple reaches them."""
    return tuple(
        name
        for name in with_idle_operators(measured, network).profiles
        if name in network.operators and name not in current(measured, network).profiles
    )


def missing_operators(measured: Measured, network: Network) -> Mapping[str, str]:
    """Operators that tuples reach and that were not measured, and why not."""
    known = with_idle_operators(measured, network)
    return {
        name: known.not_measured.get(name, "it is not in the profile")
        for name in network.operators
        if name not in known.profiles
    }


def operator_profiles(measured: Measured, network: Network, origin: Origin = THE_PROFILE) -> Profiles:
    """The profiles of all operators of a network; raises if one was not measured."""
    missing = missing_operators(measured, network)
    if missing:
        lacks = f"{origin.name} has no profile of operator {with_reasons(missing)}"
        raise NotMeasured(f"{lacks}; measure it with {origin.command}")
    known = with_idle_operators(measured, network).profiles
    return {name: known[name] for name in network.operators}


def tick_costs_of(measured: Measured, origin: Origin = THE_PROFILE) -> TickCosts:
    """The costs of ticks; raises if they were not measured."""
    if measured.tick is None:
        why = measured.not_measured.get(TICKS)
        lacks = f"{origin.name} has no costs of ticks{f' ({why})' if why else ''}"
        raise NotMeasured(f"{lacks}; measure them with {origin.command}")
    return measured.tick


def stream_rates(
    measured: Measured, network: Network, given: Mapping[str, float] = MappingProxyType({})
) -> dict[str, float]:
    """Tuples per second of all streams: as given, else as a stream declares, else as profiled.

    What a stream declares may have changed since its profile was taken. Raises ``NoRate`` if one is unknown.
    """
    return {
        name: given[name] if name in given else _stream_rate(measured, stream)
        for name, stream in network.streams.items()
    }


def _stream_rate(measured: Measured, stream: StreamDefinition) -> float:
    declared = declared_rate(stream)
    if declared is not None:
        return declared
    if stream.name in measured.tuples_per_s:
        return measured.tuples_per_s[stream.name]
    per_s = measured.machine_bound.get(stream.name)
    only = "" if per_s is None else f", only that the profiled machine reads {per_s:,.0f} tuples/s of it"
    raise NoRate(stream.name, f"no rate of stream {stream.name} is known{only}")


def with_reasons(missing: Mapping[str, str]) -> str:
    """What was not measured and why, in one line."""
    parts = [f"{name} ({reason})" for name, reason in missing.items()]
    more = f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return ", ".join(parts[:_SHOWN]) + more
